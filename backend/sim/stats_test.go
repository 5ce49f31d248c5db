package sim_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// measured is what one container uses, in thousandths of a core, core
// milliseconds and MiB.
type measured struct{ Milli, CoreMillis, MiB uint64 }

func measure(t *testing.T, b backend.Backend) (map[string]measured, backend.StatsFacts) {
	t.Helper()
	facts, err := b.Stats.Stats(t.Context())
	must(t, err)
	got := map[string]measured{}
	for _, p := range facts.Pods {
		for _, c := range p.Containers {
			got[c.Name] = measured{*c.CPUNanoCores / 1e6, *c.CPUCoreNanoSeconds / 1e6, *c.MemoryWorkingSet >> 20}
		}
	}
	return got, facts
}

func needing(c backend.ContainerSpec, requests, limits corev1.ResourceList) backend.ContainerSpec {
	c.Container.Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return c
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

func TestUseIsAFunctionOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{PodUnit: true})
		b := r.Backend()
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec("u", 0,
			container("plain", "sleep", "infinity"),
			needing(container("requests", "sleep", "infinity"), amounts("200m", "64Mi"), amounts("1", "1Gi")),
			needing(container("limits", "sleep", "infinity"), nil, amounts("1", "1Gi")),
			container("script", "sh", "-c", "use cpu=100m; sleep 10; use cpu=2 memory=128Mi; sleep infinity"),
			needing(container("limited", "use", "cpu=4", "memory=4Gi"), nil, amounts("1", "1Gi")),
			container("ends", "sleep", "5"),
		)))
		time.Sleep(4 * time.Second)
		got, _ := measure(t, b)
		if diff := cmp.Diff(measured{10, 40, 16}, got["ends"]); diff != "" {
			t.Errorf("before its end (-want +got):\n%s", diff)
		}
		time.Sleep(16 * time.Second)
		got, facts := measure(t, b)
		want := map[string]measured{
			"plain":    {10, 200, 16},
			"requests": {100, 2000, 32},
			"limits":   {500, 10000, 512},
			"script":   {2000, 1000 + 20000, 128},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after 20 s (-want +got):\n%s", diff)
		}
		p := facts.Pods[0]
		if sum := *p.CPUCoreNanoSeconds / 1e6; sum != 200+2000+10000+21000+50 {
			t.Errorf("the pod used %d ms, want the sum with that of the ended", sum)
		}
		if facts.Node != nil {
			t.Errorf("there is no host to measure, yet %+v", facts.Node)
		}
		if c := p.Containers[2]; *c.MemoryAvailable != 512<<20 || !c.Time.Equal(time.Now()) ||
			!c.StartTime.Equal(time.Now().Add(-20*time.Second)) {
			t.Errorf("got %+v", c)
		}
	})
}

func TestUseIsLimitedAndChangedByCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sim.New(sim.Config{Images: []string{"busybox"}}).Backend()
		s := spec("u", 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), s))
		c := needing(container("c", "sh", "-c", "use cpu=4 memory=4Gi; sleep infinity"), nil, amounts("1", "1Gi"))
		c.Pod = s.Pod
		must(t, b.Containers.Start(t.Context(), s.Ref(), c))
		time.Sleep(time.Second)
		got, _ := measure(t, b)
		if diff := cmp.Diff(measured{1000, 1000, 1024}, got["c"]); diff != "" {
			t.Errorf("by its command line (-want +got):\n%s", diff)
		}
		exec := func(argv ...string) (int32, string) {
			var stderr bytes.Buffer
			code, err := b.Exec.Exec(
				t.Context(), backend.ContainerRef{Pod: s.Ref(), Name: "c"}, backend.ExecSpec{Command: argv, Stderr: &stderr},
			)
			must(t, err)
			return code, stderr.String()
		}
		if code, _ := exec("use", "cpu=0", "memory=1Mi"); code != 0 {
			t.Errorf("use: exit code %d", code)
		}
		time.Sleep(time.Minute)
		got, _ = measure(t, b)
		if diff := cmp.Diff(measured{0, 1000, 1}, got["c"]); diff != "" {
			t.Errorf("after a command (-want +got):\n%s", diff)
		}
		for arg, want := range map[string]string{
			"cpu=much": "use: cpu=much is no amount\n", "disk=1": "use: disk is not cpu or memory\n",
			"cpu=-1": "use: cpu=-1 is no amount\n",
		} {
			if code, said := exec("use", arg); code != 1 || said != want {
				t.Errorf("use %s: %d %q, want %q", arg, code, said, want)
			}
		}
	})
}

// TestHostIsMeasuredWithoutSteps: the host's counters go on when pods end, and
// those of a pod when its containers are removed.
func TestHostIsMeasuredWithoutSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{Node: "mine", Images: []string{"busybox"}})
		b, other := r.Backend(), r.BackendFor("other")
		ctx := t.Context()
		s := spec("u", 0)
		start := func(b backend.Backend, s backend.LaunchSpec, name string, argv ...string) backend.ContainerRef {
			c := container(name, argv...)
			c.Pod = s.Pod
			must(t, b.Containers.Start(ctx, s.Ref(), c))
			return backend.ContainerRef{Pod: s.Ref(), Name: name}
		}
		must(t, b.Pods.Launch(ctx, ctx, s))
		must(t, other.Pods.Launch(ctx, ctx, spec("theirs", 0)))
		start(other, spec("theirs", 0), "theirs", "sleep", "infinity")
		start(b, s, "c", "sleep", "infinity")
		short := start(b, s, "short", "use", "cpu=1")
		long := start(b, s, "long", "sh", "-c", "use cpu=1; sleep 10")
		var last uint64
		grows := func(what string, milli uint64) {
			t.Helper()
			got, facts := measure(t, b)
			if _, there := got["theirs"]; there {
				t.Error("a pod of another node is measured")
			}
			if now := *facts.Node.CPUCoreNanoSeconds; now < last {
				t.Errorf("%s: the host's CPU time went back from %d to %d", what, last, now)
			} else {
				last = now
			}
			if now := *facts.Node.CPUNanoCores / 1e6; now != milli {
				t.Errorf("%s: the host uses %dm, want %dm", what, now, milli)
			}
		}
		time.Sleep(5 * time.Second)
		grows("all run", 50+10+1000)
		time.Sleep(10 * time.Second)
		grows("one ended", 50+10)
		must(t, b.Containers.Remove(ctx, short))
		must(t, b.Containers.Remove(ctx, long))
		_, facts := measure(t, b)
		if got, want := *facts.Pods[0].CPUCoreNanoSeconds, uint64(10e9+15*10e6); got != want {
			t.Errorf("the pod used %d, want %d", got, want)
		}
		grows("it was removed", 50+10)
		must(t, b.Pods.Remove(ctx, s.Ref()))
		time.Sleep(time.Second)
		grows("the pod was removed", 50)
		if _, facts := measure(t, b); len(facts.Pods) != 0 {
			t.Errorf("left: %+v", facts.Pods)
		}
		if want := uint64(16*50e6 + 10e9 + 15*10e6); last != want {
			t.Errorf("the host used %d, want %d", last, want)
		}
	})
}
