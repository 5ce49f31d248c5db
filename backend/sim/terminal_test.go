package sim_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// keyboard types parts, each a second after the one before, and then stays open.
type keyboard struct {
	io.Reader
	close func()
}

func typing(parts ...string) keyboard {
	read, write := io.Pipe()
	go func() {
		for _, part := range parts {
			time.Sleep(time.Second)
			if _, err := io.WriteString(write, part); err != nil {
				return
			}
		}
	}()
	return keyboard{read, func() { _ = read.Close() }}
}

// atTerminal runs a command in container "c" of pod "u" on a terminal.
func atTerminal(ctx context.Context, b backend.Backend, keys keyboard, argv ...string) (string, int32, error) {
	defer keys.close()
	var out strings.Builder
	sizes := make(chan backend.TerminalSize, 1)
	sizes <- backend.TerminalSize{Width: 80, Height: 24}
	close(sizes)
	code, err := b.Exec.Exec(ctx, backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: "c"},
		backend.ExecSpec{Command: argv, Stdin: keys, Stdout: &out, TTY: true, Resize: sizes})
	return out.String(), code, err
}

// TestTerminal: what a user sees of "kubectl exec -it".
func TestTerminal(t *testing.T) {
	for name, tt := range map[string]struct {
		argv []string
		keys []string
		want string
		code int32
	}{
		"a shell": {
			[]string{"sh"},
			[]string{"echo a\r", "false\r", "exit\r"},
			"/ # echo a\r\na\r\n/ # false\r\n/ # exit\r\n", 1,
		},
		"exit code": {[]string{"/bin/sh", "-i"}, []string{"exit 7\n"}, "/ # exit 7\r\n", 7},
		"editing": {
			[]string{"sh"},
			[]string{"ecko\x7f\x7fho \xc3\xbc\x7f\x1b[Ab\r", "oops\x15exit\r"},
			"/ # ecko\b \b\b \bho \xc3\xbc\b \bb\r\nb\r\n/ # oops\b \b\b \b\b \b\b \bexit\r\n", 0,
		},
		"end of input": {[]string{"sh"}, []string{"\x04"}, "/ # \r\n", 0},
		"interrupts a command": {
			[]string{"sh"},
			[]string{"sleep 3600\r", "\x03", "echo $?\r", "exit\r"},
			"/ # sleep 3600\r\n^C\r\n/ # echo $?\r\n130\r\n/ # exit\r\n", 0,
		},
		"interrupts what serves": {
			[]string{"sh"},
			[]string{"httpd -p 80\r", "\x03", "exit\r"},
			"/ # httpd -p 80\r\n^C\r\n/ # exit\r\n", 130,
		},
		"interrupts a prompt":        {[]string{"sh"}, []string{"exi", "\x03", "exit\r"}, "/ # exi^C\r\n/ # exit\r\n", 130},
		"interrupts without a shell": {[]string{"sleep", "3600"}, []string{"\x03"}, "^C\r\n", 130},
		"interrupts a script":        {[]string{"sh", "-c", "sleep 3600; echo b"}, []string{"\x03"}, "^C\r\n", 130},
		"typed ahead": {
			[]string{"sh"},
			[]string{"sleep 2\recho a\r", "exit\r"},
			"/ # sleep 2\r\necho a\r\nexit\r\n/ # a\r\n/ # ", 0,
		},
		"cat":  {[]string{"cat"}, []string{"a\r", "b\x04", "\x04"}, "a\r\na\r\nbb", 0},
		"size": {[]string{"stty", "size"}, nil, "24 80\r\n", 0},
		"tty":  {[]string{"tty"}, nil, "/dev/pts/0\r\n", 0},
		"cat then shell": {
			[]string{"sh"},
			[]string{"cat\r", "a\r", "\x04", "exit 2\r"},
			"/ # cat\r\na\r\na\r\n/ # exit 2\r\n", 2,
		},
		"state": {
			[]string{"sh"},
			[]string{"cd /tmp\r", "X=1; export Y=2; pwd; echo $X $Y\r", "nonsense\r", "echo $(x)\r", "exit\r"},
			"/ # cd /tmp\r\n/tmp # X=1; export Y=2; pwd; echo $X $Y\r\n/tmp\r\n1 2\r\n/tmp # nonsense\r\nsh: nonsense: not found\r\n" +
				"/tmp # echo $(x)\r\nsh: syntax that the simulator does not know\r\n/tmp # exit\r\n", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{}, "serve")
				out, code, err := atTerminal(t.Context(), b, typing(tt.keys...), tt.argv...)
				if err != nil || out != tt.want || code != tt.code {
					t.Errorf("%q, %d, %v; want %q, %d", out, code, err, tt.want, tt.code)
				}
			})
		})
	}
}

