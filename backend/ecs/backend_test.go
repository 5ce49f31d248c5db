package ecs

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

func TestLife(t *testing.T) {
	virtual(t, stub.Config{Delays: slow}, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		pod := withInit(podOf("a", "sh", "-c", "sleep 30; exit 3"), []string{"sleep", "4"}, []string{"sleep", "6"})
		began := time.Now()
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(pod, 2)))
		state := func() string {
			facts, err := b.Pods.List(t.Context())
			f := only(t, facts, err)
			words := []string{map[bool]string{true: "live", false: "dead"}[f.Live]}
			for _, c := range f.Containers {
				words = append(words, c.Name+":"+[]string{"waiting", "running", "exited"}[c.State()])
			}
			return strings.Join(append(words, f.IPs...), " ")
		}
		var got []string
		for at := range 75 {
			if s := state(); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], "s "+s) {
				got = append(got, (time.Duration(at)*time.Second).String()+" "+s)
			}
			time.Sleep(time.Second)
		}
		want := []string{
			"0s live init0:waiting init1:waiting app:waiting",
			"10s live init0:waiting init1:waiting app:waiting 10.0.0.5",
			"15s live init0:running init1:waiting app:waiting 10.0.0.5",
			"19s live init0:exited init1:running app:waiting 10.0.0.5",
			"25s live init0:exited init1:exited app:running 10.0.0.5",
			"55s live init0:exited init1:exited app:exited 10.0.0.5",
			"1m3s dead init0:exited init1:exited app:exited",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		facts, err := b.Pods.Inspect(t.Context(), []ktypes.UID{pod.UID})
		checkEnd(t, began, only(t, facts, err))
	})
}

// checkEnd wants of the facts of a dead task what TestLife let it do.
func checkEnd(t *testing.T, began time.Time, f backend.PodFacts) {
	t.Helper()
	at := func(tm time.Time) time.Duration { return tm.Sub(began).Round(time.Second) }
	type row struct {
		Name, Hash            string
		Attempt, Exit         int
		Started, Finished     time.Duration
		Image, ImageID, Cause bool
	}
	var rows []row
	for _, c := range f.Containers {
		rows = append(rows, row{
			c.Name, c.Hash, c.Attempt, int(c.ExitCode), at(c.StartedAt), at(c.FinishedAt),
			c.Image == "busybox:1", strings.HasPrefix(c.ImageID, "busybox@sha256:"), c.Reason != "",
		})
	}
	wantRows := []row{
		{"init0", "h-init0", 2, 0, 15 * time.Second, 19 * time.Second, true, true, false},
		{"init1", "h-init1", 2, 0, 19 * time.Second, 25 * time.Second, true, true, false},
		{"app", "h-app", 2, 3, 25 * time.Second, 55 * time.Second, true, true, false},
	}
	if d := cmp.Diff(wantRows, rows); d != "" {
		t.Error(d)
	}
	if f.Attempt != 2 || f.Namespace != "ns" || f.Name != "a" || f.UID != "uid-of-a" || !strings.HasPrefix(f.ID, "arn:") ||
		at(f.CreatedAt) != 0 || at(f.StoppedAt) != 63*time.Second || f.Reason != "" {
		t.Errorf("%+v", f)
	}
}

// A new process finds what lives, what is stopping and what stopped lately, and
// says of it what the one before said.
func TestRestart(t *testing.T) {
	virtual(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		done, stopping, running := podOf("done", "sh", "-c", "exit 4"), podOf(
			"stopping", "sh", "-c", "trap '' TERM; sleep 900",
		), podOf("running", "sleep", "900")
		withInit(done, []string{"true"})
		for _, p := range []*backend.LaunchSpec{new(specOf(done, 1)), new(specOf(stopping, 0)), new(specOf(running, 0))} {
			must(t, b.Pods.Launch(t.Context(), t.Context(), *p))
		}
		foreign := configOf(s)
		foreign.NodeIdentity = "another"
		must(t, open(t, foreign).Pods.Launch(t.Context(), t.Context(), specOf(podOf("foreign", "sleep", "900"), 0)))
		time.Sleep(30 * time.Second)
		must(t, b.Pods.Stop(t.Context(), specOf(stopping, 0).Ref(), 0))
		time.Sleep(5 * time.Second)
		before, err := b.Pods.List(t.Context())
		must(t, err)
		if len(before) != 3 || before[0].Live || !before[1].Live || !before[2].Live {
			t.Fatalf("before the restart: %+v", before)
		}
		again := open(t, configOf(s))
		after, err := again.Pods.List(t.Context())
		must(t, err)
		if d := cmp.Diff(before, after); d != "" {
			t.Fatalf("after the restart (-before +after):\n%s", d)
		}
		third := open(t, configOf(s))
		one, err := third.Pods.Inspect(t.Context(), []ktypes.UID{stopping.UID})
		if d := cmp.Diff(before[2], only(t, one, err)); d != "" {
			t.Fatalf("Inspect as the first call: %s", d)
		}
	})
}

