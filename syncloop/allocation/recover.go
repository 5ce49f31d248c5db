package allocation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// Recover is, after a restart, the pod with the resources that an earlier
// life of the process allocated, and with those that it may hold of the node. Of
// each container:
//
//	the status says nothing               what the spec asks for
//	requests                              status.allocatedResources
//	limits                                status.resources, which are those held
//	limits, where requests are the        the spec's, where resizes are possible:
//	spec's                                limits need no room
//	held to something that the status     that: it was allocated, and the write that
//	does not know of                      reports it was lost
//
// The condition PodResizeInProgress says whether it was being resized.
func Recover(pod *corev1.Pod, facts []backend.PodFacts, resizes bool) (allocated, held *corev1.Pod) {
	allocated = pod
	more := map[string]resource.Quantity{}
	visit := func(containers []corev1.Container, statuses []corev1.ContainerStatus,
		of func(*corev1.Pod) []corev1.Container,
	) {
		for i := range containers {
			c := &containers[i]
			s := statusNamed(statuses, c.Name)
			if s == nil || s.Resources == nil {
				continue
			}
			now := heldOnRemote(facts, c.Name)
			was := allocatedTo(c, s, now, resizes)
			if !Equal(&was, &c.Resources) {
				if allocated == pod {
					allocated = pod.DeepCopy()
				}
				of(allocated)[i].Resources = was
			}
			if cpu, ok := now.Requests[corev1.ResourceCPU]; ok && cpu.Cmp(*was.Requests.Cpu()) > 0 {
				more[c.Name] = cpu
			}
		}
	}
	visit(pod.Spec.InitContainers, pod.Status.InitContainerStatuses,
		func(p *corev1.Pod) []corev1.Container { return p.Spec.InitContainers })
	visit(pod.Spec.Containers, pod.Status.ContainerStatuses,
		func(p *corev1.Pod) []corev1.Container { return p.Spec.Containers })
	return allocated, withMore(allocated, more)
}

// allocatedTo is what a container was allocated by what its status and the remote
// say; the spec's other resources cannot change.
func allocatedTo(
	c *corev1.Container, s *corev1.ContainerStatus, now corev1.ResourceRequirements, resizes bool,
) corev1.ResourceRequirements {
	was := *c.Resources.DeepCopy()
	told := corev1.ResourceRequirements{Requests: s.AllocatedResources, Limits: s.Resources.Limits}
	asked := true
	for _, x := range Amounts() {
		q, ok := x.Of(&told)
		if actual, news := x.news(&now, s.Resources); news {
			q, ok = actual, true
		}
		spec, in := x.Of(&c.Resources)
		if ok && in && x.near(q, spec) {
			q = spec
		}
		if x.Limit && resizes && asked {
			continue
		}
		asked = asked && ok == in && (!ok || q.Cmp(spec) == 0)
		x.set(&was, q, ok)
	}
	return was
}

// news is what the remote holds a container to, where that says more than the status
// that was reported.
func (x Amount) news(now, told *corev1.ResourceRequirements) (resource.Quantity, bool) {
	actual, says := x.Of(now)
	known, had := x.Of(told)
	return actual, says && x.enforced() && (x.Limit || !had || !x.near(known, actual))
}

// set makes an amount what it is, or takes it away.
func (x Amount) set(r *corev1.ResourceRequirements, q resource.Quantity, there bool) {
	list := &r.Requests
	if x.Limit {
		list = &r.Limits
	}
	if !there {
		delete(*list, x.Name)
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[x.Name] = q
}

// withMore is a pod whose containers request more cpu than they are allocated.
func withMore(pod *corev1.Pod, cpu map[string]resource.Quantity) *corev1.Pod {
	if len(cpu) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q, ok := cpu[list[i].Name]; ok {
				Amount{false, corev1.ResourceCPU}.set(&list[i].Resources, q, true)
			}
		}
	}
	return pod
}

// heldOnRemote is what facts say that a running container is held to; nothing where
// they do not.
func heldOnRemote(facts []backend.PodFacts, name string) corev1.ResourceRequirements {
	for i := len(facts) - 1; i >= 0; i-- {
		for _, c := range facts[i].Containers {
			if c.Name == name && c.State() == backend.Running && c.Resources != nil {
				return *c.Resources
			}
		}
	}
	return corev1.ResourceRequirements{}
}

func statusNamed(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
