package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

func namesOf(statuses []corev1.ContainerStatus) (names []string) {
	for i := range statuses {
		names = append(names, statuses[i].Name)
	}
	return names
}

// Statuses of containers stand in the order of their names, those of init containers in
// the order of the spec (kubelet: SortedContainerStatuses, SortStatusesOfInitContainers).
func TestStatusesAreSorted(t *testing.T) {
	pod := aPod(inits("z", "i"), apps("web", "app"), policy("Never"))
	for _, n := range []string{"y", "d"} {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: n, Image: "img"},
		})
	}
	alive := attempt(0, true, ran1("z", 0, 1, 2, 0), ran1("i", 0, 2, 3, 0), runs("web", 0, 3), runs("app", 0, 4))
	s := Decide(input(pod, 5, alive)).Status
	if got := namesOf(s.ContainerStatuses); !slices.Equal(got, []string{"app", "web"}) {
		t.Errorf("containers %q", got)
	}
	if got := namesOf(s.InitContainerStatuses); !slices.Equal(got, []string{"z", "i"}) {
		t.Errorf("init containers %q", got)
	}
	if got := namesOf(s.EphemeralContainerStatuses); !slices.Equal(got, []string{"d", "y"}) {
		t.Errorf("ephemeral containers %q", got)
	}
	s = Decide(input(aPod(apps("web", "app")), 5, attempt(0, true))).Status
	for _, c := range s.Conditions { // conditions name them as the spec does
		if c.Type == corev1.ContainersReady && c.Message != "containers with unready status: [web app]" {
			t.Errorf("ContainersReady says %q", c.Message)
		}
	}
}

// A container that was made says what it was allocated, be it nothing: `resources: {}`;
// one that was not, and asks for nothing, says nothing (kubelet:
// convertContainerStatusResources).
func TestResourcesOfContainers(t *testing.T) {
	pod := aPod(apps("a", "b", "c"))
	pod.Spec.Containers[2].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	s := Decide(input(pod, 5, attempt(0, true, runs("a", 0, 1), runs("c", 0, 1)))).Status
	a, b, c := statusOf(t, s, "a"), statusOf(t, s, "b"), statusOf(t, s, "c")
	if a.Resources == nil || a.AllocatedResources != nil || len(a.Resources.Requests)+len(a.Resources.Limits) > 0 {
		t.Errorf("made, asks for nothing: resources %+v, allocated %v", a.Resources, a.AllocatedResources)
	}
	if b.Resources != nil || b.AllocatedResources != nil {
		t.Errorf("not made, asks for nothing: resources %+v, allocated %v", b.Resources, b.AllocatedResources)
	}
	if c.Resources == nil || c.AllocatedResources.Cpu().String() != "1" {
		t.Errorf("made, asks for 1 cpu: resources %+v, allocated %v", c.Resources, c.AllocatedResources)
	}
}

// What never started in a pod that has ended is shown as ended with 137, once the pod was
// initialised; of the init containers those are left out that never had their turn
// (kubelet: TerminatePod, initializedContainers).
func TestNeverStartedContainersOfAnEndedPod(t *testing.T) {
	pulls := func(pod *corev1.Pod) { pod.Spec.Containers[1].Image = "nowhere" }
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		facts []backend.PodFacts
		// ended has the containers that are Terminated with 137, ContainerStatusUnknown.
		ended []string
	}{
		{
			"one app ran, one never", aPod(apps("a", "b"), pulls, deleted(7, 9)),
			[]backend.PodFacts{attempt(0, true, ran1("a", 0, 1, 2, 0))},
			[]string{"b"},
		},
		{"none ever ran, no init container", aPod(apps("a", "b"), deleted(7, 9)), nil, []string{"a", "b"}},
		{
			"while one runs nothing is said of the other", aPod(apps("a", "b"), pulls, deleted(7, 9)),
			[]backend.PodFacts{attempt(0, true, runs("a", 0, 1))},
			nil,
		},
		{"the first init container never started", aPod(inits("i", "j"), deleted(7, 9)), nil, []string{"i"}},
		{
			"the first failed", aPod(inits("i", "j"), deleted(7, 9)),
			[]backend.PodFacts{attempt(0, true, ran1("i", 0, 1, 2, 1))},
			nil,
		},
		{
			"the last ended with 0", aPod(inits("i"), deleted(7, 9)),
			[]backend.PodFacts{attempt(0, true, ran1("i", 0, 1, 2, 0))},
			[]string{"a"},
		},
		{
			"sidecar before them never ran", aPod(sidecars("s"), deleted(7, 9)),
			[]backend.PodFacts{attempt(0, true, ran1("a", 0, 1, 2, 0))},
			[]string{"s"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Decide(input(tt.pod, 3, tt.facts...)).Status
			var ended []string
			for _, c := range append(slices.Clone(s.InitContainerStatuses), s.ContainerStatuses...) {
				if end := c.State.Terminated; end != nil && end.Reason == "ContainerStatusUnknown" && end.ExitCode == 137 &&
					c.ContainerID == "" {
					ended = append(ended, c.Name)
				}
			}
			if !slices.Equal(ended, tt.ended) {
				t.Errorf("ended with 137: %q, want %q", ended, tt.ended)
			}
		})
	}
}

