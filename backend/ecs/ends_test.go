package ecs

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// Bounds of package task: of looking for a report, from the end of its container, and of
// holding back an end.
const (
	reportLast = 20 * time.Second
	endHold    = 20 * time.Second
)

// reporting is a script whose supervisor reports a message after a time.
func reporting(after time.Duration, message string) string {
	return fmt.Sprintf("sleep %d; echo '\x1eburstlet {\"exit\":3,\"message\":%q}'; exit 3", after/time.Second, message)
}

// ending is a case of a container that ends 30 s after it started.
type ending struct {
	ingest, deprovision time.Duration
	kind                stub.Kindness
	script              string
	change              func(*Config)
	server              func(*stub.Server)
	// after is how long after the end that is shown, about, and with what message.
	after   time.Duration
	message string
	live    bool
}

func TestAnEndIsShownWithItsReport(t *testing.T) {
	const s = time.Second
	throttled := func(s *stub.Server) {
		s.Inject(stub.Fault{Service: "logs", Action: "GetLogEvents", Code: "ThrottlingException", Times: 60})
	}
	for name, tc := range map[string]ending{
		"its log comes at once, which AWS's does not": {
			kind: stub.Kindness{LogsAtOnce: true}, deprovision: 20 * s, script: reporting(30*s, "bye"), after: 2 * s,
			message: "bye", live: true,
		},
		"its log comes as AWS's do": {
			deprovision: 20 * s, script: reporting(30*s, "bye"), after: 8 * s, message: "bye", live: true,
		},
		"between two flushes": {
			deprovision: 20 * s, script: reporting(33*s, "bye"), after: 4 * s, message: "bye", live: true,
		},
		"its log comes late": {
			ingest: 11 * s, deprovision: 40 * s, script: reporting(30*s, "bye"), after: 18 * s, message: "bye", live: true,
		},
		"a report that comes too late": {
			ingest: time.Minute, deprovision: 40 * s, script: "sleep 30; exit 3", after: reportLast, live: true,
		},
		"logs cannot be read: within the bound": {
			deprovision: 40 * s, script: reporting(30*s, "bye"), server: throttled, after: endHold, live: true,
		},
		"a task that has stopped holds nothing": {
			ingest: 9 * s, deprovision: 2 * s, script: reporting(30*s, "bye"), after: 2 * s,
		},
		"without a log group nobody waits": {
			deprovision: 20 * s, script: reporting(30*s, "bye"), change: func(c *Config) { c.LogGroup = "" }, live: true,
		},
		"without burstlet's program nobody waits": {
			deprovision: 20 * s, script: reporting(30*s, "bye"), change: func(c *Config) { c.TaskImage = "" }, live: true,
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, tc.run) })
	}
}

func (tc ending) run(t *testing.T) {
	s := stub.New(stub.Config{LogGroups: []string{testGroup}, Kindness: tc.kind, Delays: stub.Delays{
		Ingest: tc.ingest, Deprovision: tc.deprovision,
	}})
	cfg := richConfig(s)
	if cfg.LogGroup = testGroup; tc.change != nil {
		tc.change(&cfg)
	}
	b := open(t, cfg)
	defer background.Run(t, b.RunFreely)()
	ref := launchedPod(t, b, "p", 0, tc.script)
	time.Sleep(25 * time.Second)
	look(t, b, ref)
	if tc.server != nil {
		tc.server(s)
	}
	for look(t, b, ref).State() != backend.Exited {
		time.Sleep(100 * time.Millisecond)
	}
	facts, err := b.Pods.List(t.Context())
	f := only(t, facts, err)
	c := f.Containers[0]
	if late := time.Since(c.FinishedAt); late < tc.after || late > tc.after+1500*time.Millisecond {
		t.Errorf("shown %s after the end, want %s", late, tc.after)
	}
	ran := c.FinishedAt.Sub(c.StartedAt).Round(time.Second)
	if c.ExitCode != 3 || c.Message != tc.message || f.Live != tc.live || ran != 30*time.Second && ran != 33*time.Second {
		t.Errorf("live %v, %+v, message %q", f.Live, c, tc.message)
	}
}

// The end of an init container is shown with the start of the next; what it says of it
// follows.
func TestTheEndOfAnInitContainerIsShownWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: 3 * time.Second}})
		cfg := richConfig(s)
		cfg.LogGroup = testGroup
		b := open(t, cfg)
		defer background.Run(t, b.RunFreely)()
		pod := withInit(
			podOf("p", "sleep", "900"), []string{"sh", "-c", "sleep 5; echo '\x1eburstlet {\"exit\":0,\"message\":\"done\"}'"},
		)
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(pod, 0)))
		time.Sleep(7 * time.Second)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); f.Containers[0].State() != backend.Exited || f.Containers[1].State() != backend.Running {
			t.Errorf("%+v", f.Containers)
		}
		time.Sleep(10 * time.Second)
		facts, err = b.Pods.List(t.Context())
		if c := only(t, facts, err).Containers[0]; c.State() != backend.Exited || c.Message != "done" ||
			c.FinishedAt.Sub(c.StartedAt).Round(time.Second) != 5*time.Second {
			t.Errorf("%+v", c)
		}
	})
}

