package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

// A pod on a node is scheduled, whatever the scheduler has said of it (kubelet:
// generateAPIPodStatus).
func TestScheduledCondition(t *testing.T) {
	said := func(status corev1.ConditionStatus, reason string) *corev1.PodCondition {
		return &corev1.PodCondition{
			Type: corev1.PodScheduled, Status: status, Reason: reason, LastTransitionTime: metav1.Time{Time: at(0)},
		}
	}
	for _, tt := range []struct {
		name  string
		held  *corev1.PodCondition
		since float64
	}{
		{"as the scheduler said", said(corev1.ConditionTrue, ""), 0},
		{"a pod that names its node", nil, 5},
		{"a failure of the one before under the name", said(corev1.ConditionFalse, corev1.PodReasonSchedulerError), 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := aPod()
			if tt.held != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *tt.held)
			}
			var got []corev1.PodCondition
			for _, c := range Decide(input(pod, 5)).Status.Conditions {
				if c.Type == corev1.PodScheduled {
					got = append(got, c)
				}
			}
			if len(got) != 1 || got[0].Status != corev1.ConditionTrue || got[0].Reason != "" ||
				!got[0].LastTransitionTime.Time.Equal(at(tt.since)) {
				t.Errorf("PodScheduled is %+v, want True since %v", got, at(tt.since))
			}
		})
	}
}

// The host's address is in a pod's first status, and is a pod's own on the host's network
// (kubelet: generateAPIPodStatus). Where each attempt has a machine of its own it comes with
// that, and one that is known stays.
func TestHostOfAPodWithoutASandbox(t *testing.T) {
	hostNetwork := func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
	for _, tt := range []struct {
		name      string
		in        Input
		host, pod string
	}{
		{name: "none yet", in: input(aPod(), 1), host: "192.0.2.1"},
		{name: "on the host's network", in: input(aPod(hostNetwork), 1), host: "192.0.2.1", pod: "192.0.2.1"},
		{name: "each with its machine", in: task(input(aPod(), 1))},
		{
			name: "it has another", in: input(aPod(func(pod *corev1.Pod) { pod.Status.HostIP = "192.0.2.2" }), 1),
			host: "192.0.2.2",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Decide(tt.in).Status
			if s.HostIP != tt.host || s.PodIP != tt.pod ||
				tt.name != "it has another" && len(s.HostIPs) != min(1, len(tt.host)) {
				t.Errorf("host %q %v, pod %q; want %q, %q", s.HostIP, s.HostIPs, s.PodIP, tt.host, tt.pod)
			}
		})
	}
}

// TestStatusFields: behaviour 9.
func TestStatusFields(t *testing.T) {
	pod := aPod(change(func(c *corev1.Container) {
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}}
	}))
	pod.Generation = 7
	p := Decide(input(pod, 3, attempt(0, true, runs("a", 0, 1))))
	s := p.Status
	if s.ObservedGeneration != 7 || s.PodIP != "10.0.0.9" || len(s.PodIPs) != 1 || s.HostIP != "192.0.2.1" ||
		len(s.HostIPs) != 1 {
		t.Errorf("status %+v", s)
	}
	for _, c := range s.Conditions {
		if c.ObservedGeneration != 7 {
			t.Errorf("condition %s observed generation %d", c.Type, c.ObservedGeneration)
		}
		if c.Type == corev1.PodReadyToStartContainers && c.Status != corev1.ConditionTrue {
			t.Error("PodReadyToStartContainers is not True")
		}
	}
	c := &s.ContainerStatuses[0]
	if c.Resources == nil || c.AllocatedResources.Cpu().String() != "1" || len(c.VolumeMounts) != 1 ||
		!c.VolumeMounts[0].ReadOnly {
		t.Errorf("container status %+v", c)
	}
}

// TestStatusUser: behaviour 9; it stays when the container is not seen any more.
func TestStatusUser(t *testing.T) {
	a := runs("a", 0, 1)
	a.User = &corev1.LinuxContainerUser{UID: 7}
	pod := aPod()
	pod.Status = Decide(input(pod, 3, attempt(0, true, a))).Status
	for _, p := range []Plan{Decide(input(pod, 4, attempt(0, true, a))), Decide(input(pod, 4, attempt(0, true)))} {
		if u := p.Status.ContainerStatuses[0].User; u == nil || u.Linux.UID != 7 {
			t.Errorf("user %+v", u)
		}
	}
}

// The status with which a pod that ends gets its terminal phase says that no container can
// start in it any more, whether its sandbox was seen to go or not: no other may follow, as
// the pod is deleted then (kubelet: SyncTerminatingPod kills the sandbox first).
func TestNothingStartsInAPodThatEnded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		facts backend.PodFacts
		want  corev1.ConditionStatus
	}{
		{"deleted, it runs", aPod(deleted(7, 9)), attempt(0, true, runs("a", 0, 1)), corev1.ConditionTrue},
		{"deleted, it has ended", aPod(deleted(7, 9)), attempt(0, true, ran1("a", 0, 1, 4, 0)), corev1.ConditionFalse},
		{"ended by itself", aPod(policy("Never")), attempt(0, true, ran1("a", 0, 1, 4, 0)), corev1.ConditionFalse},
		{"restarts", aPod(), attempt(0, true, ran1("a", 0, 1, 4, 0)), corev1.ConditionTrue},
	} {
		for _, c := range Decide(input(tt.pod, 5, tt.facts)).Status.Conditions {
			if c.Type == corev1.PodReadyToStartContainers && c.Status != tt.want {
				t.Errorf("%s: %s is %s, want %s", tt.name, c.Type, c.Status, tt.want)
			}
		}
	}
}