// The kubelet's words for readiness gates (GeneratePodReadyCondition).
func TestReadinessGateMessage(t *testing.T) {
	pod := aPod()
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{
		{ConditionType: "example.com/lb"}, {ConditionType: "example.com/dns"},
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/dns", Status: corev1.ConditionFalse}}
	s := Decide(input(pod, 5, attempt(0, true, runs("a", 0, 1)))).Status
	want := `corresponding condition of pod readiness gate "example.com/lb" does not exist., ` +
		`the status of pod readiness gate "example.com/dns" is not "True", but False`
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady && (c.Message != want || c.Reason != "ReadinessGatesNotReady") {
			t.Errorf("Ready says %s: %q", c.Reason, c.Message)
		}
	}
}

// A mount is shown as what became of it: read-only with all below it only where the runtime
// can do that (kubelet: convertToAPIContainerStatuses). What demands it elsewhere does not
// start.
func TestMountsReadOnlyBelow(t *testing.T) {
	for _, tt := range []struct {
		asked corev1.RecursiveReadOnlyMode
		can   bool
		shown corev1.RecursiveReadOnlyMode
		waits string
	}{
		{corev1.RecursiveReadOnlyIfPossible, false, corev1.RecursiveReadOnlyDisabled, ""},
		{corev1.RecursiveReadOnlyIfPossible, true, corev1.RecursiveReadOnlyEnabled, ""},
		{corev1.RecursiveReadOnlyEnabled, true, corev1.RecursiveReadOnlyEnabled, ""},
		{corev1.RecursiveReadOnlyEnabled, false, corev1.RecursiveReadOnlyDisabled, ReasonCreateConfigError},
	} {
		pod := aPod(apps("a"))
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{
			Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &tt.asked,
		}}
		in := input(pod, 5, attempt(0, true))
		if tt.can {
			in.Node.RecursiveReadOnly = []string{""}
		}
		p := Decide(in)
		a := statusOf(t, p.Status, "a")
		if m := a.VolumeMounts; len(m) != 1 || m[0].RecursiveReadOnly == nil || *m[0].RecursiveReadOnly != tt.shown {
			t.Errorf("%s, can %t: shown as %+v, want %s", tt.asked, tt.can, m, tt.shown)
		}
		if w := a.State.Waiting; tt.waits != "" && (w == nil || w.Reason != tt.waits || len(p.Actions) > 0) {
			t.Errorf("%s, can %t: waits for %+v with actions %v, want %s", tt.asked, tt.can, w, p.Actions, tt.waits)
		}
	}
}

// What a whole pod is allocated is shown of every pod, be it nothing: what it asks for
// itself, or the sum of its containers; while it runs only what its cgroup is held to
// (kubelet: convertToAPIPodLevelResourcesStatus).
func TestResourcesOfPods(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if value != "" {
				l[name] = resource.MustParse(value)
			}
		}
		return l
	}
	for _, tt := range []struct {
		name            string
		a, b            corev1.ResourceRequirements
		pod             *corev1.ResourceRequirements
		waits           bool
		requests, limit corev1.ResourceList // of status.resources
		allocated       corev1.ResourceList
	}{
		{name: "asks for nothing"},
		{
			name: "a sum", a: corev1.ResourceRequirements{Requests: list("1", "1Gi")},
			b:        corev1.ResourceRequirements{Requests: list("1", "")},
			requests: list("2", "1Gi"), allocated: list("2", "1Gi"),
		},
		{
			name: "limits of all", a: corev1.ResourceRequirements{Requests: list("1", ""), Limits: list("1", "1Gi")},
			b: corev1.ResourceRequirements{Limits: list("1", "1Gi")}, requests: list("1", ""), limit: list("2", "2Gi"),
			allocated: list("1", ""),
		},
		{
			name: "limits of one", a: corev1.ResourceRequirements{Limits: list("1", "1Gi")},
			b:     corev1.ResourceRequirements{Limits: list("", "1Gi")},
			limit: list("", "2Gi"),
		},
		{
			name: "limits of one that waits", waits: true, a: corev1.ResourceRequirements{Limits: list("1", "1Gi")},
			b: corev1.ResourceRequirements{Limits: list("", "1Gi")}, limit: list("1", "2Gi"),
		},
		{
			name: "of the pod", pod: &corev1.ResourceRequirements{Requests: list("3", ""), Limits: list("4", "4Gi")},
			a: corev1.ResourceRequirements{Requests: list("1", "1Gi")}, requests: list("3", "1Gi"), limit: list("4", "4Gi"),
			allocated: list("3", "1Gi"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := aPod(apps("a", "b"))
			pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources, pod.Spec.Resources = tt.a, tt.b, tt.pod
			facts := attempt(0, true, runs("a", 0, 1), runs("b", 0, 1))
			if tt.waits {
				facts = attempt(0, true)
			}
			s := Decide(input(pod, 5, facts)).Status
			if s.Resources == nil {
				t.Fatal("it says nothing of the pod's resources")
			}
			for what, got := range map[string][2]corev1.ResourceList{
				"requests": {s.Resources.Requests, tt.requests}, "limits": {s.Resources.Limits, tt.limit},
				"allocated": {s.AllocatedResources, tt.allocated},
			} {
				if !equality.Semantic.DeepEqual(got[0], got[1]) && len(got[0])+len(got[1]) > 0 {
					t.Errorf("%s: %v, want %v", what, got[0], got[1])
				}
			}
		})
	}
}
