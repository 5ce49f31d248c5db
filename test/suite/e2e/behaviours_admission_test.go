package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// admissionBehaviours are about pods that the node does not take.
var admissionBehaviours = []behaviour{
	{
		"unsupported-volume",
		[]string{onSim, onCRI},
		rejected("UnsupportedByBackend", "spec.volumes[0]", func(pod *corev1.Pod, _ string) {
			mount(
				"disk",
				corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.1:3260", IQN: "iqn.2001-04.test:disk"}},
			)(pod)
		}),
	},
	// On a host over SSH too, once its node is told not to allow it (TestHost).
	{"host-network", []string{onSim}, refuseHostNetwork},
	{
		"poststart-refused",
		[]string{onPodUnit},
		rejected("UnsupportedByBackend", "spec.containers[0].lifecycle.postStart", func(pod *corev1.Pod, _ string) {
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: run("true")}}
		}),
	},
	{
		"pod-ip-refused",
		[]string{onPodUnit},
		rejected("UnsupportedByBackend", "spec.containers[0].env[0].valueFrom.fieldRef", func(pod *corev1.Pod, _ string) {
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "IP", ValueFrom: field("status.podIP")}}
		}),
	},
	{"node-selector", []string{onSim}, rejected("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match "+
		"Pod's node affinity/selector",
		func(pod *corev1.Pod, node string) {
			pod.Spec.NodeName, pod.Spec.NodeSelector = node, map[string]string{"disk": "fast"}
		})},
	{"taint", []string{onSim}, untolerated},
	{
		"out-of-cpu",
		[]string{onSim},
		rejected("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1000000, used: ", outOfCPU),
	},
	{"sysctl", []string{onSim}, rejected("SysctlForbidden", `forbidden sysctl: "net.core.somaxconn" not allowlisted`,
		func(pod *corev1.Pod, _ string) {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{
				Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "1024"}},
			}
		})},
}

func refuseHostNetwork(l *life) {
	rejected(
		"UnsupportedByBackend", "spec.hostNetwork", func(pod *corev1.Pod, _ string) { pod.Spec.HostNetwork = true },
	)(l)
}

func outOfCPU(pod *corev1.Pod, node string) {
	pod.Spec.NodeName = node
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
}

// rejected is a pod that fails at once, as a kubelet fails it; its status and an
// Event say why.
func rejected(reason, words string, change func(pod *corev1.Pod, node string)) func(*life) {
	return func(l *life) {
		pod := l.create(l.pod(shell(":"), func(pod *corev1.Pod) { change(pod, l.n.name) }))
		l.event(pod, reason, words)
		l.until("rejected", func(pod *corev1.Pod) error {
			if s := pod.Status; s.Phase != corev1.PodFailed || s.Reason != reason ||
				!has(s.Message, []string{"Pod was rejected: ", words}) {
				return fmt.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
			}
			return nil
		})
	}
}

// untolerated: a pod that names its node runs in spite of a taint NoSchedule,
// which is the scheduler's matter.
func untolerated(l *life) {
	l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Spec.Tolerations = l.n.name, nil
	}))
	l.until("Ready", isReady)
}