func TestRestartReplaysLaunch(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := specOf(podOf("a", "sh", "-c", "sleep 5; exit 9"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second) // it has stopped: RunTask's answer is partial
		again := open(t, configOf(s))
		must(t, again.Pods.Launch(t.Context(), t.Context(), spec))
		facts, err := again.Pods.Inspect(t.Context(), []ktypes.UID{spec.Pod.UID})
		f := only(t, facts, err)
		if f.Live || f.Containers[0].ExitCode != 9 || time.Since(f.CreatedAt) != 10*time.Second || len(s.Tasks(false)) != 1 {
			t.Fatalf("%+v, %v", f, s.Tasks(false))
		}
		if n := s.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Fatalf("%d registrations of one shape", n)
		}
	})
}

func TestOneRegistrationPerShape(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		errs := make(chan error)
		for _, n := range strings.Split("abcdefghijkl", "") {
			go func() { errs <- b.Pods.Launch(t.Context(), t.Context(), specOf(podOf(n, "sleep", "60"), 0)) }()
		}
		for range 12 {
			must(t, <-errs)
		}
		calls := s.Calls()
		if calls["RegisterTaskDefinition"] != 1 || calls["DescribeTaskDefinition"] != 1 || calls["RunTask"] != 12 {
			t.Fatalf("%v", calls)
		}
	})
}

// Reads see our own writes although ECS does not show a new task for a while.
func TestEventualConsistency(t *testing.T) {
	virtual(t, stub.Config{Delays: stub.Delays{Visible: 20 * time.Second}}, func(
		t *testing.T, _ *stub.Server, b backend.Backend,
	) {
		spec := specOf(podOf("a", "sleep", "60"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		for at := range 100 {
			facts, err := b.Pods.List(t.Context())
			f := only(t, facts, err)
			if f.UID != spec.Pod.UID || (at < 60 && !f.Live) || (at > 60 && f.Live) {
				t.Fatalf("after %d s: %+v", at, f)
			}
			time.Sleep(time.Second)
		}
		wantClass(t, b.Pods.Stop(t.Context(), spec.Ref(), 0), "NotFound")
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
	})
}

// A task that ECS forgot while nobody looked is given up, but not at first sight.
func TestForgottenTask(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		spec := specOf(podOf("a", "sleep", "60"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(2 * time.Hour)
		facts, err := b.Pods.List(t.Context())
		only(t, facts, err)
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		time.Sleep(2 * time.Minute)
		facts, err = b.Pods.List(t.Context())
		must(t, err)
		if len(facts) != 0 {
			t.Fatalf("%+v", facts)
		}
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
	})
}

func TestStopAndRemove(t *testing.T) {
	virtual(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		pod := podOf("a", "sh", "-c", "trap '' TERM; sleep 900")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(20))
		spec := specOf(pod, 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(30 * time.Second)
		for range 10 { // asked again and again, ECS is asked once
			must(t, b.Pods.Remove(t.Context(), spec.Ref()))
			must(t, b.Pods.Stop(t.Context(), spec.Ref(), time.Second))
			time.Sleep(time.Second)
		}
		if n := s.Calls()["StopTask"]; n != 1 {
			t.Errorf("%d StopTask calls", n)
		}
		time.Sleep(11 * time.Second) // 20 s until SIGKILL; the address is still held
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); !f.Live || f.Containers[0].ExitCode != 137 || f.Reason != "" {
			t.Fatalf("%+v", f)
		}
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		time.Sleep(8 * time.Second)
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
		calls := s.Calls()
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
		if d := cmp.Diff(calls, s.Calls()); d != "" {
			t.Errorf("what is known to be gone was asked for: %s", d)
		}
		facts, err = b.Pods.List(t.Context())
		if must(t, err); len(facts) != 0 {
			t.Fatalf("a removed task is listed: %+v", facts)
		}
	})
}

func TestTaskEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		stopCode, text, reason, message string
	}{
		"spot": {
			"SpotInterruption", "Your Spot Task was interrupted.", "Preempted", "Your Spot Task was interrupted.",
		},
		"spot, older": {
			"TerminationNotice", "Your Spot Task was interrupted.", "Preempted", "Your Spot Task was interrupted.",
		},
		"hardware": {"InfrastructureHealth", "x", "NodeShutdown", "x"},
		"retirement": {
			"UserInitiated", "ECS is performing maintenance on the underlying infrastructure hosting the task", "NodeShutdown",
			"ECS is performing maintenance on the underlying infrastructure hosting the task",
		},
		"somebody": {"UserInitiated", "Task stopped by user", "", "Task stopped by user"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "nginx"), 0)))
				s.Interrupt(s.Tasks(true)[0], tc.stopCode, tc.text)
				facts, err := b.Pods.List(t.Context())
				if f := only(t, facts, err); f.Live || f.Reason != tc.reason || f.Message != tc.message ||
					f.Containers[0].ExitCode != 143 {
					t.Fatalf("%+v", f)
				}
			})
		})
	}
}

