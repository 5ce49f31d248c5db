package backendtest_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

var brokenResize = map[string]brokenBackend{
	"a resize does not show": {"resize/shows_in_facts,_without_a_restart", false, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.Resources = &corev1.ResourceRequirements{} })
		return b
	}},
	"a resize of the pod does not reach its containers": {
		"resize/of_the_whole_pod_shows_in_facts_of_a_container_without_limits", false,
		func(b backend.Backend) backend.Backend {
			b.Resize = ownResizer{b.Resize}
			return b
		},
	},
	"a second resize fails": {"resize/twice_changes_nothing", false, func(b backend.Backend) backend.Backend {
		b.Resize = &onceResizer{Resizer: b.Resize}
		return b
	}},
	"a resize finds everything": {
		"resize/of_what_does_not_run_is_NotFound",
		false,
		func(b backend.Backend) backend.Backend {
			b.Resize = deafResizer{}
			return b
		},
	},
}

type onceResizer struct {
	backend.Resizer
	done bool
}

func (r *onceResizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	if r.done {
		return backend.Errorf(backend.ErrInvalid, "it was resized once")
	}
	r.done = true
	return r.Resizer.Resize(ctx, ref, spec)
}

// ownResizer knows only the resources of the container itself.
type ownResizer struct{ backend.Resizer }

func (r ownResizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	spec.Pod = spec.Pod.DeepCopy()
	spec.Pod.Spec.Resources = nil
	return r.Resizer.Resize(ctx, ref, spec)
}

type deafResizer struct{}

func (deafResizer) Resize(context.Context, backend.ContainerRef, backend.ContainerSpec) error {
	return nil
}
