package intask

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestAGraceFromOutside: a container whose pod is deleted with a shorter grace is killed by
// then, whether it is told before SIGTERM or after, and its hook is cut.
func TestAGraceFromOutside(t *testing.T) {
	t.Parallel()
	const deaf = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
	for name, c := range map[string]struct {
		spec  Spec
		grace uint32
		late  bool
		// asked is whether SIGTERM comes to the container before it is told.
		asked bool
		min   time.Duration
	}{
		"before it is asked to end": {Spec{Grace: 1000}, 3, false, false, 2 * time.Second},
		"while it ends":             {Spec{Grace: 1000}, 1, true, true, time.Second},
		"before a hook": {
			Spec{Grace: 1000, PreStop: exits("sleep 1000")}, 1, false, false, 2 * time.Second,
		},
		"while its hook runs":             {Spec{Grace: 1000, PreStop: exits("sleep 1000")}, 1, true, false, 3 * time.Second},
		"behaviour 23: two seconds stay":  {Spec{Grace: 1000}, 0, false, false, 2 * time.Second},
		"a longer one changes nothing":    {Spec{Grace: 3}, 1000, false, false, 3 * time.Second},
		"a longer one, while it ends too": {Spec{Grace: 3}, 1000, true, true, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.start(c.spec, "sh", "-c", deaf)
			b.says("up")
			tell := func() {
				t.Helper()
				told, _, err := client(t, b.dir, "run").SendRequest(RequestGrace, true, ssh.Marshal(Grace{c.grace}))
				if err != nil || !told {
					t.Fatalf("it was not told: %v", err)
				}
			}
			begun := time.Now()
			if !c.late {
				tell()
			}
			b.signal(syscall.SIGTERM)
			if c.asked {
				b.says("asked")
			}
			if c.late {
				tell()
			}
			code, _ := b.end()
			if took := time.Since(begun); code != 137 || took < c.min || took > patience {
				t.Errorf("%d after %s", code, took)
			}
			if !strings.Contains(b.stdout.String(), "asked") {
				t.Error("it was killed without having been asked to end")
			}
		})
	}
}

// TestAGraceIsForSupervisors: a server without a container, and an older one, say that they
// cannot; words that are none change nothing.
func TestAGraceIsForSupervisors(t *testing.T) {
	agent := client(t, served(t), "burstlet-agent")
	if told, _, err := agent.SendRequest(RequestGrace, true, ssh.Marshal(Grace{1})); err != nil || told {
		t.Errorf("burstlet-agent took it: %v", err)
	}
	b := newBox(t)
	b.start(Spec{Grace: 1000}, "sh", "-c", "echo up; sleep 1000")
	b.says("up")
	if told, _, err := client(t, b.dir, "run").SendRequest(RequestGrace, true, []byte("x")); err != nil || told {
		t.Errorf("it was told what is no grace: %v", err)
	}
	b.signal(syscall.SIGTERM)
	if code, _ := b.end(); code != 143 {
		t.Errorf("exit %d", code)
	}
}
