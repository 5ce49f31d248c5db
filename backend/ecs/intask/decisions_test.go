package intask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// TestWhereAProgramIsFound: as execvp looks for it, in runc's words for what it does not find.
func TestWhereAProgramIsFound(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{
		"here": 0o755, "a/both": 0o755, "b/both": 0o755, "a/text": 0o644, "b/text": 0o755, "a/plain": 0o644, "b/late": 0o755,
	} {
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, nil, mode))
	}
	must(t, os.Mkdir("b/folder", 0o755))
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	const unset = "unset"
	for _, tt := range []struct {
		name, path, want string
		is               error
	}{
		{"both", a + ":" + b, a + "/both", nil},
		{"both", b + ":" + a, b + "/both", nil},
		{"late", a + ":/none:" + b, b + "/late", nil},
		{"text", a + ":" + b, b + "/text", nil}, // what may not be executed is passed over
		{"plain", a + ":" + b, `exec: "plain": permission denied`, fs.ErrPermission},
		{"folder", b, `exec: "folder": executable file not found in $PATH`, exec.ErrNotFound},
		{"here", "", `exec: "here": executable file not found in $PATH`, exec.ErrNotFound},
		{"here", a + "::" + b, "./here", nil}, // an empty part is the working directory
		{"here", unset, `exec: "here": executable file not found in $PATH`, exec.ErrNotFound},
		{"", a, `exec: "": executable file not found in $PATH`, exec.ErrNotFound},
		{"./here", "", "./here", nil},
		{"a/both", "/none", "a/both", nil},
		{"a/plain", b, `exec: "a/plain": permission denied`, fs.ErrPermission},
		{"./none", dir, `exec: "./none": stat ./none: no such file or directory`, fs.ErrNotExist},
		{b + "/folder", "", fmt.Sprintf("exec: %q: is a directory", b+"/folder"), syscall.EISDIR},
	} {
		t.Setenv("PATH", tt.path)
		if tt.path == unset {
			must(t, os.Unsetenv("PATH"))
		}
		got, err := lookPath(tt.name)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%q in %q: %s, want %s", tt.name, tt.path, got, tt.want)
		}
	}
}

