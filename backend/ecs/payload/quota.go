package payload

import (
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// Secrets Manager keeps every version of a secret for 24 hours, takes about 100 of them
// (LimitExceededException from then on), and asks not to call PutSecretValue at a sustained
// rate of more than once every 10 minutes (API, PutSecretValue). A token of 600 seconds is
// renewed every 8 minutes: 180 times a day. So such a pod has several secrets, which are
// written in turn (taskdef.Slots), each often enough apart that something is left for other
// changes.
const (
	// versionDay is how long a version counts, and maxVersions how many may.
	versionDay  = 24 * time.Hour
	maxVersions = 90
	// freeChanges of other files are stored at once, more of them apart from each other.
	freeChanges = 6
	minApart    = 10 * time.Minute
)

// writable is when a secret, written before as its payload says, may be written next. A
// renewal may whenever the quota allows it; other changes leave it room for all of a day.
func writable(was podfiles.Payload, slots int, every time.Duration, renewal bool, now time.Time) time.Time {
	wrote, changed := within(was.Wrote, now), within(was.Changed, now)
	if len(wrote) >= maxVersions {
		return time.Unix(wrote[len(wrote)-maxVersions], 0).Add(versionDay)
	}
	if renewal {
		return now
	}
	room := maxVersions
	if every > 0 {
		room -= int(versionDay/(every*time.Duration(slots))) + 2 // a day has a part of one at each end
	}
	room = max(room, 1)
	switch {
	case len(changed) >= room:
		return time.Unix(changed[len(changed)-room], 0).Add(versionDay)
	case len(changed) >= min(freeChanges, room):
		return time.Unix(changed[len(changed)-1], 0).Add(max(versionDay/time.Duration(room), minApart))
	}
	return now
}

// written is what a payload says of its secret's writes once it is written again.
func written(was podfiles.Payload, renewal bool, now time.Time) (wrote, changed []int64) {
	wrote, changed = append(within(was.Wrote, now), now.Unix()), within(was.Changed, now)
	if !renewal {
		changed = append(changed, now.Unix())
	}
	return wrote, changed
}

// within are the times that still count.
func within(times []int64, now time.Time) []int64 {
	from := now.Add(-versionDay).Unix()
	return slices.DeleteFunc(slices.Clone(times), func(at int64) bool { return at <= from })
}