// Who ends a pod waits for nothing that its containers say, nor does a new process for
// what the one before may have shown.
func TestNobodyWaitsForAReport(t *testing.T) {
	for name, act := range map[string]func(*testing.T, Config, backend.Backend, backend.Ref) backend.Backend{
		"Stop, of a task that ends": func(t *testing.T, _ Config, b backend.Backend, ref backend.Ref) backend.Backend {
			must(t, b.Pods.Stop(t.Context(), ref, 0))
			return b
		},
		"Remove, of a task that ends": func(t *testing.T, _ Config, b backend.Backend, ref backend.Ref) backend.Backend {
			must(t, b.Pods.Remove(t.Context(), ref))
			return b
		},
		"a new process": func(
			t *testing.T, cfg Config, _ backend.Backend, _ backend.Ref,
		) backend.Backend {
			return open(t, cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{
					LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: time.Minute, Deprovision: 20 * time.Second},
				})
				cfg := richConfig(s)
				cfg.LogGroup = testGroup
				b := open(t, cfg)
				defer background.Run(t, b.RunFreely)()
				ref := launchedPod(t, b, "p", 0, "sleep 30; exit 3")
				time.Sleep(20 * time.Second)
				look(t, b, ref)
				time.Sleep(12 * time.Second)
				if c := look(t, b, ref); c.State() != backend.Running {
					t.Fatalf("it is not held back: %+v", c)
				}
				b = act(t, cfg, b, ref.Pod)
				facts, err := b.Pods.List(t.Context())
				if f := only(t, facts, err); f.Containers[0].ExitCode != 3 || !f.Live {
					t.Errorf("%+v", f)
				}
				for begun := time.Now(); backend.Class(b.Pods.Remove(t.Context(), ref.Pod)) != "NotFound"; time.Sleep(time.Second) {
					if time.Since(begun) > 30*time.Second {
						t.Fatal("it is not removed")
					}
				}
			})
		})
	}
}

// What the task is stopped for by us has no report to wait for.
func TestAPodThatIsStoppedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{
			LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: time.Minute, Deprovision: 20 * time.Second},
		})
		cfg := richConfig(s)
		cfg.LogGroup = testGroup
		b := open(t, cfg)
		defer background.Run(t, b.RunFreely)()
		spec := specOf(podOf("p", "sh", "-c", "trap 'exit 0' TERM; sleep 900"), 0)
		spec.Pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(20 * time.Second)
		must(t, b.Pods.Stop(t.Context(), spec.Ref(), 30*time.Second))
		time.Sleep(1500 * time.Millisecond)
		facts, err := b.Pods.List(t.Context())
		if c := only(t, facts, err).Containers[0]; c.State() != backend.Exited {
			t.Errorf("%+v", c)
		}
	})
}

// What Job pods wrote last, how they ended and what they say of it is all there, although
// nothing flushes their logs when they end, and AWS lets logs be read 10 times a second.
func TestTheLastLinesOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := lane.Pick(20, 40, 100)
		s := stub.New(stub.Config{
			Region: "eu-west-1", LogGroups: []string{testGroup}, Throttles: true,
			Delays: stub.Delays{Deprovision: 20 * time.Second},
		})
		cfg := richConfig(s)
		cfg.Region, cfg.LogGroup = "eu-west-1", testGroup
		b := open(t, cfg)
		defer background.Run(t, b.RunFreely)()
		refs := map[string]backend.ContainerRef{}
		for i := range pods {
			name := fmt.Sprint("p", i)
			refs[name] = launchedPod(
				t, b, name, 0, fmt.Sprintf("sleep %d; seq 30; echo 'last of %s'; exit %d", 60+i%7, name, i%3),
			)
		}
		waiting := len(refs)
		for begun := time.Now(); waiting > 0; time.Sleep(time.Second) {
			facts, err := b.Pods.List(t.Context())
			must(t, err)
			waiting = len(refs)
			for _, f := range facts {
				if c := f.Containers[0]; c.State() == backend.Exited {
					waiting--
				}
			}
			if time.Since(begun) > 5*time.Minute {
				t.Fatalf("%d do not end", waiting)
			}
		}
		var want strings.Builder
		for n := 12; n <= 30; n++ {
			fmt.Fprintln(&want, n)
		}
		for i := range pods {
			name := fmt.Sprint("p", i)
			if got := readAll(t, b, refs[name], backend.LogOptions{Tail: new(int64(20))}); got != want.String()+"last of "+name+
				"\n" {
				t.Errorf("%s: %q", name, got)
			}
			if c := look(t, b, refs[name]); int(c.ExitCode) != i%3 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	})
}
