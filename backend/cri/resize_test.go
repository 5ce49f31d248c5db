package cri

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestResourcesOfARunningContainer(t *testing.T) {
	want := &runtimeapi.LinuxContainerResources{
		CpuShares: 102, CpuPeriod: 100000, CpuQuota: 20000, MemoryLimitInBytes: 64 << 20,
	}
	for name, reply := range map[string]*runtimeapi.ContainerStatusResponse{
		"as containerd 1.7 tells": {
			Status: &runtimeapi.ContainerStatus{Resources: &runtimeapi.ContainerResources{Linux: want}},
		},
		"as containerd 1.6 tells on request": {Info: map[string]string{
			"info": `{"runtimeSpec":{"linux":{"resources":{"cpu":{"shares":102,"period":100000,"quota":20000},"memory":{"limit":67108864}}}}}`,
		}},
	} {
		if diff := cmp.Diff(want.String(), resourcesOf(reply).String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := resourcesOf(&runtimeapi.ContainerStatusResponse{Info: map[string]string{"info": "words"}}); got != nil {
		t.Errorf("a runtime that says it differently: %v", got)
	}
	none := resourcesOf(&runtimeapi.ContainerStatusResponse{Info: map[string]string{
		"info": `{"runtimeSpec":{"linux":{"resources":{"cpu":{"shares":2,"quota":-1},"memory":{"limit":-1}}}}}`,
	}})
	if none.GetCpuQuota() != 0 || none.GetMemoryLimitInBytes() != 0 {
		t.Errorf("no limits: %v", none)
	}
}

func TestResourceFacts(t *testing.T) {
	was := resources("100m 32Mi", "200m 64Mi")
	for _, tt := range []struct {
		name string
		now  *runtimeapi.LinuxContainerResources
		want corev1.ResourceRequirements
	}{
		{"not known", nil, was},
		{"as it was made", convert.Resources(was), was},
		{
			"resized by an earlier life", convert.Resources(resources("250m 32Mi", "1 128Mi")),
			resources("250m 32Mi", "1 128Mi"),
		},
		{
			"every request is told as it was", convert.Resources(resources("999m 32Mi", "1001m 64Mi")),
			resources("999m 32Mi", "1001m 64Mi"),
		},
		{"without limits", &runtimeapi.LinuxContainerResources{CpuShares: 512, CpuQuota: -1}, resources("500m 32Mi", "- -")},
	} {
		got := resourceFacts(&was, tt.now)
		same := func(a, b corev1.ResourceList) bool {
			return len(a) == len(b) && a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
		}
		if !same(got.Requests, tt.want.Requests) || !same(got.Limits, tt.want.Limits) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c clock
	ask := func(ahead, took time.Duration) time.Duration {
		c.measured(now, now.Add(took/2+ahead), now.Add(took))
		return now.Sub(c.ours(now))
	}
	for _, tt := range []struct{ ahead, took, want time.Duration }{
		{400 * time.Millisecond, time.Millisecond, 0}, // clocks that are kept
		{90 * time.Second, time.Millisecond, 90 * time.Second},
		{90*time.Second + 700*time.Millisecond, time.Millisecond, 90 * time.Second}, // not worth a change
		{91 * time.Second, time.Millisecond, 91 * time.Second},
		{10 * time.Second, 4 * time.Minute, 91 * time.Second}, // a slow answer says little
		{-3 * time.Second, time.Millisecond, -3 * time.Second},
		{0, time.Millisecond, 0},
	} {
		if got := ask(tt.ahead, tt.took); got != tt.want {
			t.Errorf("%v ahead, asked within %v: %v believed, want %v", tt.ahead, tt.took, got, tt.want)
		}
	}
	ask(time.Hour, 0)
	if !c.ours(time.Time{}).IsZero() || !c.theirs(time.Time{}).IsZero() || !c.ours(c.theirs(now)).Equal(now) {
		t.Error("no time stays none, and there and back is the same")
	}
}

// inTurn is a host that tells of each limit of a pod's cgroup.
type inTurn struct {
	*withoutCgroups
	tell func(what string)
}

func (h inTurn) Limit(ctx context.Context, c host.Cgroup) (time.Duration, error) {
	what := "lower"
	if c.Raise {
		what = "raise"
	}
	h.tell(fmt.Sprintf("%s to %d of cpu and %d of memory", what, c.Quota, c.Memory))
	return h.withoutCgroups.Limit(ctx, c)
}

// No container may have more than its pod: the pod's cgroup gets what is more before the
// container is resized, or started again with more, and loses what is less after it.
func TestThePodsCgroupIsResizedAroundItsContainers(t *testing.T) {
	var mu sync.Mutex
	var told []string
	tell := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, what)
	}
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			if method == "UpdateContainerResources" || method == "CreateContainer" {
				tell(method)
			}
			return nil
		}
	})
	w.host = inTurn{w.host.(*withoutCgroups), tell}
	r, stop := w.connect(t)
	pod := testPod("u1")
	ask := func(requests, limits string) backend.ContainerSpec {
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Resources = resources(requests, limits)
		spec := containerSpec(pod, "main", 0)
		spec.Container = pod.Spec.Containers[0]
		return spec
	}
	check := func(when string, want ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		told = nil
	}
	spec := ask("100m 32Mi", "200m 64Mi")
	ref := backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	container := backend.ContainerRef{Pod: ref, Name: "main"}
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
	must(t, containers{r}.Start(t.Context(), ref, spec))
	check("started in a cgroup that was made for it", "CreateContainer")

	must(t, resizer{r}.Resize(t.Context(), container, ask("50m 32Mi", "400m 64Mi")))
	check("a higher limit, a smaller request", "raise to 40000 of cpu and 67108864 of memory",
		"UpdateContainerResources", "lower to 40000 of cpu and 67108864 of memory")

	spec = ask("50m 32Mi", "500m 96Mi")
	must(t, containers{r}.Stop(t.Context(), container, 0))
	spec.Attempt = 1
	must(t, containers{r}.Start(t.Context(), ref, spec))
	check("restarted with more", "raise to 50000 of cpu and 100663296 of memory", "CreateContainer")

	stop()
	r, _ = w.connect(t)
	must(t, containers{r}.Stop(t.Context(), backend.ContainerRef{Pod: ref, Name: "main", Attempt: 1}, 0))
	spec.Attempt = 2
	must(t, containers{r}.Start(t.Context(), ref, spec))
	check("restarted by a process that knows nothing of the cgroup",
		"raise to 50000 of cpu and 100663296 of memory", "CreateContainer")
}
