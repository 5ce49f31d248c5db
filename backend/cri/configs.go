package cri

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// pathMax is the longest path that the kernel takes.
const pathMax = 4095

// sandboxConfig describes attempt of the pod to the runtime, all but its DNS.
func (r *remote) sandboxConfig(
	ctx context.Context, pod *corev1.Pod, attempt int,
) (*runtimeapi.PodSandboxConfig, error) {
	driver, err := r.features.CgroupDriver(ctx)
	if err != nil {
		return nil, err
	}
	return r.convert.Sandbox(pod, attempt, driver)
}

// podCgroup is the pod's cgroup with its limits, and the weight of its class.
func (r *remote) podCgroup(ctx context.Context, pod *corev1.Pod) (host.Cgroup, error) {
	driver, err := r.features.CgroupDriver(ctx)
	if err != nil {
		return host.Cgroup{}, err
	}
	return r.convert.Cgroup(pod, driver), nil
}

// containerConfig describes one attempt of a container to the runtime.
func (r *remote) containerConfig(
	ctx context.Context, spec backend.ContainerSpec, podAttempt int,
) (*runtimeapi.ContainerConfig, error) {
	c := &spec.Container
	if len(c.TerminationMessagePath) > pathMax { // which listings would tell, too
		return nil, backend.Errorf(backend.ErrInvalid, "terminationMessagePath of container %s has %d characters: at "+
			"most %d are possible",
			c.Name, len(c.TerminationMessagePath), pathMax)
	}
	sc := convert.EffectiveSecurity(spec.Pod, c)
	var user convert.ImageUser
	if convert.NeedsImageUser(sc) {
		var err error
		if user, err = r.puller.User(ctx, convert.ImageOf(spec)); err != nil {
			return nil, err
		}
	}
	if err := convert.VerifyNonRoot(sc, user); err != nil {
		pod := fmt.Sprintf("%s_%s(%s)", spec.Pod.Name, spec.Pod.Namespace, spec.Pod.UID)
		return nil, backend.Classed(backend.ErrInvalid, fmt.Errorf("%w (pod: %q, container: %s)", err, pod, c.Name))
	}
	facts, err := r.hostFacts(ctx)
	if err != nil {
		return nil, err
	}
	return r.convert.Container(spec, podAttempt, user, &facts), nil
}
