package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

func pod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: "pod-" + string(uid)}}
}

func spec(uid types.UID, attempt int, containers ...backend.ContainerSpec) backend.LaunchSpec {
	for i := range containers {
		containers[i].Pod, containers[i].Attempt = pod(uid), attempt
	}
	return backend.LaunchSpec{Pod: pod(uid), Attempt: attempt, Containers: containers}
}

func container(name string, argv ...string) backend.ContainerSpec {
	return backend.ContainerSpec{
		Pod: &corev1.Pod{}, Hash: "h", Container: corev1.Container{Name: name, Image: "busybox", Command: argv},
	}
}

func initContainer(name string, argv ...string) backend.ContainerSpec {
	c := container(name, argv...)
	c.Init = true
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Errorf("class %q (%v), want %q", got, err, want)
	}
}

// state is a pod's facts in one line: times are seconds since the launch.
func state(f backend.PodFacts) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return fmt.Sprint(t.Sub(f.CreatedAt).Seconds())
	}
	out := fmt.Sprintf("live=%v %s", f.Live, at(f.StoppedAt))
	for _, c := range f.Containers {
		out += fmt.Sprintf(" | %s %s..%s %d", c.Name, at(c.StartedAt), at(c.FinishedAt), c.ExitCode)
	}
	return out
}

// TestScript shows what a script can make a container do.
func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		lives := map[string]sim.Life{
			"oom":  {RunFor: time.Second, OOM: true},
			"slow": {StartAfter: 2 * time.Second, RunFor: -1, StopTakes: 3 * time.Second},
			"next": {RunFor: time.Second, ExitCode: 4},
		}
		r := sim.New(sim.Config{PodUnit: true, Script: func(_ *corev1.Pod, c corev1.Container, attempt int) sim.Life {
			if attempt == 1 {
				return lives["next"]
			}
			return lives[c.Name]
		}})
		b := r.Backend()
		must(t, b.Pods.Launch(ctx, ctx, spec("u", 0, container("oom"), container("slow"))))
		time.Sleep(5 * time.Second)
		must(t, b.Pods.Stop(ctx, backend.Ref{UID: "u"}, time.Minute))
		time.Sleep(5 * time.Second)
		must(t, b.Pods.Launch(ctx, ctx, spec("u", 1, container("oom"))))
		time.Sleep(5 * time.Second)
		facts := r.Facts()
		for i, want := range []string{
			"live=false 8 | oom 0..1 137 | slow 2..8 143",
			"live=false 1 | oom 0..1 4",
		} {
			if got := state(facts[i]); got != want {
				t.Errorf("attempt %d:\n got %s\nwant %s", i, got, want)
			}
		}
		if c := facts[0].Containers; !c[0].OOM || c[1].OOM {
			t.Errorf("OOM: %+v", c)
		}
	})
}

// TestUnresolvedCalls: a call whose context ends has had its effect or not,
// according to how far it came, and what it began goes on without its caller.
func TestUnresolvedCalls(t *testing.T) {
	latency := sim.Latency{API: 2 * time.Second, Launch: 4 * time.Second, Start: 4 * time.Second}
	for _, tt := range []struct {
		after time.Duration
		made  int
	}{{500 * time.Millisecond, 0}, {1500 * time.Millisecond, 1}, {5500 * time.Millisecond, 1}} {
		synctest.Test(t, func(t *testing.T) {
			r := sim.New(sim.Config{Latency: latency, Images: []string{"busybox"}})
			b := r.Backend()
			ctx, cancel := context.WithTimeout(t.Context(), tt.after)
			defer cancel()
			wantClass(t, b.Pods.Launch(ctx, ctx, spec("u", 0)), "Unavailable")
			if n := len(r.Facts()); n != tt.made {
				t.Errorf("given up after %v: %d pods, want %d", tt.after, n, tt.made)
			}
			begun := time.Now()
			must(t, b.Pods.Launch(t.Context(), t.Context(), spec("u", 0)))
			if took := time.Since(begun); tt.made == 1 && took >= 6*time.Second {
				t.Errorf("the replay took %v, as long as a launch", took)
			}
			if a := r.Audit(); len(a.Violations) > 0 || len(r.Facts()) != 1 {
				t.Errorf("after the replay: %+v, %+v", a, r.Facts())
			}

			ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			c := container("c", "serve")
			wantClass(t, b.Containers.Start(ctx, spec("u", 0).Ref(), c), "Unavailable")
			if f := r.Facts()[0].Containers[0]; f.State() != backend.Waiting {
				t.Errorf("still starting: %+v", f)
			}
			time.Sleep(10 * time.Second)
			if f := r.Facts()[0].Containers[0]; f.State() != backend.Running {
				t.Errorf("it did not go on: %+v", f)
			}
		})
	}
}

