package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend"
)

// killTime is what the pods of a group that are killed in the end take to be gone.
const killTime = 2 * time.Second

// ShutdownGroup is the time of pods from a priority on, up to that of
// the next group; the lowest group has those below it too.
type ShutdownGroup struct {
	// Priority is the least that a pod of the group has.
	Priority int32 `json:"priority"`
	// ShutdownGracePeriodSeconds is how long they have to end.
	ShutdownGracePeriodSeconds int64 `json:"shutdownGracePeriodSeconds"`
}

// Grace is the group's time.
func (s ShutdownGroup) Grace() time.Duration {
	return time.Duration(s.ShutdownGracePeriodSeconds) * time.Second
}

// ShutdownGroups are the groups in which pods end when their host shuts down, the lowest
// first, whichever way they were given (nodeshutdown, migrateConfig); none: they are given
// no time.
func (c *CRI) ShutdownGroups() []ShutdownGroup {
	if groups := slices.Clone(c.ShutdownGracePeriodByPodPriority); len(groups) > 0 {
		slices.SortStableFunc(groups, func(a, b ShutdownGroup) int { return cmp.Compare(a.Priority, b.Priority) })
		return groups
	}
	whole, critical := int64(c.ShutdownGracePeriod.Seconds()), int64(c.ShutdownGracePeriodCriticalPods.Seconds())
	if whole <= 0 {
		return nil
	}
	return []ShutdownGroup{{0, max(0, whole-critical)}, {backend.SystemCriticalPriority, critical}}
}

// validateShutdown is the kubelet's ValidateKubeletConfiguration.
func (c *CRI) validateShutdown(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	whole, critical := c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods
	for _, d := range []struct {
		name  string
		value Duration
	}{{"shutdownGracePeriod", whole}, {"shutdownGracePeriodCriticalPods", critical}} {
		if d.value.Duration != 0 && d.value.Duration < time.Second {
			errs = append(errs, field.Invalid(at.Child(d.name), d.value.String(), "must be 0s or at least 1s"))
		}
	}
	if critical.Duration > whole.Duration {
		errs = append(errs, field.Invalid(at.Child("shutdownGracePeriodCriticalPods"), critical.String(),
			fmt.Sprintf("must be at most shutdownGracePeriod, %s", whole)))
	}
	groups := at.Child("shutdownGracePeriodByPodPriority")
	if len(c.ShutdownGracePeriodByPodPriority) > 0 && (whole.Duration > 0 || critical.Duration > 0) {
		errs = append(errs, field.Forbidden(groups, "excludes shutdownGracePeriod and shutdownGracePeriodCriticalPods"))
	}
	seen := map[int32]bool{}
	for i, group := range c.ShutdownGracePeriodByPodPriority {
		if s := group.ShutdownGracePeriodSeconds; s < 0 || s > maxShutdownSeconds {
			errs = append(errs, field.Invalid(groups.Index(i).Child("shutdownGracePeriodSeconds"), s,
				fmt.Sprintf("must be between 0 and %d", maxShutdownSeconds)))
		}
		if seen[group.Priority] {
			errs = append(errs, field.Duplicate(groups.Index(i).Child("priority"), group.Priority))
		}
		seen[group.Priority] = true
	}
	return errs
}
