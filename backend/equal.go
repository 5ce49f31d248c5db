package backend

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Equal reports whether both say the same: times are the same instants and quantities the
// same amounts, however they are written. A listing of ten thousand pods is compared every
// second, which reflection makes dear.
func (p *PodFacts) Equal(o *PodFacts) bool {
	return p.Ref == o.Ref && p.Live == o.Live && p.Disrupted == o.Disrupted &&
		p.CreatedAt.Equal(o.CreatedAt) && p.StoppedAt.Equal(o.StoppedAt) &&
		slices.Equal(p.IPs, o.IPs) && slices.Equal(p.HostIPs, o.HostIPs) &&
		p.Reason == o.Reason && p.Message == o.Message &&
		equalPointees(p.Evicted, o.Evicted, (*Eviction).equal) &&
		EqualEach(p.Containers, o.Containers, (*ContainerFacts).equal)
}

// EqualEach reports whether two lists are as long and each element equals that in its place.
func EqualEach[T any](a, b []T, equal func(a, b *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func (e *Eviction) equal(o *Eviction) bool {
	return e.Limit == o.Limit && e.Used == o.Used && e.Message == o.Message && e.At.Equal(o.At)
}

func (c *ContainerFacts) equal(o *ContainerFacts) bool {
	return c.Name == o.Name && c.ID == o.ID && c.Attempt == o.Attempt && c.Hash == o.Hash && c.Round == o.Round &&
		c.Image == o.Image && c.ImageID == o.ImageID && c.equalTimes(o) && c.equalEnd(o) &&
		equalPointees(c.Resources, o.Resources, equalResources) &&
		equalPointees(c.User, o.User, equalUsers) &&
		equalPointees(c.Healthy, o.Healthy, func(a, b *bool) bool { return *a == *b })
}

func (c *ContainerFacts) equalTimes(o *ContainerFacts) bool {
	return c.CreatedAt.Equal(o.CreatedAt) && c.StartedAt.Equal(o.StartedAt) && c.FinishedAt.Equal(o.FinishedAt)
}

// equalEnd compares what tells of a container's end.
func (c *ContainerFacts) equalEnd(o *ContainerFacts) bool {
	return c.ExitCode == o.ExitCode && c.OOM == o.OOM && c.Reason == o.Reason && c.Message == o.Message &&
		c.Killed == o.Killed && c.HookFailed == o.HookFailed
}

func equalResources(a, b *corev1.ResourceRequirements) bool {
	return maps.EqualFunc(a.Limits, b.Limits, resource.Quantity.Equal) &&
		maps.EqualFunc(a.Requests, b.Requests, resource.Quantity.Equal) &&
		slices.Equal(a.Claims, b.Claims)
}

func equalUsers(a, b *corev1.LinuxContainerUser) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.SupplementalGroups, b.SupplementalGroups)
}

// equalPointees compares what two pointers lead to; nil equals nil alone.
func equalPointees[T any](a, b *T, equal func(a, b *T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || equal(a, b)
}
