package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// role is what a container is to its pod.
type role int

const (
	appRole role = iota
	// initRole containers run to their end, one after another, before the apps.
	initRole
	// sidecarRole containers are restartable init containers: they start in the
	// order of the init containers, and run as long as the apps do.
	sidecarRole
	// ephemeralRole containers are added to a pod that lives; they run once.
	ephemeralRole
)

// initial is true for containers that stand in spec.initContainers.
func (r role) initial() bool { return r == initRole || r == sidecarRole }

// podContainer is one container of the pod, in its role.
type podContainer struct {
	*corev1.Container
	role role
	// target is whose process namespace an ephemeral container joins.
	target string
}

// podContainers are the containers of a pod by role, in the order of its spec. inits
// has the sidecars too.
type podContainers struct {
	inits, apps, ephemerals []podContainer
}

func containersOf(pod *corev1.Pod) (m podContainers) {
	if pod == nil {
		return m
	}
	spec := &pod.Spec
	for i := range spec.InitContainers {
		c := podContainer{Container: &spec.InitContainers[i], role: initRole}
		if backend.IsSidecar(c.Container) {
			c.role = sidecarRole
		}
		m.inits = append(m.inits, c)
	}
	m.apps = make([]podContainer, 0, len(spec.Containers))
	for i := range spec.Containers {
		m.apps = append(m.apps, podContainer{Container: &spec.Containers[i]})
	}
	for i := range spec.EphemeralContainers {
		e := &spec.EphemeralContainers[i]
		c := corev1.Container(e.EphemeralContainerCommon)
		m.ephemerals = append(m.ephemerals, podContainer{Container: &c, role: ephemeralRole, target: e.TargetContainerName})
	}
	return m
}

// Containers returns all containers of a pod: init, app and ephemeral ones.
func Containers(pod *corev1.Pod) []*corev1.Container {
	all := containersOf(pod).all()
	out := make([]*corev1.Container, len(all))
	for i := range all {
		out[i] = all[i].Container
	}
	return out
}

// ContainerNamed finds a container of a pod, of whatever kind; nil for one that its
// spec does not have.
func ContainerNamed(pod *corev1.Pod, name string) *corev1.Container {
	if m := containersOf(pod).named(name); m != nil {
		return m.Container
	}
	return nil
}

// all returns every container: inits, apps, ephemerals.
func (m podContainers) all() []podContainer {
	all := make([]podContainer, 0, len(m.inits)+len(m.apps)+len(m.ephemerals))
	return append(append(append(all, m.inits...), m.apps...), m.ephemerals...)
}

// named finds a container; nil for one that the spec does not have.
func (m podContainers) named(name string) *podContainer {
	for _, list := range [][]podContainer{m.inits, m.apps, m.ephemerals} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// hasSidecar is true if the order of ending matters.
func (m podContainers) hasSidecar() bool {
	for _, c := range m.inits {
		if c.role == sidecarRole {
			return true
		}
	}
	return false
}

// hasPreStop is true if any container has a preStop hook.
func (m podContainers) hasPreStop() bool {
	for _, list := range [][]podContainer{m.inits, m.apps} {
		for _, c := range list {
			if preStop(c.Container) != nil {
				return true
			}
		}
	}
	return false
}

func preStop(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

func postStart(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PostStart
}

// Ref names the attempt to the backend.
func (c *ContainerAttempt) Ref() backend.ContainerRef { return c.ContainerFacts.Ref(c.Pod.Ref) }
