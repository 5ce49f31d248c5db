package plan

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/syncloop/volumes"
)

// placed places volumes whose contents are not on the remote yet, and is true
// when all are or are about to be: only then is a sandbox made. A volume that was placed once and
// cannot be brought up to date keeps nobody waiting.
//
//	contents not known yet                  wait
//	contents cannot be had                  FailedMount, wait for the object
//	never placed, or changed since          place
//	placed, and a sandbox is to be made     place again: the host may have been rebooted
//	the same, but with a token that was     ask for the token
//	placed by an earlier life
//	placed                                  nothing
func (v view) placed(p *Plan) bool {
	if !v.Places || len(v.Pod.Spec.Volumes) == 0 {
		return true
	}
	all := true
	for _, w := range volumes.Specs(v.Pod, v.Objects, v.Node, v.addressesNow()) {
		hash, placed := v.Memory.Placed[w.Spec.Name]
		if v.sandbox() == nil && !v.Memory.Mounted[w.Spec.Name] {
			placed, p.Untrusted = false, p.Untrusted || w.Keep
		}
		if w.Err != nil {
			all = all && placed
			v.failedMount(p, w)
			continue
		}
		if placed && hash == w.Spec.Hash {
			continue
		}
		action := PlaceVolume{Spec: w.Spec}
		if f, failed := v.Memory.Failures[action.key()]; failed && v.Now.Before(f.Until()) {
			p.Wake(f.Until())
			all = all && placed
			continue
		}
		p.Actions = append(p.Actions, action) // if it fails, the batch ends
	}
	return all
}

// contents are the volumes of a launch, for backends that place none by
// themselves. False while some cannot be had.
func (v view) contents(p *Plan) ([]backend.VolumeSpec, bool) {
	if v.Places {
		return nil, v.placed(p)
	}
	var specs []backend.VolumeSpec
	for _, w := range volumes.Specs(v.Pod, v.Objects, v.Node, v.addressesNow()) {
		if w.Err != nil {
			p.Untrusted = p.Untrusted || w.Keep // what it had went with its last attempt
			v.failedMount(p, w)
			return nil, false
		}
		specs = append(specs, w.Spec)
	}
	return specs, true
}

// refreshed gives the running attempt the files of its volumes that changed. After a
// restart of this process nobody knows which did: it is given all, and the remote
// compares. What waits for a token that was placed before stays as it is.
func (v view) refreshed(p *Plan) {
	if !v.Refreshes || p.Termination != nil || len(v.Pod.Spec.Volumes) == 0 {
		return
	}
	action := RefreshVolumes{Ref: v.sandbox().Ref}
	for _, w := range volumes.Specs(v.Pod, v.Objects, v.Node, v.addressesNow()) {
		switch hash, known := v.Memory.Placed[w.Spec.Name]; {
		case w.Err != nil: // the pod runs on with what it has
			v.failedMount(p, w)
		case w.Spec.Files != nil && (!known || hash != w.Spec.Hash):
			action.Volumes = append(action.Volumes, w.Spec)
		}
	}
	if len(action.Volumes) == 0 {
		return
	}
	if f, failed := v.Memory.Failures[action.key()]; failed && v.Now.Before(f.Until()) {
		p.Wake(f.Until())
		return
	}
	p.Actions = append(p.Actions, action)
}

func (v view) failedMount(p *Plan, w volumes.Wanted) {
	if errors.Is(w.Err, resolve.ErrWaiting) {
		return
	}
	p.record(corev1.EventTypeWarning, ReasonFailedMount, w.Message())
}