// TestWhatBecomesOfAStartThatFailed: the exit code is what a runtime gives, and the reason tells
// whose fault it was.
func TestWhatBecomesOfAStartThatFailed(t *testing.T) {
	command := func(errno syscall.Errno) error {
		return fmt.Errorf("start: %w", &startError{failure{errno, "in runc's words"}})
	}
	const words = "start: in runc's words"
	for name, tt := range map[string]struct {
		err  error
		want Report
	}{
		"no such command":    {command(0), Report{Exit: 127, Reason: ReasonStartError, Message: words}},
		"no such file":       {command(syscall.ENOENT), Report{Exit: 127, Reason: ReasonStartError, Message: words}},
		"not executable":     {command(syscall.EACCES), Report{Exit: 126, Reason: ReasonStartError, Message: words}},
		"of another machine": {command(syscall.ENOEXEC), Report{Exit: 126, Reason: ReasonStartError, Message: words}},
		"the pod's fault": {
			fmt.Errorf("no%w", errConfig), Report{Exit: 128, Reason: ReasonConfigError, Message: "no"},
		},
		"any other": {errors.New("disk full"), Report{Exit: 128, Reason: ReasonStartError, Message: "disk full"}},
	} {
		if got := startFailure(tt.err); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestWhoNeedsTheTasksAddresses: they are asked for only if something in the pod names them, and
// then a task that is stopped meanwhile says so.
func TestWhoNeedsTheTasksAddresses(t *testing.T) {
	check := &Probe{Handler: Handler{Exec: []string{"check"}}}
	ask := &Probe{Handler: Handler{TCP: &TCPSocket{Port: 1}}}
	for name, tt := range map[string]struct {
		spec    Spec
		argv    []string
		environ []string
		needed  bool
	}{
		"nobody":             {Spec{}, []string{"run"}, []string{"A=1"}, false},
		"hosts":              {Spec{Hosts: &Hosts{}}, nil, nil, true},
		"a variable":         {Spec{}, nil, []string{"A=1", "IP=" + LatePodIP}, true},
		"an argument":        {Spec{}, []string{"run", "--ips=" + LateHostIPs}, nil, true},
		"commands as probes": {Spec{Startup: check, Liveness: check, Readiness: check}, nil, nil, false},
		"a startup probe":    {Spec{Startup: ask, Liveness: check}, nil, nil, true},
		"a liveness probe":   {Spec{Liveness: ask}, nil, nil, true},
		"a readiness probe":  {Spec{Liveness: check, Readiness: ask}, nil, nil, true},
		"a command as a hook": {
			Spec{PostStart: &Handler{Exec: []string{"x"}}, PreStop: &Handler{Sleep: new(int64(1))}}, nil, nil, false,
		},
		"a postStart hook": {Spec{PostStart: &Handler{HTTP: &HTTPGet{}}}, nil, nil, true},
		"a preStop hook":   {Spec{PreStop: &Handler{HTTP: &HTTPGet{}}}, nil, nil, true},
	} {
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		task := Task{Environ: tt.environ, Env: func(string) string { return "http://127.0.0.1:1" }}
		got, err := task.addressesFor(stopped, tt.spec, tt.argv)
		if got != nil || errors.Is(err, context.Canceled) != tt.needed || err != nil != tt.needed {
			t.Errorf("%s: %v, %v; needed: %v", name, got, err, tt.needed)
		}
	}
}

// TestWhatAProbeFindsCounts: which outcome ends the container, and what is said of it meanwhile.
func TestWhatAProbeFindsCounts(t *testing.T) {
	bad := func(k kind) finding {
		return finding{kind: k, verdict: failed, message: "it " + fmt.Sprint(k) + " failed"}
	}
	good := func(k kind) finding { return finding{kind: k, verdict: success} }
	for name, tt := range map[string]struct {
		before   state
		findings []finding
		ends     bool // with the last
		says     string
	}{
		"started, then ready": {state{hooked: true}, []finding{good(startup), good(readiness)}, false, healthy},
		"started alone":       {state{hooked: true}, []finding{good(startup)}, false, pendingReady},
		"ready, not started":  {state{hooked: true}, []finding{good(readiness)}, false, pendingStart},
		"not ready": {
			state{hooked: true, started: true}, []finding{bad(readiness)}, false, bad(readiness).message,
		},
		"ready no more": {
			state{hooked: true, started: true, ready: true}, []finding{bad(readiness)}, false, bad(readiness).message,
		},
		"ready once more": {
			state{hooked: true, started: true}, []finding{bad(readiness), good(readiness)}, false, healthy,
		},
		"not alive": {
			state{hooked: true, started: true}, []finding{bad(liveness)}, true, bad(liveness).message,
		},
		"alive":                   {state{hooked: true, started: true}, []finding{good(liveness)}, false, pendingReady},
		"never started":           {state{hooked: true}, []finding{bad(startup)}, true, bad(startup).message},
		"started after a failure": {state{hooked: true, why: "slow"}, []finding{good(startup)}, false, pendingReady},
	} {
		s := &supervisor{task: Task{RunDir: t.TempDir()}, state: tt.before}
		must(t, publish(s.task.RunDir, s.state))
		var ends bool
		for _, f := range tt.findings {
			ends = s.found(f)
		}
		if says := read(t, filepath.Join(s.task.RunDir, healthFile)); ends != tt.ends || says != tt.says || s.trouble != nil {
			t.Errorf("%s: ends %v, says %q, %v; want %v, %q", name, ends, says, s.trouble, tt.ends, tt.says)
		}
	}
}

// TestAContainerThatCannotSayHowItIsIsNotReady: where its file cannot be written it is taken away.
func TestAContainerThatCannotSayHowItIsIsNotReady(t *testing.T) {
	s := &supervisor{task: Task{RunDir: t.TempDir()}, state: state{hooked: true, started: true, ready: true}}
	must(t, publish(s.task.RunDir, s.state))
	// A directory in its place stands for a volume that takes no more files.
	must(t, os.Mkdir(filepath.Join(s.task.RunDir, healthFile+".new"), 0o700))
	s.found(finding{kind: readiness, verdict: failed, message: "no"})
	_, err := os.Stat(filepath.Join(s.task.RunDir, healthFile))
	if !errors.Is(err, fs.ErrNotExist) || s.trouble == nil {
		t.Errorf("the file: %v, trouble: %v", err, s.trouble)
	}
	s.spec.MessagePath, s.spec.MessageFromLogs = filepath.Join(s.task.RunDir, "message"), true
	r := Report{Exit: 1}
	if s.words(&r); r.Message != s.trouble.Error() || r.FromLogs {
		t.Errorf("nobody hears of it: %+v", r)
	}
}

// TestHowLongAContainerMayTakeToEnd: the probe's own grace, where it has one, else the pod's.
func TestHowLongAContainerMayTakeToEnd(t *testing.T) {
	own := func(seconds int64) *Probe { return &Probe{Grace: &seconds} }
	for _, tt := range []struct {
		spec Spec
		kind kind
		want time.Duration
	}{
		{Spec{Grace: 30, Liveness: &Probe{}}, liveness, 30 * time.Second},
		{Spec{Grace: 30, Liveness: own(5), Startup: &Probe{}}, liveness, 5 * time.Second},
		{Spec{Grace: 30, Liveness: own(5), Startup: &Probe{}}, startup, 30 * time.Second},
		{Spec{Grace: 30, Liveness: own(5), Startup: own(60)}, startup, 60 * time.Second},
		{Spec{Grace: 30, Liveness: own(0)}, liveness, 0},
	} {
		if got := (&supervisor{spec: tt.spec}).graceOf(tt.kind); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.spec, got, tt.want)
		}
	}
}

