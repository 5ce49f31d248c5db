package sim_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// running has one container "c" running in pod "u".
func running(t *testing.T, cfg sim.Config, argv ...string) (*sim.Remote, backend.Backend) {
	t.Helper()
	cfg.Images = []string{"busybox"}
	r := sim.New(cfg)
	b := r.Backend()
	c := container("c", argv...)
	c.Container.Env = []corev1.EnvVar{{Name: "A", Value: "one"}, {Name: "B", Value: "two words"}}
	s := spec("u", 0, c)
	must(t, b.Pods.Launch(t.Context(), t.Context(), s))
	if !cfg.PodUnit {
		must(t, b.Containers.Start(t.Context(), s.Ref(), s.Containers[0]))
	}
	return r, b
}

// TestExec: commands are read as busybox would run them.
func TestExec(t *testing.T) {
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	cases := map[string]struct {
		argv  []string
		stdin string
		want  string
		code  int32
		takes time.Duration
	}{
		"true":           {argv: []string{"true"}},
		"false":          {argv: []string{"/bin/false"}, code: 1},
		"exit code":      {argv: sh("exit 3"), code: 3},
		"echo":           {argv: []string{"echo", "a  b"}, want: "a  b\n"},
		"echo -n":        {argv: sh("echo -n a; echo b >&2; echo c"), want: "ab\nc\n"},
		"dropped output": {argv: sh("echo a > /dev/null; false 2>&1 || echo b"), want: "b\n"},
		"sleep":          {argv: []string{"sleep", "2"}, takes: 2 * time.Second},
		"and, or":        {argv: sh("false && echo a || echo b && echo c"), want: "b\nc\n"},
		"stdin":          {argv: []string{"cat"}, stdin: "in\nput", want: "in\nput"},
		"no stdin":       {argv: []string{"cat"}},
		"no file": {
			argv: []string{"cat", "/none"}, want: "cat: can't open '/none': No such file or directory\n", code: 1,
		},
		"files": {
			argv: sh("echo x > /f; echo y >> /f; cat < /f; rm /f; test -e /f || echo gone"), want: "x\ny\ngone\n",
		},
		"test":          {argv: sh("[ a = a ] && [ ! -z x ] && test -d /tmp && test a != b"), code: 0},
		"test is false": {argv: []string{"test", "-e", "/none"}, code: 1},
		"printenv":      {argv: []string{"printenv", "B", "HOSTNAME"}, want: "two words\npod-u\n"},
		"env": {
			argv: []string{"env"},
			want: "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nHOSTNAME=pod-u\nA=one\nB=two words\n",
		},
		"variables":          {argv: sh(`echo $A "${B}" '$A' $NONE "$NONE."`), want: "one two words $A .\n"},
		"comment":            {argv: sh("echo a # b; echo c\necho d"), want: "a\nd\n"},
		"continued line":     {argv: sh("true &&\necho a"), want: "a\n"},
		"nested":             {argv: sh(`sh -c "exit 4"; echo "\"b"; exit`), want: "\"b\n"},
		"unknown in a shell": {argv: sh("nothing; echo a"), want: "sh: nothing: not found\na\n"},
		"beyond":             {argv: sh("echo $(date)"), want: "sh: syntax that the simulator does not know\n", code: 2},
		"a directory stays": {
			argv: sh("touch /tmp; echo x > /tmp; cat /tmp/up"), want: "sh: can't create /tmp: Is a directory\nup\n",
		},
		"its own files": {argv: []string{"cat", "/tmp/up"}, want: "up\n"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{PodUnit: len(name)%2 == 0}, "sh", "-c", "echo up > /tmp/up; sleep 60")
				begun := time.Now()
				out, code, err := run(t.Context(), b, "c", tt.stdin, tt.argv...)
				if err != nil || out != tt.want || code != tt.code || time.Since(begun) != tt.takes {
					t.Errorf(
						"%q, %d, %v after %v; want %q, %d after %v", out, code, err, time.Since(begun), tt.want, tt.code, tt.takes,
					)
				}
			})
		})
	}
}

func TestExecEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, b := running(t, sim.Config{}, "sleep", "10")
		_, _, err := run(ctx, b, "c", "", "no-such-program")
		wantClass(t, err, "Invalid")
		_, _, err = run(ctx, b, "c", "")
		wantClass(t, err, "Invalid")
		_, _, err = run(ctx, b, "d", "", "true")
		wantClass(t, err, "NotFound")

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		begun := time.Now()
		out, _, err := run(short, b, "c", "", "sh", "-c", "echo a; sleep 60; echo b")
		if !errors.Is(err, context.DeadlineExceeded) || out != "a\n" || time.Since(begun) != time.Second {
			t.Errorf("ended by its context: %q, %v after %v", out, err, time.Since(begun))
		}
		var never blockedReader
		never.until = make(chan struct{})
		short, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		ref := backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: "c"}
		_, err = b.Exec.Exec(short, ref, backend.ExecSpec{Command: []string{"cat"}, Stdin: never})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for input: %v", err)
		}
		close(never.until)

		_, code, err := run(ctx, b, "c", "", "sleep", "infinity")
		if err != nil || code != 137 || time.Since(begun) != 10*time.Second {
			t.Errorf("ended with its container: %d, %v after %v", code, err, time.Since(begun))
		}
		_, _, err = run(ctx, b, "c", "", "true")
		wantClass(t, err, "NotFound")
	})
}

type blockedReader struct{ until chan struct{} }

func (r blockedReader) Read([]byte) (int, error) {
	<-r.until
	return 0, io.EOF
}

// TestExecScript: a test says what commands do, and when.
func TestExecScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the shim broke")
		_, b := running(t, sim.Config{Exec: func(c sim.Command) (sim.Outcome, bool) {
			switch c.Argv[0] {
			case "probe":
				if c.Ran < 5*time.Second {
					return sim.Outcome{ExitCode: 1, Stderr: "not yet\n"}, true
				}
				return sim.Outcome{After: time.Second, Stdout: "up\n"}, true
			case "break":
				return sim.Outcome{Err: broken}, true
			}
			return sim.Outcome{}, false
		}}, "serve")
		if out, code, err := run(t.Context(), b, "c", "", "probe"); out != "not yet\n" || code != 1 || err != nil {
			t.Errorf("before: %q, %d, %v", out, code, err)
		}
		time.Sleep(5 * time.Second)
		if out, code, err := run(t.Context(), b, "c", "", "probe"); out != "up\n" || code != 0 || err != nil {
			t.Errorf("after: %q, %d, %v", out, code, err)
		}
		if _, _, err := run(t.Context(), b, "c", "", "break"); !errors.Is(err, broken) {
			t.Errorf("error: %v", err)
		}
		wantOutput(t, b, "c", "one\n", "printenv", "A")
	})
}

// TestTerminationMessage: what the kubelet would find (behaviour 15).
func TestTerminationMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		path   string
		policy corev1.TerminationMessagePolicy
		want   string
	}{
		"file":         {script: "echo -n bye > /dev/termination-log; exit 1", want: "bye"},
		"of a success": {script: "echo bye > /dev/termination-log", want: "bye\n"},
		"other path":   {script: "echo bye > /tmp/x; exit 1", path: "/tmp/x", want: "bye\n"},
		"wrong path":   {script: "echo bye > /tmp/x; exit 1"},
		"no message":   {script: "echo bye; exit 1"},
		"log": {
			script: "echo a; echo b; exit 1", policy: corev1.TerminationMessageFallbackToLogsOnError, want: "a\nb\n",
		},
		"log of a success": {script: "echo a", policy: corev1.TerminationMessageFallbackToLogsOnError},
		"file before log": {
			script: "echo a; echo b > /dev/termination-log; exit 1", policy: corev1.TerminationMessageFallbackToLogsOnError,
			want: "b\n",
		},
		"killed before it": {script: "sleep 5; echo bye > /dev/termination-log"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				r := sim.New(sim.Config{PodUnit: true})
				c := container("c", "sh", "-c", tt.script)
				c.Container.TerminationMessagePath, c.Container.TerminationMessagePolicy = tt.path, tt.policy
				must(t, r.Backend().Pods.Launch(ctx, ctx, spec("u", 0, c)))
				if name == "killed before it" {
					must(t, r.Backend().Pods.Stop(ctx, backend.Ref{UID: "u"}, 0))
				}
				if got := r.Facts()[0].Containers[0]; got.State() != backend.Exited || got.Message != tt.want {
					t.Errorf("%+v, want the message %q", got, tt.want)
				}
			})
		})
	}
}