func TestImageMissing(t *testing.T) {
	virtual(t, stub.Config{Delays: slow}, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		pod := podOf("a", "true")
		pod.Spec.Containers[0].Image = "registry.example/missing:1"
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(pod, 0)))
		time.Sleep(time.Minute)
		facts, err := b.Pods.List(t.Context())
		f := only(t, facts, err)
		c := f.Containers[0]
		if f.Live || f.Reason != "FailedToStart" || !c.NeverRan() || c.Reason != "ErrImagePull" ||
			!strings.Contains(c.Message, "missing") {
			t.Fatalf("%+v", f)
		}
	})
}

// A task whose init container failed is stopped at once: ECS would leave it PENDING.
func TestInitFailure(t *testing.T) {
	for name, kind := range map[string]stub.Kindness{"as AWS": {}, "AWS stops it itself": {StopsRefused: true}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{Kindness: kind}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				defer background.Run(t, b.RunFreely)()
				pod := withInit(
					podOf("a", "sleep", "60"), []string{"true"}, []string{"sh", "-c", "sleep 3; exit 6"}, []string{"true"},
				)
				must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(pod, 0)))
				watch(t, s, b, 6*time.Second)
				facts, err := b.Pods.List(t.Context())
				f := only(t, facts, err)
				var states []backend.State
				for _, c := range f.Containers {
					states = append(states, c.State())
				}
				want := []backend.State{backend.Exited, backend.Exited, backend.Waiting, backend.Waiting}
				if f.Live || !slices.Equal(states, want) || f.Containers[1].ExitCode != 6 || f.Reason != "" {
					t.Fatalf("%+v", f)
				}
			})
		})
	}
}

// A pod whose files cannot be written never ran: its task is stopped at once, and the pod
// says why.
func TestBurstletsOwnInitContainerFails(t *testing.T) {
	for name, may := range map[string]backend.Permit{"stopped at once": backend.Always, "not while another leads": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{Delays: slow})
				b := open(t, richConfig(s))
				defer background.Run(t, func(ctx context.Context) error { return b.Run(ctx, may) })()
				s.Deny(stub.Denial{Principal: stub.TaskRole, Action: "secretsmanager:GetSecretValue", Resource: "*"})
				must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
				describes, _ := watch(t, s, b, 30*time.Second)
				facts, err := b.Pods.List(t.Context())
				f := only(t, facts, err)
				c := f.Containers[0]
				if f.Live != (may == nil) || s.Calls()["StopTask"] != map[bool]int{true: 0, false: 1}[may == nil] ||
					describes > 40 {
					t.Fatalf("live %v, %d stops, %d reads", f.Live, s.Calls()["StopTask"], describes)
				}
				const why = "the files of the pod's volumes could not be written: container burstlet-init ended with exit code 1 "
				if !c.NeverRan() || c.Reason != "CreateContainerConfigError" || !strings.HasPrefix(c.Message, why) {
					t.Fatalf("%+v", c)
				}
			})
		})
	}
}

func TestNode(t *testing.T) {
	virtual(t, stub.Config{AccessKey: "AKIDEXAMPLE"}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		f, err := b.Node.Describe(t.Context())
		must(t, err)
		if f.OS != "linux" || f.Arch != "amd64" || !f.NetworkReady || f.RuntimeVersion != "ecs://fargate-1.4.0" {
			t.Errorf("%+v", f)
		}
		wrong := configOf(s)
		wrong.Cluster = "none"
		_, err = open(t, wrong).Node.Describe(t.Context())
		wantClass(t, err, "Unavailable")
		wrong = configOf(s)
		wrong.AccessKeyID = "OTHER"
		_, err = open(t, wrong).Node.Describe(t.Context())
		wantClass(t, err, "Denied")
	})
}

// Over a real socket, as an engine in another process would.
func TestOverASocket(t *testing.T) {
	s := stub.New(stub.Config{})
	url, stop, err := s.Start()
	must(t, err)
	defer stop()
	cfg := configOf(s)
	cfg.Endpoint, cfg.HTTPClient = url, nil
	b := open(t, cfg)
	must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "true"), 0)))
	facts, err := b.Pods.List(t.Context())
	if f := only(t, facts, err); f.Live || f.Containers[0].State() != backend.Exited {
		t.Fatalf("%+v", f)
	}
}

// The times of a remote whose clock is wrong are in the caller's clock.
func TestClockOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.offset = time.Hour
		theirs := time.Now().Add(time.Hour)
		if got := c.local(&theirs); !got.Equal(time.Now()) {
			t.Fatalf("%v, want %v", got, time.Now())
		}
		if !c.local(nil).IsZero() {
			t.Fatal("no time became a time")
		}
	})
}

func TestStopBeforeStart(t *testing.T) {
	virtual(t, stub.Config{Delays: slow}, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		spec := specOf(podOf("a", "sleep", "600"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(3 * time.Second)
		must(t, b.Pods.Stop(t.Context(), spec.Ref(), 0))
		time.Sleep(slow.Deprovision)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); f.Live || f.Reason != "" || f.Containers[0].State() != backend.Waiting {
			t.Fatalf("%+v", f)
		}
		wantClass(t, b.Pods.Stop(t.Context(), spec.Ref(), 0), "NotFound")
	})
}
