package statusmgr

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// recentTTL bounds how long a UID without a pod is remembered. The informer and
// the engine are at most seconds apart.
const recentTTL = 10 * time.Minute

// recent is a set of UIDs that forgets. Expired members are swept when one is
// added, so it holds at most what was added within recentTTL before the last
// addition.
type recent struct {
	members map[types.UID]time.Time
	swept   time.Time
}

func newRecent() recent { return recent{members: make(map[types.UID]time.Time)} }

func (r *recent) add(uid types.UID, now time.Time) {
	r.members[uid] = now
	if now.Sub(r.swept) < recentTTL {
		return
	}
	r.swept = now
	for u, at := range r.members {
		if now.Sub(at) >= recentTTL {
			delete(r.members, u)
		}
	}
}

func (r *recent) has(uid types.UID) bool {
	_, ok := r.members[uid]
	return ok
}

// take reports whether uid was a member, and removes it.
func (r *recent) take(uid types.UID) bool {
	_, ok := r.members[uid]
	delete(r.members, uid)
	return ok
}
