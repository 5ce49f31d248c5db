package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// HolderAnnotation is where a Node and its lease in kube-node-lease say which process has
// the node. The lease's holderIdentity is the node's name, as a kubelet has it.
const HolderAnnotation = annotationDomain + "/holder"

// reasonOtherProcess is that of Events about two processes that have one node.
const reasonOtherProcess = "HeldByAnotherProcess"

// errHeld says that another process has the node.
var errHeld = errors.New("another process has this node")

// Holder is a process that has a node.
type Holder struct {
	// Process tells it from all others, its successor included.
	Process string `json:"process"`
	// Election is the Lease by which it leads, as NAMESPACE/NAME; empty without a leader
	// election.
	Election string `json:"election,omitempty"`
	// Since is when it took the node.
	Since time.Time `json:"since"`
	// Stays is true where it does not end for another process (node.onOtherProcess is report). One
	// that does not say so, as before this field, may end.
	Stays bool `json:"stays,omitempty"`
}

// holderOf reads an annotation. Nil: who wrote the object does not say who it is.
func holderOf(annotations map[string]string) *Holder {
	var h Holder
	if json.Unmarshal([]byte(annotations[HolderAnnotation]), &h) != nil || h.Process == "" {
		return nil
	}
	return &h
}

// String says who it is; h may be nil.
func (h *Holder) String() string {
	switch {
	case h == nil:
		return "a process that does not say who it is (an older burstlet, another virtual kubelet, a kubelet)"
	case h.Election == "":
		return "process " + h.Process + " without leader election"
	default:
		return "process " + h.Process + " by lease " + h.Election
	}
}

// yieldsTo is true where of two processes that have the node h is the one to leave it: the
// younger one, so that both agree. To one that stays, or does not say who it is, it yields at any
// age, since else both would go on.
func (h *Holder) yieldsTo(other *Holder) bool {
	return other == nil || other.Stays || cmp.Or(other.Since.Compare(h.Since), cmp.Compare(other.Process, h.Process)) < 0
}

// succeeds is true where both lead by one election: then other has ended, or cannot change
// anything.
func (h *Holder) succeeds(other *Holder) bool {
	return other != nil && other.Election != "" && other.Election == h.Election
}

const (
	// sentKept is how many of our renewals are known again. One whose answer was lost is read
	// within a few.
	sentKept = 16
	// foreignWindow is the time in which two foreign renewals mean a process that lives. One
	// alone may be a predecessor's last, or the API's from a backup.
	foreignWindow = 2 * leaseSeconds * time.Second
)

// watcher tells foreign renewals of the node's lease from our own. They cost no call: two
// processes that renew one lease conflict, and then the lease is read.
type watcher struct {
	own      Holder
	text     string // own, encoded; empty: the lease says nothing of it
	renewals prometheus.Counter
	// found is told of a process that renews the lease beside us, at each renewal but the
	// first. other is nil for one that does not say who it is. It must not block.
	found func(ctx context.Context, other *Holder)
	// back is called when the API server has gone back; nil: nobody wants to know. It must
	// not block.
	back func()

	mu    sync.Mutex
	sent  []time.Time // the last renewals that were asked for
	wrote bool        // one of them stands, or stood
	// foreign is the last renewal of somebody else, seen at.
	foreign, at time.Time
	version     string // of the lease that the API returned last
}

// newWatcher returns the watcher of a term that begins now.
func newWatcher(own Holder, renewals prometheus.Counter, found func(context.Context, *Holder)) (*watcher, error) {
	own.Since = time.Now().UTC().Truncate(time.Millisecond)
	w := &watcher{own: own, renewals: renewals, found: found}
	if own.Process == "" {
		return w, nil
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("encode the holder of the node: %w", err)
	}
	w.text = string(text)
	return w, nil
}

// sign returns the lease as we write it.
func (w *watcher) sign(lease *coordinationv1.Lease) *coordinationv1.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	if renewed := renewal(lease); !slices.ContainsFunc(w.sent, renewed.Equal) {
		if len(w.sent) >= sentKept {
			w.sent = slices.Delete(w.sent, 0, 1)
		}
		w.sent = append(w.sent, renewed)
	}
	if w.text == "" || lease.Annotations[HolderAnnotation] == w.text {
		return lease
	}
	lease = lease.DeepCopy()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[HolderAnnotation] = w.text
	return lease
}

// newest is the version of the lease that the API returned last.
func (w *watcher) newest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version
}

// saw takes a lease that the API returned to who asked when it had returned that version.
func (w *watcher) saw(ctx context.Context, lease *coordinationv1.Lease, newest string) {
	if other, again := w.judge(lease); again {
		w.found(ctx, other)
	}
	w.mu.Lock()
	if !older(lease.ResourceVersion, w.version) {
		w.version = lease.ResourceVersion
	}
	w.mu.Unlock()
	if w.back != nil && older(lease.ResourceVersion, newest) {
		w.back()
	}
}

// judge says whether another process renewed the lease, not for the first time.
func (w *watcher) judge(lease *coordinationv1.Lease) (other *Holder, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	renewed := renewal(lease)
	if other = holderOf(lease.Annotations); other != nil && other.Process == w.own.Process {
		other = nil // it is ours, or of who keeps what we wrote
	}
	switch {
	case renewed.IsZero(), renewed.Equal(w.foreign):
		return nil, false
	case other == nil && slices.ContainsFunc(w.sent, renewed.Equal):
		w.wrote = true
		return nil, false
	case !w.wrote:
		return nil, false // whoever had the node before us
	}
	w.renewals.Inc()
	again = !w.at.IsZero() && time.Since(w.at) < foreignWindow
	w.foreign, w.at = renewed, time.Now()
	return other, again
}

// renewal is when a lease was renewed, as precisely as the API keeps it.
func renewal(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Truncate(time.Microsecond)
}
