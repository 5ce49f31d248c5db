package syncloop

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

const (
	// volumesPeriod is how often the placed volumes are listed, for those that
	// belong to nobody.
	volumesPeriod = time.Minute
	// volumesRetry is the delay after a listing that failed.
	volumesRetry = time.Second
)

// placedVolumes are the volumes that an earlier life of the process placed.
type placedVolumes struct {
	mu     sync.Mutex
	listed bool
	byPod  map[types.UID][]backend.VolumeFacts
	// once holds the owners of volumes seen once without a pod.
	once map[types.UID]bool
}

func newPlacedVolumes(listed bool) *placedVolumes {
	return &placedVolumes{listed: listed, once: map[types.UID]bool{}}
}

// take returns a pod's volumes once, and false before the first listing.
func (v *placedVolumes) take(uid types.UID) ([]backend.VolumeFacts, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	facts := v.byPod[uid]
	delete(v.byPod, uid)
	return facts, v.listed
}

// first takes the first listing; false if there was one before.
func (v *placedVolumes) first(facts []backend.VolumeFacts) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listed {
		return false
	}
	v.listed, v.byPod = true, map[types.UID][]backend.VolumeFacts{}
	for _, f := range facts {
		v.byPod[f.Pod.UID] = append(v.byPod[f.Pod.UID], f)
	}
	return true
}

// listVolumes sends complete listings until the context ends.
func listVolumes(ctx context.Context, files backend.Files, listings chan<- []backend.VolumeFacts) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		facts, err := files.Volumes(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.G(ctx).WithError(err).Warn("listing the volumes failed, trying again")
			}
			timer.Reset(volumesRetry)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case listings <- facts:
		}
		timer.Reset(volumesPeriod)
	}
}

// volumesListed adopts the volumes of the first listing; later it ends pods of
// which nothing is left but volumes, when two listings showed them.
func (l *Loop) volumesListed(ctx context.Context, facts []backend.VolumeFacts) {
	if l.volumes.first(facts) {
		l.pokeAll()
	}
	if _, seq := l.pleg.Present(); !l.cfg.Source.Synced() || seq == 0 {
		return
	}
	before := l.volumes.once
	l.volumes.once = map[types.UID]bool{}
	for _, f := range facts {
		uid := f.Pod.UID
		switch {
		case l.worker(uid) != nil:
		case before[uid]:
			log.G(ctx).WithFields(log.Fields{"pod": f.Pod.Namespace + "/" + f.Pod.Name, "uid": uid}).
				Info("removing the volumes of a pod that the API does not have")
			l.startWorker(nil, backend.Ref{UID: uid, Namespace: f.Pod.Namespace, Name: f.Pod.Name})
		default:
			l.volumes.once[uid] = true
		}
	}
}