// TestWhereAMessageComesFrom: the file's text, then what went wrong, then the log if the pod asks
// for it and the container failed.
func TestWhereAMessageComesFrom(t *testing.T) {
	trouble := errors.New("the volume is full")
	for name, tt := range map[string]struct {
		file     string
		trouble  error
		fromLogs bool
		exit     int
		want     string
		log      bool
	}{
		"its own":                  {"bye", trouble, true, 1, "bye", false},
		"none":                     {"", nil, false, 1, "", false},
		"what went wrong":          {"", trouble, true, 1, "the volume is full", false},
		"the log":                  {"", nil, true, 1, "", true},
		"the log of a success":     {"", nil, true, 0, "", false},
		"a message of a success":   {"done", nil, true, 0, "done", false},
		"a directory in its place": {"/", nil, true, 1, "Error on reading termination log PATH: PATH is no file", false},
	} {
		s := &supervisor{
			spec: Spec{MessagePath: filepath.Join(t.TempDir(), "log"), MessageFromLogs: tt.fromLogs}, trouble: tt.trouble,
		}
		if tt.file == "/" {
			must(t, os.Mkdir(s.spec.MessagePath, 0o700))
		} else {
			must(t, os.WriteFile(s.spec.MessagePath, []byte(tt.file), 0o600))
		}
		r := Report{Exit: tt.exit}
		s.words(&r)
		if got := strings.ReplaceAll(r.Message, s.spec.MessagePath, "PATH"); got != tt.want || r.FromLogs != tt.log {
			t.Errorf("%s: %q, from the log: %v; want %q, %v", name, got, r.FromLogs, tt.want, tt.log)
		}
	}
	if got := (&supervisor{}).messagePath(); got != "/dev/termination-log" {
		t.Errorf("by default it is in %s", got)
	}
}

// TestWhatIsShortened: the longest text loses a half, as whole characters, and the caller's hook
// stays as it is.
func TestWhatIsShortened(t *testing.T) {
	hook := HookFailure{What: strings.Repeat("w", 20), Why: strings.Repeat("y", 40)}
	r := Report{Message: strings.Repeat("m", 30), Probe: strings.Repeat("é", 8), Hook: &hook}
	lengths := func() string {
		return fmt.Sprint(len(r.Message), len(r.Probe), len(r.Hook.What), len(r.Hook.Why))
	}
	for _, want := range []string{"30 16 20 20", "15 16 20 20", "15 16 10 20", "15 16 10 10", "15 8 10 10"} {
		if !r.shorten() || lengths() != want || !utf8.ValidString(r.Probe) {
			t.Fatalf("%s, want %s", lengths(), want)
		}
	}
	if len(hook.Why) != 40 {
		t.Error("the caller's hook was shortened too")
	}
	for range 100 {
		if !r.shorten() {
			break
		}
	}
	if r.shorten() || len(r.Message) >= utf8.UTFMax {
		t.Errorf("at the end: %s", lengths())
	}
}

// TestWhatS3Says: an object that is gone is final; a refusal names the permission, as a deleted
// object looks the same without s3:ListBucket.
func TestWhatS3Says(t *testing.T) {
	answer := func(code string) string { return "<Error><Code>" + code + "</Code><Message>m</Message></Error>" }
	for name, tt := range map[string]struct {
		status int
		answer string
		gone   bool
		want   string
	}{
		"gone": {404, answer("NoSuchKey"), true, "get object k: NoSuchKey: "},
		"denied": {
			403, answer("AccessDenied"), false, "get object k: status 403: AccessDenied: m: the task role needs s3:GetObject",
		},
		"busy":      {503, answer("SlowDown"), false, "get object k: status 503: SlowDown: m"},
		"no bucket": {404, answer("NoSuchBucket"), false, "get object k: status 404: NoSuchBucket: m"},
		"no words":  {502, "bad gateway", false, "get object k: status 502 without an answer"},
	} {
		err := objectError("k", tt.status, []byte(tt.answer))
		if !strings.HasPrefix(err.Error(), tt.want) || errors.Is(err, errNoSecret) != tt.gone {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestOrdersOfASupervisor: those of another version that it can read it follows; none, or what is
// no JSON, it says by the variable's name.
func TestOrdersOfASupervisor(t *testing.T) {
	want := Spec{Grace: 30, MessagePath: "/m"}
	text, err := want.Encode()
	must(t, err)
	for given, says := range map[string]string{
		text: "", `{"grace":30,"messagePath":"/m","later":1}`: "",
		"": "there is no " + EnvSupervise, "{": "read " + EnvSupervise + ": unexpected end of JSON input",
	} {
		got, err := decodeSpec(given)
		if says == "" && (err != nil || got.Grace != 30 || got.MessagePath != "/m") || says != "" && (err == nil ||
			err.Error() != says) {
			t.Errorf("%q: %+v, %v; want %q", given, got, err, says)
		}
	}
}