// TestRemoval: what is removed stays, live, until it is down.
func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := sim.New(sim.Config{Latency: sim.Latency{Stop: 2 * time.Second}})
		b := r.Backend()
		must(t, b.Pods.Launch(ctx, ctx, spec("u", 0)))
		ref := r.Facts()[0].Ref
		must(t, b.Pods.Remove(ctx, ref))
		wantClass(t, b.Pods.Launch(ctx, ctx, spec("u", 0)), "Exists")
		time.Sleep(time.Second)
		must(t, b.Pods.Remove(ctx, ref))
		if f := r.Facts(); len(f) != 1 || !f[0].Live {
			t.Errorf("half way: %+v", f)
		}
		time.Sleep(time.Second)
		wantClass(t, b.Pods.Remove(ctx, ref), "NotFound")
		if f := r.Facts(); len(f) != 0 {
			t.Errorf("at the end: %+v", f)
		}
	})
}

func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := sim.New(sim.Config{MaxPods: 1, PodUnit: true})
		b := r.Backend()
		must(t, b.Pods.Launch(ctx, ctx, spec("a", 0, container("c", "sleep", "5"))))
		must(t, b.Pods.Launch(ctx, ctx, spec("a", 0, container("c", "sleep", "5"))))
		wantClass(t, b.Pods.Launch(ctx, ctx, spec("b", 0, container("c", "true"))), "Capacity")
		r.SetMaxPods(2)
		must(t, b.Pods.Launch(ctx, ctx, spec("b", 0, container("c", "true"))))
		r.SetMaxPods(1)
		wantClass(t, b.Pods.Launch(ctx, ctx, spec("c", 0, container("c", "true"))), "Capacity")
		time.Sleep(5 * time.Second) // the dead take no room
		must(t, b.Pods.Launch(ctx, ctx, spec("c", 0, container("c", "true"))))
		wantClass(t, b.Pods.Launch(ctx, ctx, spec("d", 0)), "Invalid")
		wantClass(t, b.Pods.Launch(ctx, ctx, spec("", 0, container("c"))), "Invalid")
	})
}

// TestNodes: an engine sees and touches only what its node launched.
func TestNodes(t *testing.T) {
	ctx := t.Context()
	r := sim.New(sim.Config{Node: "one"})
	one, two := r.Backend(), r.BackendFor("two")
	must(t, one.Pods.Launch(ctx, ctx, spec("u", 0)))
	ref := spec("u", 0).Ref()
	wantClass(t, two.Pods.Stop(ctx, ref, 0), "NotFound")
	wantClass(t, two.Pods.Remove(ctx, ref), "NotFound")
	if facts, err := two.Pods.List(ctx); err != nil || len(facts) != 0 {
		t.Errorf("two lists %+v, %v", facts, err)
	}
	if facts, err := two.Pods.Inspect(ctx, []types.UID{"u"}); err != nil || len(facts) != 0 {
		t.Errorf("two inspects %+v, %v", facts, err)
	}
	if facts, err := one.Pods.List(ctx); err != nil || len(facts) != 1 || !facts[0].Live {
		t.Errorf("one lists %+v, %v", facts, err)
	}
	must(t, two.Pods.Launch(ctx, ctx, spec("u", 0)))
	if v := r.Audit().Violations; len(v) != 1 {
		t.Errorf("a pod that two nodes run: %v", v)
	}
}

func TestAudit(t *testing.T) {
	ctx := t.Context()
	r := sim.New(sim.Config{Record: true, Images: []string{"busybox"}})
	b := r.Backend()
	c := container("c", "serve")
	ref := spec("u", 0).Ref()
	must(t, b.Pods.Launch(ctx, ctx, spec("u", 0)))
	must(t, b.Containers.Start(ctx, ref, c))
	must(t, b.Containers.Start(ctx, ref, c))
	if v := r.Audit().Violations; len(v) != 0 {
		t.Errorf("a replay is no violation: %v", v)
	}
	c.Attempt = 1
	must(t, b.Containers.Start(ctx, ref, c))
	must(t, b.Pods.Launch(ctx, ctx, spec("u", 1)))
	a := r.Audit()
	if len(a.Violations) != 2 || a.Violations[0].Container != "c" || a.Violations[1].Container != "" {
		t.Errorf("violations: %v", a.Violations)
	}
	if a.Launches["u"] != 2 || a.Starts[sim.ContainerKey{UID: "u", Name: "c"}] != 2 {
		t.Errorf("counts: %+v", a)
	}
	if !strings.Contains(a.Violations[0].Error(), "attempt 1 started while attempt 0") {
		t.Errorf("text: %v", a.Violations[0])
	}
	must(t, b.Pods.Remove(ctx, ref))
	if !r.Vanish("u") || r.Vanish("u") || len(r.Facts()) != 0 {
		t.Errorf("vanished: %+v", r.Facts())
	}
	var kinds []sim.Kind
	for _, e := range r.History() {
		kinds = append(kinds, e.Kind)
	}
	want := []sim.Kind{sim.Launched, sim.Started, sim.Started, sim.Launched, sim.Removed, sim.Vanished}
	if !slices.Equal(kinds, want) {
		t.Errorf("history: %v, want %v", kinds, want)
	}
}

