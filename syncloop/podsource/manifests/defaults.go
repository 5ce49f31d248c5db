package manifests

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// setDefaults fills in what the API server would (pkg/apis/core/v1/defaults.go and the
// markers of the API's types). TestMirrorPodsOfANode compares the two.
func setDefaults(pod *corev1.Pod) {
	spec := &pod.Spec
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	fill(&spec.SecurityContext, &corev1.PodSecurityContext{})
	fillPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	fillPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	fillPointer(&spec.Priority, priorityOf(spec))
	fillPointer(&spec.PreemptionPolicy, corev1.PreemptLowerPriority)
	for i := range spec.Volumes {
		volumeDefaults(&spec.Volumes[i])
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			containerDefaults(&list[i], spec.HostNetwork)
		}
	}
}

// The priorities of the API server's own classes.
const (
	systemNodeCritical    = "system-node-critical"
	systemClusterCritical = "system-cluster-critical"
)

// priorityOf is what the admission plugin Priority gives; of a class that only the API
// knows, nothing (kubelet: static pods with a class need their priority written down).
func priorityOf(spec *corev1.PodSpec) int32 {
	switch spec.PriorityClassName {
	case systemNodeCritical:
		return 2_000_001_000
	case systemClusterCritical:
		return 2_000_000_000
	}
	return 0
}

func fill[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

func fillPointer[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

func pullPolicy(image string) corev1.PullPolicy {
	if latest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func containerDefaults(c *corev1.Container, hostNetwork bool) {
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			fill(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		probeDefaults(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				httpDefaults(hook.HTTPGet)
			}
		}
	}
	resourceDefaults(&c.Resources)
}

// latest is true of an image whose tag is, or that has neither tag nor digest.
func latest(image string) bool {
	name, _, digested := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return tag == "latest" || !tagged && !digested
}

func probeDefaults(p *corev1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	httpDefaults(p.HTTPGet)
	if p.GRPC != nil {
		fillPointer(&p.GRPC.Service, "")
	}
}

func httpDefaults(get *corev1.HTTPGetAction) {
	if get != nil {
		fill(&get.Path, "/")
		fill(&get.Scheme, corev1.URISchemeHTTP)
	}
}

// resourceDefaults gives requests what limits say, and rounds to thousandths.
func resourceDefaults(r *corev1.ResourceRequirements) {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name, q := range list {
			q.RoundUp(resource.Milli)
			list[name] = q
		}
	}
	for name, limit := range r.Limits {
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		if _, given := r.Requests[name]; !given {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

func volumeDefaults(v *corev1.Volume) {
	s := &v.VolumeSource
	switch {
	case *s == corev1.VolumeSource{}:
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case s.HostPath != nil:
		fillPointer(&s.HostPath.Type, corev1.HostPathUnset)
	case s.Image != nil:
		fill(&s.Image.PullPolicy, pullPolicy(s.Image.Reference))
	case s.DownwardAPI != nil:
		fillPointer(&s.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		fieldRefs(s.DownwardAPI.Items)
	case s.Projected != nil:
		fillPointer(&s.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range s.Projected.Sources {
			if d := s.Projected.Sources[i].DownwardAPI; d != nil {
				fieldRefs(d.Items)
			}
		}
	}
}

func fieldRefs(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			fill(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}

// qosClass is the API server's word for how sure a pod is of its resources.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	best, guaranteed := true, true
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := list[i].Resources.Requests[name], list[i].Resources.Limits[name]
				best = best && request.IsZero() && limit.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
			}
		}
	}
	switch {
	case best:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
