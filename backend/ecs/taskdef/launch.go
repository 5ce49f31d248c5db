package taskdef

import (
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// HealthChecked is true where ECS runs health checks of a container of a launch.
func HealthChecked(spec backend.LaunchSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c backend.ContainerSpec) bool {
		return judgedByRemote(&c.Container)
	})
}

// Acceptable refuses what a Checker refuses: nothing is dropped in silence. Errors:
// Unsupported, and Invalid for a launch without containers.
func Acceptable(cfg Config, spec backend.LaunchSpec) error {
	if len(spec.Containers) == 0 {
		return backend.Errorf(backend.ErrInvalid, "there is no container")
	}
	refusals := Checker(cfg).Check(spec.Pod)
	if len(refusals) == 0 {
		return nil
	}
	texts := make([]string, len(refusals))
	for i, r := range refusals {
		texts[i] = r.Field + ": " + r.Why
	}
	return backend.Errorf(backend.ErrUnsupported, "%s", strings.Join(texts, "; "))
}
