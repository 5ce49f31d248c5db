package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestResourcesAndQoS(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		requests, limits string
		qos              corev1.PodQOSClass
		shares, quota    int64
		memory, oom      int64
		cgroup           string
	}{
		{"", "", corev1.PodQOSBestEffort, 2, 0, 0, 1000, "/top/besteffort/podu1"},
		{"500m 1Gi", "500m 1Gi", corev1.PodQOSGuaranteed, 512, 50000, gib, -997, "/top/podu1"},
		{"", "2 1Gi", corev1.PodQOSGuaranteed, 2048, 200000, gib, -997, "/top/podu1"},
		{"1 1Gi", "", corev1.PodQOSBurstable, 1024, 0, 0, 900, "/top/burstable/podu1"},
		{"1 -", "2 1Gi", corev1.PodQOSBurstable, 1024, 200000, gib, 999, "/top/burstable/podu1"},
		{"- 100Gi", "", corev1.PodQOSBurstable, 2, 0, 0, 3, "/top/burstable/podu1"},
		{"", "1m -", corev1.PodQOSBurstable, 2, 1000, 0, 999, "/top/burstable/podu1"},
		{"1000 -", "", corev1.PodQOSBurstable, 262144, 0, 0, 999, "/top/burstable/podu1"},
	} {
		pod := fakecri.Pod("u1")
		pod.Spec.Containers[0].Resources = fakecri.Resources(tt.requests, tt.limits)
		got := Resources(pod.Spec.Containers[0].Resources)
		if got.CpuShares != tt.shares || got.CpuQuota != tt.quota || got.CpuPeriod != 100000 ||
			got.MemoryLimitInBytes != tt.memory {
			t.Errorf("%q %q: %v", tt.requests, tt.limits, got)
		}
		if qos := podQoS(pod); qos != tt.qos {
			t.Errorf("%q %q: %s, want %s", tt.requests, tt.limits, qos, tt.qos)
		}
		if score := oomScore(pod, &pod.Spec.Containers[0], 10*gib); score != tt.oom {
			t.Errorf("%q %q: oom score %d, want %d", tt.requests, tt.limits, score, tt.oom)
		}
		if parent := cgroupParent(criconfig.CgroupDriverCgroupfs, "top", pod); parent != tt.cgroup {
			t.Errorf("%q %q: cgroup %s, want %s", tt.requests, tt.limits, parent, tt.cgroup)
		}
	}
	pod := fakecri.Pod("a-b")
	if got := cgroupParent(criconfig.CgroupDriverSystemd, "top-most", pod); got != "top_most-besteffort-poda_b.slice" {
		t.Errorf("slice %s", got)
	}
	pod.Spec.PriorityClassName = nodeCriticalClass
	if score := oomScore(pod, &pod.Spec.Containers[0], gib); score != -997 {
		t.Errorf("node critical: %d", score)
	}
}

func TestSandboxResources(t *testing.T) {
	pod := fakecri.Pod("u1")
	pod.Spec.Containers = []corev1.Container{
		{Resources: fakecri.Resources("1 1Gi", "2 2Gi")}, {Resources: fakecri.Resources("500m -", "1 -")},
	}
	pod.Spec.InitContainers = []corev1.Container{{Resources: fakecri.Resources("- 3Gi", "5 -")}}
	got := podResources(pod)
	want := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("3Gi")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("5")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodResources(t *testing.T) {
	pod := fakecri.Pod("u1")
	pod.Spec.Containers[0].Resources = fakecri.Resources("100m 32Mi", "- -")
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"),
	}}
	if got := podResources(pod); got.Limits.Cpu().MilliValue() != 2000 || got.Limits.Memory().Value() != 1<<30 {
		t.Errorf("limits of the pod itself: %v", got)
	}
	c := Resources(*backend.WithPodLimits(pod, &pod.Spec.Containers[0].Resources))
	if c.GetCpuQuota() != 200000 || c.GetMemoryLimitInBytes() != 1<<30 || c.GetCpuShares() != 102 {
		t.Errorf("a container without limits of its own: %v", c)
	}
	if _, changed := pod.Spec.Containers[0].Resources.Limits["cpu"]; changed {
		t.Error("the pod was changed")
	}
	pod.Spec.Resources = nil
	pod.Spec.Overhead = corev1.ResourceList{"memory": resource.MustParse("8Mi")}
	pod.Spec.InitContainers = []corev1.Container{{
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: fakecri.Resources("50m 16Mi", "- -"),
	}}
	if got := podResources(pod); got.Requests.Cpu().MilliValue() != 150 || got.Requests.Memory().Value() != 56<<20 ||
		len(got.Limits) != 0 {
		t.Errorf("with a sidecar and overhead: %v", got)
	}
}
