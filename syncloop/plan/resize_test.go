package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// amounts are requests that are limits: cpu, memory.
func amounts(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

func has(cpu, memory string) func(*corev1.Pod) {
	return change(func(c *corev1.Container) { c.Resources = amounts(cpu, memory) })
}

func resizePolicy(name corev1.ResourceName, policy corev1.ResourceResizeRestartPolicy) func(*corev1.Pod) {
	return change(func(c *corev1.Container) {
		c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: policy})
	})
}

func heldAs(c backend.ContainerFacts, cpu, memory string) backend.ContainerFacts {
	r := amounts(cpu, memory)
	c.Resources = &r
	return c
}

// resizing is a pod that had 1 cpu and 64Mi and was allocated what pod says.
func resizing(pod *corev1.Pod, cs ...backend.ContainerFacts) Input {
	before := pod.DeepCopy()
	had := amounts("1", "64Mi")
	for i := range before.Spec.Containers {
		before.Spec.Containers[i].Resources = had
	}
	told := input(before, 3, attempt(0, true, runs("a", 0, 1)))
	told.Resizes = true
	in := input(pod, 4, attempt(0, true, cs...))
	in.Resizes, in.Memory.Status = true, Decide(told).Status
	in.Memory.Resizing = &Resizing{Generation: 3}
	return in
}

// TestResizeActions reads as what is done about a resize that was allocated
// (kubelet: computePodResizeAction).
func TestResizeActions(t *testing.T) {
	inPlace, restart := []string{"resize container a"}, []string{"stop container a attempt 0 with grace 30s"}
	for _, tt := range []struct {
		name string
		pod  []func(*corev1.Pod)
		c    backend.ContainerFacts
		mem  func(*Memory)
		want []string
		done bool
	}{
		{
			name: "nothing differs: done", pod: []func(*corev1.Pod){has("1", "64Mi")}, c: heldAs(runs("a", 0, 1), "1", "64Mi"),
			done: true,
		},
		{
			name: "cpu, by default in place", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c: heldAs(runs("a", 0, 1), "1", "64Mi"), want: inPlace,
		},
		{
			name: "the remote does not say: by what the status told", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c: runs("a", 0, 1), want: inPlace,
		},
		{
			name: "facts show it done, nobody asked: the reply was lost with a life", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c: heldAs(runs("a", 0, 1), "2", "64Mi"), done: true,
		},
		{
			name: "asked and done, facts are old", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c:   heldAs(runs("a", 0, 1), "1", "64Mi"),
			mem: func(m *Memory) { m.Resized = map[string]Resized{"a-id0": {amounts("2", "64Mi"), true}} }, done: true,
		},
		{
			name: "asked and done for another: facts that are old do not count", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c:   heldAs(runs("a", 0, 1), "2", "64Mi"),
			mem: func(m *Memory) { m.Resized = map[string]Resized{"a-id0": {amounts("3", "64Mi"), true}} }, want: inPlace,
		},
		{
			name: "the reply was lost: again", pod: []func(*corev1.Pod){has("2", "64Mi")},
			c:   heldAs(runs("a", 0, 1), "2", "64Mi"),
			mem: func(m *Memory) { m.Resized = map[string]Resized{"a-id0": {amounts("2", "64Mi"), false}} }, want: inPlace,
		},
		{
			name: "failed a moment ago: wait", pod: []func(*corev1.Pod){has("2", "64Mi")}, c: runs("a", 0, 1),
			mem: func(m *Memory) { m.Failures[resizeKey("a")] = Failure{At: at(3), Delay: 10 * time.Second} },
		},
		{
			name: "the pod's own cgroup lags", pod: []func(*corev1.Pod){has("1", "64Mi")},
			c:   heldAs(runs("a", 0, 1), "1", "64Mi"),
			mem: func(m *Memory) { m.PodLags = true }, want: inPlace,
		},
		{
			name: "RestartContainer of memory, cpu changes: in place",
			pod:  []func(*corev1.Pod){has("2", "64Mi"), resizePolicy("memory", "RestartContainer")}, c: runs("a", 0, 1),
			want: inPlace,
		},
		{
			name: "RestartContainer of memory, memory changes",
			pod:  []func(*corev1.Pod){has("1", "32Mi"), resizePolicy("memory", "RestartContainer")}, c: runs("a", 0, 1),
			want: restart,
		},
		{
			name: "RestartContainer under Never all the same",
			pod:  []func(*corev1.Pod){has("1", "32Mi"), resizePolicy("memory", "RestartContainer"), policy("Never")},
			c:    runs("a", 0, 1), want: restart,
		},
		{
			name: "restarted: it has what is allocated",
			pod:  []func(*corev1.Pod){has("1", "32Mi"), resizePolicy("memory", "RestartContainer")}, c: runs("a", 1, 3),
			done: true,
		},
		{
			name: "no resize under way, and the remote has drifted: in place whatever the policy",
			pod:  []func(*corev1.Pod){has("2", "64Mi"), resizePolicy("cpu", "RestartContainer")},
			c:    heldAs(runs("a", 0, 1), "3", "64Mi"),
			mem:  func(m *Memory) { m.Resizing = nil }, want: inPlace,
		},
		{
			name: "shares that the kernel cannot tell apart", pod: []func(*corev1.Pod){has("1", "64Mi")},
			c: heldAs(runs("a", 0, 1), "1000m", "65537Ki"), done: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := resizing(aPod(tt.pod...), tt.c)
			if tt.mem != nil {
				tt.mem(&in.Memory)
			}
			p := Decide(in)
			wantActions(t, p, tt.want...)
			if p.Resized != tt.done {
				t.Errorf("resized %v, want %v", p.Resized, tt.done)
			}
			inProgress := TrueCondition(&p.Status, corev1.PodResizeInProgress)
			if want := in.Memory.Resizing != nil && !tt.done; (inProgress != nil) != want ||
				want && inProgress.ObservedGeneration != 3 {
				t.Errorf("in progress: %+v, want %v", inProgress, want)
			}
		})
	}
}

