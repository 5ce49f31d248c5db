package ecs

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

// reporting is a script whose supervisor reports a message after a time.
func reporting(after time.Duration, message string) string {
	return fmt.Sprintf("sleep %d; echo '\x1eburstlet {\"exit\":3,\"message\":%q}'; exit 3", after/time.Second, message)
}

func TestWhenALogIsReadForAReport(t *testing.T) {
	const s = time.Second
	all := []time.Duration{0, s / 2, s, 2 * s, 4 * s, 8 * s}
	for name, tc := range map[string]struct {
		supervised bool
		seen, took time.Duration // after the end; how long each reading takes
		want       []time.Duration
	}{
		"at once, then in doubling steps":         {true, 0, 0, all},
		"seen a while later":                      {true, 3 * s, 0, []time.Duration{3 * s, 3*s + s/2, 4 * s, 5 * s, 7 * s, 8 * s}},
		"an old one: once":                        {true, time.Hour, 0, []time.Duration{time.Hour}},
		"slow readings leave some out":            {true, 0, 3 * s, []time.Duration{0, 4 * s, 8 * s}},
		"without a supervisor: once it must show": {false, 0, 0, []time.Duration{logLag}},
	} {
		t.Run(name, func(t *testing.T) {
			end := time.Unix(1000, 0)
			id := identity.Container{Name: "a", Supervised: tc.supervised, Fallback: true}
			o := owedFor("arn", id, backend.ContainerFacts{Name: "a", FinishedAt: end, ExitCode: 1}, end.Add(tc.seen))
			var got []time.Duration
			for more := true; more && len(got) < 20; {
				got = append(got, o.due.Sub(end))
				o, more = o.again(o.due.Add(tc.took))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestReadingsAreInTheOrderTheyAreDue(t *testing.T) {
	m := newMemory(time.Minute, false)
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	for i, due := range []int{5, 1, 3, 1, 5, 2} {
		arn := fmt.Sprint(i)
		m.tasks[arn] = &entry{}
		m.await(owed{arn: arn, due: at(due)})
	}
	delete(m.tasks, "5")
	var got []string
	for {
		o, due, until := m.nextUnsaid(at(4))
		if !due {
			if !until.Equal(at(5)) {
				t.Errorf("the next is due at %v", until)
			}
			break
		}
		got = append(got, o.arn)
	}
	if !slices.Equal(got, []string{"1", "3", "2"}) {
		t.Errorf("%v", got)
	}
}

func TestWhatIsShownOfAnEndThatIsHeldBack(t *testing.T) {
	now, yes := time.Unix(1000, 0), true
	ended := backend.ContainerFacts{
		Name: "a", StartedAt: now.Add(-time.Minute), FinishedAt: now, ExitCode: 137, OOM: true,
		Reason: "OOMKilled", Message: "why", Killed: "probe", HookFailed: "PreStop",
	}
	running := backend.ContainerFacts{Name: "a", StartedAt: ended.StartedAt, Healthy: &yes}
	for name, tc := range map[string]struct {
		at              time.Duration
		dead, dismissed bool
		want            backend.ContainerFacts
	}{
		"it runs as before":                  {want: running},
		"until just before the bound":        {at: endHold - 1, want: running},
		"and then it has ended":              {at: endHold, want: ended},
		"in a task that has stopped it ends": {dead: true, want: ended},
		"nor is it where nobody waits":       {dismissed: true, want: ended},
	} {
		t.Run(name, func(t *testing.T) {
			e := &entry{
				facts:     backend.PodFacts{Live: !tc.dead, Containers: []backend.ContainerFacts{ended}},
				id:        identity.Task{Containers: []identity.Container{{Name: "a"}}},
				dismissed: tc.dismissed,
			}
			e.holdEnd("a", &yes, now)
			if got := e.shown(now.Add(tc.at)); got.Containers[0] != tc.want || got.Live == tc.dead {
				t.Errorf("%+v", got)
			}
			if got := e.copied(); got.Containers[0] != ended {
				t.Errorf("what is known is another: %+v", got)
			}
		})
	}
}

// What waited for an init container's end cannot run before that end is shown.
func TestAnEndThatAnotherContainerWaitedForIsShown(t *testing.T) {
	now := time.Unix(1000, 0)
	ended := backend.ContainerFacts{Name: "a", StartedAt: now.Add(-time.Minute), FinishedAt: now}
	for name, tc := range map[string]struct {
		init, sidecar bool
		next          time.Time
		shown         bool
	}{
		"the next has not started":              {init: true},
		"the next has started":                  {init: true, next: now, shown: true},
		"a sidecar, for whose end no one waits": {init: true, sidecar: true, next: now},
		"an app container beside another one":   {next: now},
	} {
		t.Run(name, func(t *testing.T) {
			e := &entry{
				facts: backend.PodFacts{Live: true, Containers: []backend.ContainerFacts{ended, {Name: "b", StartedAt: tc.next}}},
				id:    identity.Task{Containers: []identity.Container{{Name: "a", Init: tc.init, Sidecar: tc.sidecar}, {Name: "b"}}},
			}
			e.holdEnd("a", nil, now)
			if got := e.shown(now.Add(time.Second)); got.Containers[0].FinishedAt.IsZero() == tc.shown {
				t.Errorf("%+v", got)
			}
		})
	}
}

// ending is a case of a container that ends 30 s after it started.
type ending struct {
	ingest, deprovision time.Duration
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
		"its log shows at once":                   {deprovision: 20 * s, script: reporting(30*s, "bye"), message: "bye", live: true},
		"its log comes late":                      {ingest: 3 * s, deprovision: 20 * s, script: reporting(30*s, "bye"), after: 4 * s, message: "bye", live: true},
		"a report that comes too late":            {ingest: time.Minute, deprovision: 20 * s, script: "sleep 30; exit 3", after: reportLast, live: true},
		"logs cannot be read: within the bound":   {deprovision: 20 * s, script: reporting(30*s, "bye"), server: throttled, after: endHold, live: true},
		"a task that has stopped holds nothing":   {ingest: 9 * s, deprovision: 2 * s, script: reporting(30*s, "bye"), after: 2 * s},
		"without a log group nobody waits":        {deprovision: 20 * s, script: reporting(30*s, "bye"), change: func(c *Config) { c.LogGroup = "" }, live: true},
		"without burstlet's program nobody waits": {deprovision: 20 * s, script: reporting(30*s, "bye"), change: func(c *Config) { c.TaskImage = "" }, live: true},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, tc.run) })
	}
}

func (tc ending) run(t *testing.T) {
	s := stub.New(stub.Config{LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: tc.ingest, Deprovision: tc.deprovision}})
	cfg := richConfig(s)
	if cfg.LogGroup = testGroup; tc.change != nil {
		tc.change(&cfg)
	}
	b := open(t, cfg)
	defer background.Run(t, b.RunFreely)()
	ref := launchedPod(t, b, "p", 0, tc.script)
	time.Sleep(25 * time.Second)
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
	if c.ExitCode != 3 || c.Message != tc.message || f.Live != tc.live || c.FinishedAt.Sub(c.StartedAt).Round(time.Second) != 30*time.Second {
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
		pod := withInit(podOf("p", "sleep", "900"), []string{"sh", "-c", "sleep 5; echo '\x1eburstlet {\"exit\":0,\"message\":\"done\"}'"})
		must(t, b.Pods.Launch(t.Context(), specOf(pod, 0)))
		time.Sleep(7 * time.Second)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); f.Containers[0].State() != backend.Exited || f.Containers[1].State() != backend.Running {
			t.Errorf("%+v", f.Containers)
		}
		time.Sleep(4 * time.Second)
		facts, err = b.Pods.List(t.Context())
		if c := only(t, facts, err).Containers[0]; c.State() != backend.Exited || c.Message != "done" || c.FinishedAt.Sub(c.StartedAt).Round(time.Second) != 5*time.Second {
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
		"a new process": func(t *testing.T, cfg Config, _ backend.Backend, _ backend.Ref) backend.Backend { return open(t, cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: time.Minute, Deprovision: 20 * time.Second}})
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
		s := stub.New(stub.Config{LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: time.Minute, Deprovision: 20 * time.Second}})
		cfg := richConfig(s)
		cfg.LogGroup = testGroup
		b := open(t, cfg)
		defer background.Run(t, b.RunFreely)()
		spec := specOf(podOf("p", "sh", "-c", "trap 'exit 0' TERM; sleep 900"), 0)
		spec.Pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		must(t, b.Pods.Launch(t.Context(), spec))
		time.Sleep(20 * time.Second)
		must(t, b.Pods.Stop(t.Context(), spec.Ref(), 30*time.Second))
		time.Sleep(1500 * time.Millisecond)
		facts, err := b.Pods.List(t.Context())
		if c := only(t, facts, err).Containers[0]; c.State() != backend.Exited {
			t.Errorf("%+v", c)
		}
	})
}
