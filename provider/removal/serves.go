package removal

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const (
	// nodeLeaseDuration is that of leases that say none: the kubelet's.
	nodeLeaseDuration = 40 * time.Second
	// longDead is the age of a renewal, by clocks that may differ, from which on the
	// removal does not wait for the next one.
	longDead = 5 * time.Minute
)

// observer tells from a Lease whether a process serves the node. Like an election it
// trusts its own clock: a lease is over when it was not renewed for its duration
// while it was looked at.
type observer struct {
	renewed time.Time
	holder  string
	since   time.Time // when this was first seen
}

// see takes the Lease as it is now, nil for none, and returns who serves the node,
// or "".
func (o *observer) see(lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
		lease.Spec.RenewTime == nil {
		*o = observer{}
		return ""
	}
	holder, renewed := *lease.Spec.HolderIdentity, lease.Spec.RenewTime.Time
	if o.since.IsZero() || !o.renewed.Equal(renewed) || o.holder != holder {
		*o = observer{renewed: renewed, holder: holder, since: now}
	}
	duration := nodeLeaseDuration
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		duration = time.Duration(*s) * time.Second
	}
	if now.Sub(o.since) >= duration || now.Sub(renewed) >= longDead {
		return ""
	}
	return holder
}
