package resolve

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Resolve returns a copy of a container of the pod in which nothing refers to
// anything: Env holds literals only, EnvFrom is nil, $(VAR) is expanded in Env,
// Command and Args, SubPathExpr has become SubPath, and RecursiveReadOnly is either
// Enabled or nil. Env holds, in this order,
// what envFrom brought, the container's own variables as declared, and the
// services' where nothing else has their name. The origins say what each of them
// was made of.
//
// No name of a variable is skipped: since relaxed validation the API admits all
// that a runtime can set, and the kubelet leaves none out either.
//
// Errors: ErrWaiting while an object, the list of services or an address is not
// known; any other is the message of a CreateContainerConfigError.
func Resolve(
	pod *corev1.Pod, c *corev1.Container, o Objects, node Node, at Addresses,
) (corev1.Container, backend.Origins, error) {
	r := resolver{pod: pod, container: c, objects: o, node: node, at: at}
	vars, err := r.environment()
	if err != nil {
		return corev1.Container{}, backend.Origins{}, err
	}
	out := *c.DeepCopy()
	out.EnvFrom = nil
	out.Env = vars.list()
	origins := backend.Origins{
		Env: vars.origins(), Command: expandWords(out.Command, vars.get), Args: expandWords(out.Args, vars.get),
	}
	if err := expandSubPaths(out.VolumeMounts, vars); err != nil {
		return corev1.Container{}, backend.Origins{}, err
	}
	if err := r.setReadOnlyBelow(out.VolumeMounts); err != nil {
		return corev1.Container{}, backend.Origins{}, err
	}
	return out, origins, nil
}

// resolver holds what one container is resolved with.
type resolver struct {
	pod       *corev1.Pod
	container *corev1.Container
	objects   Objects
	node      Node
	at        Addresses
}