// TestResizeRestart: the container that is restarted gets what is allocated, its
// restart is told, and a crash loop of before does not hold it back.
func TestResizeRestart(t *testing.T) {
	pod := aPod(has("1", "32Mi"), resizePolicy("memory", "RestartContainer"), policy("Never"))
	in := resizing(pod, runs("a", 0, 1))
	in.Memory.Backoff["a@"] = Backoff{Delay: time.Hour, Last: at(3)}
	p := Decide(in)
	if why := p.Actions[0].(StopContainer).Why; why != "Container a resize requires restart" {
		t.Errorf("why %q", why)
	}
	in.Memory.Terminations = p.Terminations
	in.Facts = []backend.PodFacts{attempt(0, true, ran1("a", 0, 1, 4, 143))}
	p = Decide(in)
	wantActions(t, p, "start container a attempt 1")
	limits := p.Actions[0].(StartContainer).Spec.Container.Resources.Limits
	if got := limits.Memory().String(); got != "32Mi" {
		t.Errorf("started with %s", got)
	}
	if p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("shown as %+v, %s", p.Status.ContainerStatuses[0].State, p.Status.Phase)
	}
}

// TestResizeOrder: who gives memory back comes first; after a failure the rest wait.
func TestResizeOrder(t *testing.T) {
	pod := aPod(apps("a", "b", "c"))
	for i, memory := range []string{"128Mi", "64Mi", "32Mi"} {
		pod.Spec.Containers[i].Resources = amounts("2", memory)
	}
	in := resizing(
		pod, heldAs(runs("a", 0, 1), "1", "64Mi"), heldAs(runs("b", 0, 1), "1", "64Mi"), heldAs(runs("c", 0, 1), "1", "64Mi"),
	)
	wantActions(t, Decide(in), "resize container c", "resize container b", "resize container a")
	in.Memory.Failures[resizeKey("b")] = Failure{At: at(3), Delay: 10 * time.Second}
	wantActions(t, Decide(in), "resize container c")
	spec := Decide(in).Actions[0].(ResizeContainer).Spec
	if spec.Pod != pod || spec.Container.Name != "c" || spec.Container.Resources.Limits.Memory().String() != "32Mi" {
		t.Errorf("spec %+v", spec)
	}
}

// TestResizeStatus: what is told of a container's resources (kubelet:
// convertContainerStatusResources).
func TestResizeStatus(t *testing.T) {
	for _, tt := range []struct {
		name      string
		c         backend.ContainerFacts
		allocated string
		held      string
	}{
		{"the remote says", heldAs(runs("a", 0, 1), "3", "64Mi"), "2", "3"},
		{"the remote does not say: as told before", runs("a", 0, 1), "2", "1"},
		{"just restarted", runs("a", 1, 3), "2", "2"},
		{"does not run: what it will have", ran1("a", 0, 1, 3, 1), "2", "2"},
		{"as good as allocated", heldAs(runs("a", 0, 1), "2000m", "64Mi"), "2", "2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Decide(resizing(aPod(has("2", "64Mi")), tt.c)).Status.ContainerStatuses[0]
			if got := c.AllocatedResources.Cpu().String(); got != tt.allocated {
				t.Errorf("allocated %s, want %s", got, tt.allocated)
			}
			if got := c.Resources.Requests.Cpu().String(); got != tt.held {
				t.Errorf("held to %s, want %s", got, tt.held)
			}
		})
	}
}

