package stats

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

// Input is what a summary is made of.
type Input struct {
	// Node is the node's name; Since is when its statistics began, where the
	// measurement does not say.
	Node  string
	Since time.Time
	// Facts are the measurement; nil where the backend cannot measure: then what
	// runs is named without numbers.
	Facts *backend.StatsFacts
	// Pods are the node's, with their status.
	Pods []*corev1.Pod
	// OnlyCPUAndMemory leaves out everything else.
	OnlyCPUAndMemory bool
}

// Summarize makes the answer of /stats/summary. Pods are in order of namespace,
// name and UID, their containers in that of their spec.
func Summarize(in Input) *statsv1alpha1.Summary {
	summary := &statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{NodeName: in.Node, StartTime: metav1.NewTime(in.Since)},
		Pods: []statsv1alpha1.PodStats{},
	}
	if in.Facts == nil {
		summary.Pods = append(summary.Pods, unmeasured(in.Pods)...)
	} else {
		if in.Facts.Node != nil {
			setNode(&summary.Node, in.Facts.Node, in.OnlyCPUAndMemory)
		}
		if !in.OnlyCPUAndMemory {
			summary.Node.Runtime = runtimeOf(in.Facts)
		}
		summary.Pods = append(summary.Pods, measured(in)...)
	}
	slices.SortFunc(summary.Pods, func(a, b statsv1alpha1.PodStats) int {
		x, y := a.PodRef, b.PodRef
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return summary
}

func setNode(n *statsv1alpha1.NodeStats, u *backend.Usage, only bool) {
	if !u.StartTime.IsZero() {
		n.StartTime = metav1.NewTime(u.StartTime)
	}
	n.CPU, n.Memory = cpuOf(u), memoryOf(u)
	if only {
		return
	}
	n.Network, n.Fs, n.IO = networkOf(u), fsOf(u.Time, u.Rootfs), ioOf(u)
	if u.Processes != nil {
		n.Rlimit = &statsv1alpha1.RlimitStats{
			Time: metav1.NewTime(u.Time), NumOfRunningProcesses: new(int64(*u.Processes)), //nolint:gosec // a machine has fewer
		}
	}
}

// newest are the newest attempts of the pods that were measured.
func newest(facts *backend.StatsFacts) map[types.UID]*backend.PodStats {
	newest := map[types.UID]*backend.PodStats{}
	for i := range facts.Pods {
		p := &facts.Pods[i]
		if len(p.Containers) == 0 {
			continue
		}
		if other := newest[p.UID]; other == nil || p.Attempt > other.Attempt {
			newest[p.UID] = p
		}
	}
	return newest
}

func measured(in Input) []statsv1alpha1.PodStats {
	newest := newest(in.Facts)
	known := make(map[types.UID]*corev1.Pod, len(in.Pods))
	for _, pod := range in.Pods {
		known[pod.UID] = pod
	}
	pods := make([]statsv1alpha1.PodStats, 0, len(newest))
	for uid, p := range newest {
		pods = append(pods, podOf(p, known[uid], in.OnlyCPUAndMemory))
	}
	return pods
}

// podOf is one pod; pod is nil where the API does not have it any more.
func podOf(p *backend.PodStats, pod *corev1.Pod, only bool) statsv1alpha1.PodStats {
	containers := current(p.Containers)
	out := statsv1alpha1.PodStats{
		PodRef:     statsv1alpha1.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		StartTime:  startOf(p, pod),
		Containers: make([]statsv1alpha1.ContainerStats, len(containers)),
		CPU:        cpuOf(&p.Usage),
		Memory:     memoryOf(&p.Usage),
	}
	sortBySpec(containers, pod)
	for i, c := range containers {
		out.Containers[i] = containerOf(c, only)
	}
	if out.CPU == nil {
		out.CPU = sumCPU(containers)
	}
	if out.Memory == nil {
		out.Memory = sumMemory(containers)
	}
	if only {
		return out
	}
	out.Network, out.IO = networkOf(&p.Usage), ioOf(&p.Usage)
	out.EphemeralStorage = fsOf(p.Time, p.EphemeralStorage)
	if out.EphemeralStorage == nil {
		out.EphemeralStorage = sumStorage(containers)
		addLocal(out.EphemeralStorage, p, pod)
	}
	out.VolumeStats = volumesOf(p, pod)
	if p.Processes != nil {
		out.ProcessStats = &statsv1alpha1.ProcessStats{ProcessCount: p.Processes}
	}
	return out
}

func startOf(p *backend.PodStats, pod *corev1.Pod) metav1.Time {
	switch {
	case !p.StartTime.IsZero():
		return metav1.NewTime(p.StartTime)
	case pod != nil && pod.Status.StartTime != nil:
		return *pod.Status.StartTime
	}
	return metav1.Time{}
}

// current are the newest attempts of the containers.
func current(all []backend.ContainerStats) []*backend.ContainerStats {
	at := map[string]int{}
	var out []*backend.ContainerStats
	for i := range all {
		c := &all[i]
		j, seen := at[c.Name]
		switch {
		case !seen:
			at[c.Name] = len(out)
			out = append(out, c)
		case c.Attempt > out[j].Attempt:
			out[j] = c
		}
	}
	return out
}

// sortBySpec puts init containers, app containers and ephemeral ones in the
// order of the spec, and those that it does not have behind, by name.
func sortBySpec(containers []*backend.ContainerStats, pod *corev1.Pod) {
	place := map[string]int{}
	if pod != nil {
		for _, name := range names(pod) {
			place[name] = len(place) - len(names(pod)) // below zero: before all others
		}
	}
	slices.SortStableFunc(containers, func(a, b *backend.ContainerStats) int {
		return cmp.Or(cmp.Compare(place[a.Name], place[b.Name]), cmp.Compare(a.Name, b.Name))
	})
}

func names(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.InitContainers {
		out = append(out, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		out = append(out, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, pod.Spec.EphemeralContainers[i].Name)
	}
	return out
}

func containerOf(c *backend.ContainerStats, only bool) statsv1alpha1.ContainerStats {
	out := statsv1alpha1.ContainerStats{
		Name: c.Name, StartTime: metav1.NewTime(c.StartTime), CPU: cpuOf(&c.Usage), Memory: memoryOf(&c.Usage),
	}
	if !only {
		out.Rootfs, out.Logs, out.IO = fsOf(c.Time, c.Rootfs), fsOf(c.Time, c.Logs), ioOf(&c.Usage)
	}
	return out
}

// unmeasured are the pods with a running container, by their status.
func unmeasured(pods []*corev1.Pod) []statsv1alpha1.PodStats {
	var out []statsv1alpha1.PodStats
	for _, pod := range pods {
		p := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{
			Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID),
		}}
		if pod.Status.StartTime != nil {
			p.StartTime = *pod.Status.StartTime
		}
		for _, list := range [][]corev1.ContainerStatus{
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
		} {
			for i := range list {
				if running := list[i].State.Running; running != nil {
					p.Containers = append(p.Containers, statsv1alpha1.ContainerStats{Name: list[i].Name, StartTime: running.StartedAt})
				}
			}
		}
		if len(p.Containers) > 0 {
			out = append(out, p)
		}
	}
	return out
}
