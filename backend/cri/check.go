package cri

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fields"
)

// check refuses what a CRI host cannot do and what the configuration forbids.
func (r *remote) check(pod *corev1.Pod) []backend.Refusal {
	return append(fields.Check(pod), fields.Forbidden(pod, r.cfg)...)
}

// mayRun refuses a container that the configuration forbids. Admission has refused it
// before, unless the pod ran already when the configuration changed.
func (r *remote) mayRun(spec backend.ContainerSpec) error {
	for _, refused := range fields.ForbiddenIn(spec.Pod, "container "+spec.Container.Name, &spec.Container, r.cfg) {
		return backend.Errorf(backend.ErrUnsupported, "%s: %s", refused.Field, refused.Why)
	}
	return nil
}
