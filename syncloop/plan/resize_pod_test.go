package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func ofThePod(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Resources = new(amounts(cpu, memory)) }
}

// TestResizeOfThePod: a container without limits is held to those of its pod, and a
// resize of the pod is one of the container, in place or by a restart as it says.
func TestResizeOfThePod(t *testing.T) {
	inPlace, restart := []string{"resize container a"}, []string{"stop container a attempt 0 with grace 30s"}
	before, held := ofThePod("1", "64Mi"), heldAs(runs("a", 0, 1), "1", "64Mi")
	held.Resources.Requests = nil // it asks for nothing itself
	resizedTo := func(r corev1.ResourceRequirements) func(*Memory) {
		return func(m *Memory) { m.Resized = map[string]Resized{"a-id0": {r, true}} }
	}
	for _, tt := range []struct {
		name string
		pod  []func(*corev1.Pod)
		c    backend.ContainerFacts
		mem  func(*Memory)
		want []string
	}{
		{name: "nothing differs", pod: []func(*corev1.Pod){before}, c: held},
		{name: "cpu", pod: []func(*corev1.Pod){ofThePod("2", "64Mi")}, c: held, want: inPlace},
		{name: "memory", pod: []func(*corev1.Pod){ofThePod("1", "32Mi")}, c: held, want: inPlace},
		{
			name: "RestartContainer of memory, memory changes",
			pod:  []func(*corev1.Pod){ofThePod("1", "32Mi"), resizePolicy("memory", "RestartContainer")}, c: held, want: restart,
		},
		{
			name: "RestartContainer of memory, cpu changes",
			pod:  []func(*corev1.Pod){ofThePod("2", "64Mi"), resizePolicy("memory", "RestartContainer")}, c: held, want: inPlace,
		},
		{
			name: "done, and facts are old", pod: []func(*corev1.Pod){ofThePod("2", "64Mi")}, c: held,
			mem: resizedTo(*backend.WithPodLimits(aPod(ofThePod("2", "64Mi")), &corev1.ResourceRequirements{})),
		},
		{
			name: "done for what the pod had", pod: []func(*corev1.Pod){ofThePod("2", "64Mi")}, c: runs("a", 0, 1),
			mem:  resizedTo(*backend.WithPodLimits(aPod(before), &corev1.ResourceRequirements{})),
			want: inPlace,
		},
		{name: "the remote does not say: held", pod: []func(*corev1.Pod){ofThePod("2", "64Mi")}, c: runs("a", 0, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := input(aPod(before), 3, attempt(0, true, held))
			told.Resizes = true
			in := input(aPod(tt.pod...), 4, attempt(0, true, tt.c))
			in.Resizes, in.Memory.Status = true, Decide(told).Status
			in.Memory.Resizing = &Resizing{Generation: 3}
			if tt.mem != nil {
				tt.mem(&in.Memory)
			}
			p := Decide(in)
			wantActions(t, p, tt.want...)
			if r := p.Status.ContainerStatuses[0].Resources; len(in.Pod.Spec.Containers[0].Resources.Limits) == 0 &&
				len(r.Limits)+len(r.Requests) > 0 {
				t.Errorf("the status shows the pod's limits as the container's: %v", r)
			}
		})
	}
}

// TestResizeOfThePodLeavesLimits: a container that has its own is resized no further
// than the pod's cgroup needs.
func TestResizeOfThePodLeavesLimits(t *testing.T) {
	held := heldAs(runs("a", 0, 1), "1", "64Mi")
	policy := resizePolicy("memory", "RestartContainer")
	told := input(aPod(ofThePod("1", "64Mi"), has("1", "64Mi"), policy), 3, attempt(0, true, held))
	told.Resizes = true
	in := told
	in.Pod = aPod(ofThePod("2", "128Mi"), has("1", "64Mi"), policy)
	in.Memory.Status = Decide(told).Status
	wantActions(t, Decide(in))
	in.Memory.BeginResize(in.Pod, 3)
	wantActions(t, Decide(in), "resize container a")
}

// TestPodIsShownAsItsCgroupIs: what the whole pod is held to changes in its status when
// its cgroup has changed, which is what the last of its containers brings about.
func TestPodIsShownAsItsCgroupIs(t *testing.T) {
	told := input(aPod(apps("a", "b"), ofThePod("1", "64Mi")), 3, attempt(0, true,
		heldAs(runs("a", 0, 1), "1", "64Mi"), heldAs(runs("b", 0, 1), "1", "64Mi")))
	told.Resizes = true
	in := told
	in.Pod = aPod(apps("a", "b"), ofThePod("2", "32Mi"))
	in.Memory.Status = Decide(told).Status
	in.Memory.BeginResize(in.Pod, 3)
	shows := func(when, want string) {
		t.Helper()
		s := Decide(in).Status
		if got := s.Resources.Limits.Memory().String(); got != want {
			t.Errorf("%s: held to %s, want %s", when, got, want)
		}
		if got := s.AllocatedResources.Memory().String(); got != "32Mi" {
			t.Errorf("%s: allocated %s, want 32Mi", when, got)
		}
	}
	p := Decide(in)
	wantActions(t, p, "resize container a", "resize container b")
	shows("allocated", "64Mi")
	in.Memory.Record(Result{Action: p.Actions[0]})
	shows("one of two is resized", "64Mi")
	in.Memory.Record(Result{Action: p.Actions[1]})
	shows("both are", "32Mi")
}

// TestResizeOfAnInitContainer: it is resized while it runs (kubelet:
// InPlacePodVerticalScalingInitContainers).
func TestResizeOfAnInitContainer(t *testing.T) {
	pod := aPod(inits("i"))
	pod.Spec.InitContainers[0].Resources = amounts("1", "64Mi")
	told := input(pod, 3, attempt(0, true, heldAs(runs("i", 0, 1), "1", "64Mi")))
	told.Resizes = true
	in := told
	in.Pod = pod.DeepCopy()
	in.Pod.Spec.InitContainers[0].Resources = amounts("2", "64Mi")
	in.Memory.Status = Decide(told).Status
	in.Memory.BeginResize(in.Pod, 3)
	wantActions(t, Decide(in), "resize container i")
}

// A container that has to end first keeps the pod's cgroup from being made what it is to
// be: it has more still.
func TestThePodIsLowerWhenItsContainersAre(t *testing.T) {
	pod := aPod(apps("a", "b"), resizePolicy("memory", "RestartContainer"))
	pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = amounts("1", "32Mi"), amounts("500m", "64Mi")
	in := resizing(pod, heldAs(runs("a", 0, 1), "1", "64Mi"), heldAs(runs("b", 0, 1), "1", "64Mi"))
	in.Memory.PodLags = true
	p := Decide(in)
	wantActions(t, p, "stop container a attempt 0 with grace 30s", "resize container b")
	in.Memory.Record(Result{Action: p.Actions[1]})
	if !in.Memory.PodLags {
		t.Error("the pod's cgroup counts as done before its first container has ended")
	}
}
