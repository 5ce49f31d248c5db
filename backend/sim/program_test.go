package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func TestFromArgv(t *testing.T) {
	const s = time.Second
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	forever := Life{RunFor: -1}
	for _, tt := range []struct {
		argv []string
		want Life
	}{
		{nil, forever},
		{[]string{"true"}, Life{}},
		{[]string{"/bin/true"}, Life{}},
		{[]string{"false"}, Life{ExitCode: 1}},
		{[]string{"sleep", "5"}, Life{RunFor: 5 * s}},
		{[]string{"sleep", "0.5"}, Life{RunFor: s / 2}},
		{[]string{"/bin/sleep", "2m"}, Life{RunFor: 120 * s}},
		{[]string{"sleep", "infinity"}, forever},
		{[]string{"sleep", "inf"}, forever},
		{[]string{"sleep", "1e300"}, forever},
		{[]string{"sleep", "1", "2"}, Life{RunFor: 3 * s}},
		{[]string{"sleep", "3000000000", "3000000000", "3000000000", "3000000000"}, forever},
		{[]string{"sleep", "-1"}, Life{ExitCode: 1}},
		{[]string{"sleep", "NaN"}, Life{ExitCode: 1}},
		{[]string{"sleep"}, Life{ExitCode: 1}},
		{sh("sleep 3000000000; sleep 3000000000; sleep 3000000000; sleep 3000000000"), forever},
		{[]string{"nginx", "-g", "daemon off;"}, forever},
		{[]string{"sh"}, Life{}}, // at the end of its empty input
		{[]string{"sh", "-il"}, Life{}},
		{[]string{"cat"}, Life{}},
		{sh("A=3; sleep $A; exit $A"), Life{RunFor: 3 * s, ExitCode: 3}},
		{sh("false; exit $?"), Life{ExitCode: 1}},
		{sh("exit 3 | cat; exit 4"), Life{ExitCode: 4}},
		{sh("false && exit 3 | exit 4; true"), Life{}},
		{sh("echo a | | cat"), forever},
		{sh("echo a |"), forever},
		{[]string{"sh", "script.sh", "-c"}, forever},
		{sh("exit 7"), Life{ExitCode: 7}},
		{sh("exit"), Life{}},
		{sh("false; exit"), Life{ExitCode: 1}},
		{sh("exit 256"), forever},
		{sh("exit $CODE"), Life{}},
		{[]string{"/bin/ash", "-c", "sleep 3; exit 2"}, Life{RunFor: 3 * s, ExitCode: 2}},
		{sh("sleep 3 && exit 2"), Life{RunFor: 3 * s, ExitCode: 2}},
		{sh("sleep 1; sleep 2"), Life{RunFor: 3 * s}},
		{sh("sleep 1\nexit 4\n"), Life{RunFor: s, ExitCode: 4}},
		{sh("false && exit 5; true"), Life{}},
		{sh("false && exit 5"), Life{ExitCode: 1}},
		{sh("trap '' TERM; sleep 3600"), Life{RunFor: 3600 * s, IgnoreTerm: true}},
		{sh(`trap "" SIGTERM; exec sleep 3600`), Life{RunFor: -1, IgnoreTerm: true}},
		{sh("trap '' TERM; while true; do sleep 1; done"), Life{RunFor: -1, IgnoreTerm: true}},
		{sh("trap 'exit 143' TERM; sleep 3600 & wait"), forever},
		{sh("trap '' INT; true"), forever},
		{sh("echo hello; sleep 1; echo 'a  b'; exit 1"), Life{RunFor: s, ExitCode: 1}},
		{sh("echo x > /tmp/f; exit 1"), Life{ExitCode: 1}},
		{sh("true || exit 1"), Life{}},
		{sh("exit '"), forever},
		{sh(""), Life{}},
		{sh(" ; ;"), Life{}},
	} {
		if got := FromArgv(corev1.Container{Command: tt.argv}); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.argv, got, tt.want)
		}
	}
	got := FromArgv(corev1.Container{Command: []string{"sleep"}, Args: []string{"3"}})
	if got != (Life{RunFor: 3 * s}) {
		t.Errorf("command and args: %+v", got)
	}
	for _, argv := range [][]string{{"sh"}, {"cat"}, sh("echo ready; cat; exit 3")} {
		if got := FromArgv(corev1.Container{Command: argv, Stdin: true}); got != forever {
			t.Errorf("%q with stdin: %+v", argv, got)
		}
	}
}

func TestImageNames(t *testing.T) {
	for image, want := range map[string]struct {
		valid, missing bool
		key            string
	}{
		"busybox":                         {true, false, "busybox:latest"},
		"busybox:1.36":                    {true, false, "busybox:1.36"},
		"localhost:5000/team/missing-one": {true, true, "localhost:5000/team/missing-one:latest"},
		"missing.test/busybox":            {true, false, "missing.test/busybox:latest"},
		"busybox:missing":                 {true, false, "busybox:missing"},
		"":                                {false, false, ":latest"},
		"Busy Box":                        {false, false, "Busy Box:latest"},
		"busybox:":                        {false, false, "busybox:"},
	} {
		if got := imageName.MatchString(image); got != want.valid {
			t.Errorf("%q: valid is %v", image, got)
		}
		if got := isMissing(image); got != want.missing {
			t.Errorf("%q: missing is %v", image, got)
		}
		if got := normalize(image); got != want.key {
			t.Errorf("%q: %q, want %q", image, got, want.key)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	for _, s := range []string{"sleep 3; exit 2", "trap '' TERM; x", "a && 'b", "\\", "&&&", "echo \"a;b\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		c := corev1.Container{Command: []string{"sh", "-c", script}}
		p := readProgram(&container{spec: backend.ContainerSpec{Container: c}}, nil, time.Time{})
		if p.ExitCode < 0 || p.ExitCode > 255 || p.RunFor < -1 {
			t.Errorf("%q: %+v", script, p.Life)
		}
		for i, l := range p.lines {
			if l.at < 0 || (i > 0 && l.at < p.lines[i-1].at) {
				t.Errorf("%q: lines %+v", script, p.lines)
			}
		}
	})
}
