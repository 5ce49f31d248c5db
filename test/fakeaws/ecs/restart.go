package ecs

import (
	"slices"
	"time"
)

// Bounds of ContainerRestartPolicy (ECS API).
const (
	minRestartPeriod, maxRestartPeriod, stdRestartPeriod = 60, 1800, 300
	maxIgnoredExitCodes                                  = 50
)

// check is ECS API, ContainerRestartPolicy.
func (r *restartPolicy) check() *apiError {
	if r == nil {
		return nil
	}
	if r.Enabled == nil {
		return clientError("restartPolicy.enabled is required.")
	}
	if len(r.IgnoredExitCodes) > maxIgnoredExitCodes {
		return clientError("restartPolicy.ignoredExitCodes can have at most %d items.", maxIgnoredExitCodes)
	}
	if p := r.RestartAttemptPeriod; p != nil && (*p < minRestartPeriod || *p > maxRestartPeriod) {
		return clientError(
			"restartPolicy.restartAttemptPeriod must be between %d and %d seconds.", minRestartPeriod, maxRestartPeriod,
		)
	}
	return nil
}

// restartsAfterOOM: that a container which ran out of memory is not restarted is
// undocumented (aws/amazon-ecs-agent issue 4672).
const restartsAfterOOM = false

// restarts is true if a container that behaves so is restarted each time (ECS
// developer guide, "Restart individual containers in Amazon ECS tasks", and
// amazon-ecs-agent, restart_tracker.go): it ran for the period at least, and its
// code is not ignored. As every run is like the first, it is always or never.
func (r *restartPolicy) restarts(b *behaviour) bool {
	if r == nil || !value(r.Enabled) || b.after == never || b.oom && !restartsAfterOOM {
		return false
	}
	period := time.Duration(or(r.RestartAttemptPeriod, stdRestartPeriod)) * time.Second
	return b.after >= period && !slices.Contains(r.IgnoredExitCodes, b.exit)
}