// TestAddressesAreReused: each address has one owner at a time, and there are
// enough of them however many pods come and go.
func TestAddressesAreReused(t *testing.T) {
	ctx := t.Context()
	r := sim.New(sim.Config{})
	b := r.Backend()
	for i := range 70000 {
		s := spec(types.UID(fmt.Sprint(i)), 0)
		must(t, b.Pods.Launch(ctx, ctx, s))
		must(t, b.Pods.Remove(ctx, s.Ref()))
	}
	must(t, b.Pods.Launch(ctx, ctx, spec("last", 0)))
	if f := r.Facts(); len(f) != 1 || !strings.HasPrefix(f[0].IPs[0], "10.88.") {
		t.Errorf("last: %+v", f)
	}
	host := spec("host", 0)
	host.Pod.Spec.HostNetwork = true
	must(t, b.Pods.Launch(ctx, ctx, host))
	if ip := r.Facts()[1].IPs[0]; ip != "10.87.0.1" {
		t.Errorf("host network: %s", ip)
	}
}

// TestHints: each change is hinted at when it happens, and nothing else is.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{PodUnit: true})
		b := r.Backend()
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec("old", 0, container("c", "sleep", "100"))))
		ctx, cancel := context.WithCancel(t.Context())
		hints, ended := make(chan types.UID), make(chan error)
		go func() { ended <- b.Events.Run(ctx, hints) }()
		synctest.Wait()
		begun := time.Now()
		var got []string
		collect := func(until time.Duration) {
			alarm := time.After(until - time.Since(begun))
			for {
				select {
				case uid := <-hints:
					got = append(got, fmt.Sprintf("%s@%v", uid, time.Since(begun).Seconds()))
				case <-alarm:
					return
				}
			}
		}
		must(t, b.Pods.Launch(ctx, ctx, spec("a", 0, initContainer("i", "sleep", "3"), container("c", "sleep", "4"))))
		collect(10 * time.Second)
		must(t, b.Pods.Launch(ctx, ctx, spec("b", 0, container("c", "sh", "-c", "trap '' TERM; sleep 50"))))
		collect(12 * time.Second)
		must(t, b.Pods.Stop(ctx, spec("b", 0).Ref(), 5*time.Second))
		collect(20 * time.Second)
		must(t, b.Pods.Remove(ctx, spec("b", 0).Ref()))
		collect(200 * time.Second)
		if s, want := strings.Join(got, " "), "a@0 a@3 a@7 b@10 b@12 b@17 b@20 old@100"; s != want {
			t.Errorf("\n got %s\nwant %s", s, want)
		}
		cancel()
		wantClass(t, <-ended, "Unavailable")
	})
}

// BenchmarkList and BenchmarkInspect show that readings of a big node are cheap.
func BenchmarkList(b *testing.B) {
	back := full(b, 10000)
	for b.Loop() {
		facts, err := back.Pods.List(b.Context())
		if err != nil || len(facts) != 10000 {
			b.Fatalf("%d pods, %v", len(facts), err)
		}
	}
}

func BenchmarkInspect(b *testing.B) {
	back := full(b, 10000)
	for b.Loop() {
		facts, err := back.Pods.Inspect(b.Context(), []types.UID{"17", "4711"})
		if err != nil || len(facts) != 2 {
			b.Fatalf("%d pods, %v", len(facts), err)
		}
	}
}

func full(b *testing.B, n int) backend.Backend {
	back := sim.New(sim.Config{PodUnit: true}).Backend()
	for i := range n {
		if err := back.Pods.Launch(
			b.Context(), b.Context(), spec(types.UID(fmt.Sprint(i)), 0, container("c", "serve")),
		); err != nil {
			b.Fatal(err)
		}
	}
	return back
}

// BenchmarkLife is one whole life of a pod with a volume, in virtual time.
func BenchmarkLife(b *testing.B) {
	ctx := b.Context()
	back := sim.New(sim.Config{Images: []string{"busybox"}}).Backend()
	for i := 0; b.Loop(); i++ {
		s := spec(
			types.UID(fmt.Sprint(i)), 0,
			withMounts(container("c", "serve", "80"), corev1.VolumeMount{Name: "v", MountPath: "/v"}),
		)
		v := volumeOf("v", map[string]string{"token": "t"})
		v.Pod = s.Pod
		err := errors.Join(
			back.Pods.Launch(ctx, ctx, s), back.Files.Place(ctx, v), back.Containers.Start(ctx, s.Ref(), s.Containers[0]),
			back.Pods.Stop(ctx, s.Ref(), 0), back.Pods.Remove(ctx, s.Ref()), back.Files.Clear(ctx, s.Ref()))
		if err != nil {
			b.Fatal(err)
		}
	}
}