// TestResizeConditions: behaviour 10, what waits and what fails is told, until the
// pod ends.
func TestResizeConditions(t *testing.T) {
	in := resizing(aPod(has("1", "64Mi")), runs("a", 0, 1))
	in.Pod.Generation = 7
	in.Memory.Resizing = &Resizing{Generation: 5, Reason: "Error", Message: "no"}
	in.Memory.PodLags = true
	wanted := aPod(has("4", "64Mi"))
	in.Resize = &Resize{Wanted: wanted, Reason: "Deferred", Message: "no room"}
	p := Decide(in)
	pending, busy := TrueCondition(&p.Status, corev1.PodResizePending), TrueCondition(
		&p.Status, corev1.PodResizeInProgress,
	)
	if pending == nil || pending.Reason != "Deferred" || pending.Message != "no room" || pending.ObservedGeneration != 7 {
		t.Errorf("pending %+v", pending)
	}
	if busy == nil || busy.Reason != "Error" || busy.Message != "no" || busy.ObservedGeneration != 5 {
		t.Errorf("in progress %+v", busy)
	}
	says := ResizeEvents(in.Pod, in.Resize, &corev1.PodStatus{}, &p.Status)
	if len(says) != 2 || says[0].Reason != "ResizeDeferred" || says[1].Reason != "ResizeError" ||
		!strings.HasPrefix(
			says[0].Message, `Pod resize Deferred: {"containers":[{"name":"a","resources":{"limits":{"cpu":"4","memory":"64Mi"}`,
		) ||
		!strings.HasSuffix(says[1].Message, `"generation":5,"error":"no"}`) {
		t.Errorf("says %q", says)
	}
	if again := ResizeEvents(in.Pod, in.Resize, &p.Status, &p.Status); len(again) != 0 {
		t.Errorf("says again %q", again)
	}
}

// TestResizeOfEndedPod: it is neither waiting nor under way.
func TestResizeOfEndedPod(t *testing.T) {
	in := resizing(aPod(has("1", "64Mi")), runs("a", 0, 1))
	in.Resize = &Resize{Wanted: aPod(has("4", "64Mi")), Reason: "Deferred", Message: "no room"}
	in.Memory.Termination = &TerminationOrder{Phase: corev1.PodFailed, Deadline: in.Now}
	in.Facts = []backend.PodFacts{attempt(0, false, ran1("a", 0, 1, 3, 1))}
	in.Memory.Status.Phase = corev1.PodFailed
	if got := Decide(in).Status.Conditions; slices.ContainsFunc(
		got, func(c corev1.PodCondition) bool { return strings.HasPrefix(string(c.Type), "PodResize") },
	) {
		t.Errorf("the pod has ended: %+v", got)
	}
}

// TestRecordResize reads as what is remembered of each result of a resize.
func TestRecordResize(t *testing.T) {
	a := ResizeContainer{
		Ref: backend.ContainerRef{Name: "a", ID: "id"}, Spec: backend.ContainerSpec{Pod: &corev1.Pod{}}, Last: true,
	}
	for _, tt := range []struct {
		name   string
		r      Result
		done   bool
		delay  time.Duration
		reason string
	}{
		{name: "done", r: Result{Action: a}, done: true},
		{name: "the reply was lost", r: Result{Action: a, Err: backend.ErrUnavailable}, delay: time.Second},
		{
			name: "refused", r: Result{Action: a, Err: backend.ErrInvalid, Reason: "Error"}, delay: 10 * time.Second,
			reason: "Error",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(corev1.PodStatus{})
			m.Resizing, m.PodLags = &Resizing{Generation: 1}, true
			tt.r.At = at(5)
			m.Record(tt.r)
			if m.Resized["id"].Done != tt.done || m.PodLags == tt.done || m.Failures["resize a"].Delay != tt.delay ||
				m.Resizing.Reason != tt.reason {
				t.Errorf("memory %+v, resizing %+v", m, m.Resizing)
			}
		})
	}
}
