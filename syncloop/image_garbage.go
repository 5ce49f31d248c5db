package syncloop

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// newCollector returns what removes images that nobody uses; nil where that is off or
// images are not ours.
func (l *Loop) newCollector() *imagegc.Collector {
	store, policy := l.cfg.Backend.Store, l.cfg.ImageGC
	if store == nil || policy == nil || policy.Off() && l.cfg.Eviction == nil {
		return nil
	}
	return imagegc.New(imagegc.Config{
		Store: store, Policy: *policy, Wanted: l.wantedImages, Event: l.cfg.NodeEvent, Removed: l.cfg.Metrics.ImageRemoved,
		Measured: l.cfg.Metrics.ImageDisk, Listed: l.images.Listed,
	})
}

// watchDisk begins what keeps images and pods to their share of the remote's disk.
func (l *Loop) watchDisk(ctx context.Context) {
	if l.garbage != nil {
		l.goWork(func() { l.garbage.Run(ctx) })
	}
	if l.cfg.Backend.Stats != nil || l.pressure != nil {
		l.goWork(func() { l.watchEviction(ctx) })
	}
}

// full makes room for images where a pull found none.
func (l *Loop) full() {
	if l.garbage != nil {
		l.garbage.NoSpace()
	}
}

// wantedImages are those of pods that are to run: they stay, also while no container
// was made from them yet.
func (l *Loop) wantedImages() []string {
	needed := map[string]bool{}
	for _, w := range l.all() {
		pod, status, _ := w.snapshot()
		if pod == nil || pod.DeletionTimestamp != nil || plan.Terminal(status.Phase) {
			continue
		}
		for _, c := range plan.Containers(pod) {
			needed[c.Image] = true
		}
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil {
				needed[image.Reference] = true
			}
		}
		for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
			for i := range list {
				needed[list[i].ImageID] = true
			}
		}
	}
	delete(needed, "")
	return slices.Collect(maps.Keys(needed))
}