// TestTerminalEnds: with its user or its container.
func TestTerminalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := running(t, sim.Config{}, "sleep", "10")
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, _, err := atTerminal(short, b, typing("sleep 5\r"), "sh")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		_, code, err := atTerminal(t.Context(), b, typing(), "sh")
		if err != nil || code != 137 {
			t.Errorf("with its container: %d, %v", code, err)
		}
	})
}

// TestShellReadsScript: a shell without a terminal runs what its input says.
func TestShellReadsScript(t *testing.T) {
	for name, tt := range map[string]struct {
		stdin, want string
		code        int32
	}{
		"nothing":             {"", "", 0},
		"lines":               {"echo a\necho b", "a\nb\n", 0},
		"exit":                {"echo a\nexit 3\necho b\n", "a\n", 3},
		"status":              {"true\nfalse\n", "", 1},
		"the rest is input":   {"cat\necho a\n", "echo a\n", 0},
		"a mistake ends it":   {"echo a | \necho b", "sh: syntax that the simulator does not know\n", 2},
		"a pipe into another": {"echo 'echo x; exit 5' | sh; echo $?", "x\n5\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{}, "serve")
				out, code, err := run(t.Context(), b, "c", tt.stdin, "sh")
				if err != nil || out != tt.want || code != tt.code {
					t.Errorf("%q, %d, %v; want %q, %d", out, code, err, tt.want, tt.code)
				}
			})
		})
	}
}

// TestCommands: what users of kubectl try, as busybox answers.
func TestCommands(t *testing.T) {
	for script, want := range map[string]string{
		"printf":                      "sh: printf: not found\n",
		"pwd; whoami; id; id -u":      "/\nroot\nuid=0(root) gid=0(root) groups=0(root)\n0\n",
		"date":                        "Sat Jan  1 00:00:00 UTC 2000\n",
		"ps":                          "PID   USER     TIME  COMMAND\n    1 root      0:00 serve\n",
		"cat /etc/hostname; hostname": "pod-u\npod-u\n",
		"ls /; ls /none":              "bin\ndev\netc\nhome\nproc\nroot\nrun\nsys\ntmp\nusr\nvar\nls: /none: No such file or directory\n",
		"mkdir -p /a/b; echo hi > /a/f; ls -l /a; ls /a": "drwxr-xr-x    1 root     root             0 b\n-rw-r--r--    1 root     root             3 f\nb\nf\n",
		"mkdir /a; mkdir /a":                             "mkdir: can't create directory '/a': File exists\n",
		"mkdir /a; touch /a/f; rm /a; rm -r /a; ls /a":   "rm: '/a' is a directory\nls: /a: No such file or directory\n",
		"cat /tmp": "cat: can't open '/tmp': Is a directory\n",
		"cd /none; cd /tmp && echo x > f && cat /tmp/f":                                   "sh: cd: can't cd to /none: No such file or directory\nx\n",
		"env | grep -v ^PATH | head -n 1":                                                 "HOSTNAME=pod-u\n",
		"env | grep -q nothing || echo none":                                              "none\n",
		"echo a b > /f; wc /f; wc -l /f; cat /f | wc -c":                                  "        1         2         4 /f\n1 /f\n4\n",
		"echo a > /f; echo b >> /f; head -1 /f; tail -n1 /f; tail -c +3 /f; head -c 1 /f": "a\nb\nb\na",
		"head -c 5 /dev/zero | wc -c":                                                     "5\n",
		"stty size; tty":                                                                  "stty: standard input: Inappropriate ioctl for device\nnot a tty\n",
		"true && A=x && echo $A$?":                                                        "x0\n",
	} {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{}, "serve")
				wantOutput(t, b, "c", want, "sh", "-c", script)
			})
		})
	}
}

// attaching has one container "c", with stdin, running in pod "u".
func attaching(t *testing.T, once, tty bool, argv ...string) (backend.Backend, backend.ContainerRef) {
	t.Helper()
	r := sim.New(sim.Config{Images: []string{"busybox"}})
	b := r.Backend()
	s := spec("u", 0, container("c", argv...))
	c := &s.Containers[0].Container
	c.Stdin, c.StdinOnce, c.TTY = true, once, tty
	must(t, b.Pods.Launch(t.Context(), t.Context(), s))
	must(t, b.Containers.Start(t.Context(), s.Ref(), s.Containers[0]))
	t.Cleanup(func() { r.Vanish("u") })
	return b, backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: "c"}
}

