package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// What containers of a host with 1 GiB of memory and 2 GiB of swap may swap (kubelet:
// GetContainerSwapBehavior).
func TestSwapOfContainers(t *testing.T) {
	facts := &host.Facts{CgroupV2: true, SwapLimits: true, Memory: 1 << 30, Swap: 2 << 30}
	for name, tt := range map[string]struct {
		behavior      string
		request, want string
		change        func(*corev1.Pod)
	}{
		"the default":                   {"", "- 64Mi", "0", nil},
		"NoSwap":                        {criconfig.NoSwap, "- 64Mi", "0", nil},
		"a share":                       {criconfig.LimitedSwap, "- 64Mi", "134217728", nil},
		"all":                           {criconfig.LimitedSwap, "- 1Gi", "2147483648", nil},
		"more than there is":            {criconfig.LimitedSwap, "- 2Gi", "0", nil},
		"BestEffort":                    {criconfig.LimitedSwap, "- -", "0", nil},
		"Burstable, none of its memory": {criconfig.LimitedSwap, "1 -", "0", nil},
		"request and limit": {criconfig.LimitedSwap, "1 64Mi", "0", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceMemory: pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory],
			}
		}},
		"critical": {
			criconfig.LimitedSwap, "- 64Mi", "0",
			func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(backend.SystemCriticalPriority)) },
		},
		"static": {criconfig.LimitedSwap, "- 64Mi", "0", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fakecri.Pod("u1")
			pod.Spec.Containers[0].Resources = fakecri.Resources(tt.request, "- -")
			if tt.change != nil {
				tt.change(pod)
			}
			r := New(criconfig.Config{SwapBehavior: tt.behavior})
			config := r.Container(backend.ContainerSpec{Pod: pod, Container: pod.Spec.Containers[0]}, 0, ImageUser{}, facts)
			if got := config.GetLinux().GetResources().GetUnified()["memory.swap.max"]; got != tt.want {
				t.Errorf("memory.swap.max is %s, want %s", got, tt.want)
			}
		})
	}
}