// TestAttach: the program goes on where it reads its input, its log shows what
// it writes, and its end is the container's.
func TestAttach(t *testing.T) {
	for name, tt := range map[string]struct {
		argv  []string
		once  bool
		tty   bool
		keys  string
		shown string
		code  int32
	}{
		"cat": {[]string{"cat"}, true, false, "a\nb", "a\nb", 0},
		"after a script": {
			[]string{"sh", "-c", "echo ready; echo x > /f; sleep 2; cat; cat /f; exit 3"},
			true, false, "a\n", "ready\na\nx\n",
			3,
		},
		"a shell":    {[]string{"sh"}, true, false, "echo a; exit 4\n", "a\n", 4},
		"no command": {nil, false, true, "exit 5\n", "/ # exit 5\r\n", 5},
		"a terminal": {
			[]string{"sh", "-c", "echo ready; sh"},
			false, true, "stty size\nexit 6\n",
			"ready\r\n/ # stty size\r\nexit 6\r\n24 80\r\n/ # ", 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, ref := attaching(t, tt.once, tt.tty, tt.argv...)
				time.Sleep(time.Second)
				sizes := make(chan backend.TerminalSize, 1)
				sizes <- backend.TerminalSize{Width: 80, Height: 24}
				var out strings.Builder
				must(t, b.Attach.Attach(t.Context(), ref, backend.AttachSpec{
					Stdin: strings.NewReader(tt.keys), Stdout: &out, TTY: tt.tty, Resize: sizes,
				}))
				_, err := b.Exec.Exec(t.Context(), ref, backend.ExecSpec{Command: []string{"true"}})
				wantClass(t, err, "NotFound")
				facts, err := b.Pods.List(t.Context())
				must(t, err)
				if c := facts[0].Containers[0]; c.State() != backend.Exited || c.ExitCode != tt.code {
					t.Errorf("%+v, want exit code %d", c, tt.code)
				}
				log, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{})
				must(t, err)
				text, err := io.ReadAll(log)
				must(t, err)
				_, written, _ := strings.Cut(string(text), "no process runs\n")
				if written != tt.shown || !strings.HasSuffix(tt.shown, out.String()) || out.Len() == 0 {
					t.Errorf("log %q, shown %q, want the end of %q", written, out.String(), tt.shown)
				}
			})
		})
	}
}

// TestAttachGoesOn: who leaves a program without stdinOnce finds it as it was.
func TestAttachGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ref := attaching(t, false, true, "sh")
		var out strings.Builder
		for _, keys := range []string{"X=kept\r", "echo $X\r"} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			k := typing(keys)
			err := b.Attach.Attach(ctx, ref, backend.AttachSpec{Stdin: k, Stdout: &out, TTY: true})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("left: %v", err)
			}
			k.close()
			cancel()
		}
		if want := "/ # X=kept\r\n/ # echo $X\r\nkept\r\n/ # "; out.String() != want {
			t.Errorf("shown: %q, want %q", out.String(), want)
		}
		must(t, b.Containers.Stop(t.Context(), ref, 0))
	})
}

// TestAttachOnceLeft: with stdinOnce the input ends with the first that leaves,
// even without an end of its own.
func TestAttachOnceLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ref := attaching(t, true, false, "sh", "-c", "cat; exit 2")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k := typing()
		defer k.close()
		err := b.Attach.Attach(ctx, ref, backend.AttachSpec{Stdin: k})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left: %v", err)
		}
		synctest.Wait()
		facts, err := b.Pods.List(t.Context())
		must(t, err)
		if c := facts[0].Containers[0]; c.State() != backend.Exited || c.ExitCode != 2 {
			t.Errorf("%+v, want exit code 2", c)
		}
	})
}

// TestAttachedLogIsBounded: the oldest lines go.
func TestAttachedLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ref := attaching(t, true, false, "cat")
		line := strings.Repeat("x", 1023) + "\n"
		must(
			t,
			b.Attach.Attach(
				t.Context(), ref, backend.AttachSpec{Stdin: strings.NewReader(strings.Repeat(line, 8<<10) + "last\n")},
			),
		)
		log, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{})
		must(t, err)
		text, err := io.ReadAll(log)
		must(t, err)
		if n := len(text); n > 4<<20 || n < 1<<20 || !strings.HasSuffix(string(text), "x\nlast\n") {
			t.Errorf("%d bytes of log", n)
		}
		tail, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{Tail: new(int64(1))})
		must(t, err)
		if text, err := io.ReadAll(tail); err != nil || string(text) != "last\n" {
			t.Errorf("tail: %q, %v", text, err)
		}
	})
}

// TestOtherUser: the prompt and the commands say who runs.
func TestOtherUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{PodUnit: true})
		b := r.Backend()
		s := spec("u", 0, container("c", "serve"))
		s.Containers[0].Container.SecurityContext = &corev1.SecurityContext{
			RunAsUser: new(int64(1000)), RunAsGroup: new(int64(2000)),
		}
		must(t, b.Pods.Launch(t.Context(), t.Context(), s))
		out, _, err := atTerminal(t.Context(), b, typing("id\r", "exit\r"), "sh")
		if want := "/ $ id\r\nuid=1000 gid=2000 groups=2000\r\n/ $ exit\r\n"; err != nil || out != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	})
}
