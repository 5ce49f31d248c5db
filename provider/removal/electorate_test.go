package removal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// noPods is a remote on which nothing runs.
type noPods struct{ backend.Pods }

func (noPods) List(context.Context) ([]backend.PodFacts, error) { return nil, nil }

// neighbour is a node without pods whose leader holds the Lease of edge. Its takeover takes as long.
func (w *world) neighbour(takes time.Duration, change ...func(*Config)) *Node {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "neighbour", UID: "node-neighbour", Labels: map[string]string{virtualLabel: virtualLabelValue},
	}}
	node.Status.NodeInfo.KubeletVersion = "v1.36.3+burstlet-0.1.0"
	w.add(node)
	take := func(ctx context.Context, do func(context.Context, backend.Backend) error) error {
		w.takers.Add(1)
		defer w.leaves()
		w.lock(func() { w.lease("removal") })
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
		return do(ctx, backend.Backend{Pods: noPods{}})
	}
	return w.node(append([]func(*Config){func(c *Config) { c.Name, c.Takeover = "neighbour", take }}, change...)...)
}

// TestNodesOfOneLease: nodes whose leader holds one Lease are taken over at once by it, however long
// each takes, and the Lease goes with the last.
func TestNodesOfOneLease(t *testing.T) {
	for name, takes := range map[string]time.Duration{"the neighbour is first": 0, "edge is first": time.Minute} {
		t.Run(name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				nodes := []*Node{w.node(), w.neighbour(takes)}
				if err := Run(t.Context(), nodes, w.deployment()); err != nil {
					t.Error(err)
				}
				w.wantNothingLeft()
				w.wantSaid("node edge: taken over", "node neighbour: taken over", "node neighbour: Node deleted")
				if n := strings.Count(strings.Join(w.lines, "\n"), "lease burstlet/burstlet-edge deleted"); n != 1 {
					t.Errorf("the Lease was deleted %d times", n)
				}
				if w.said("waiting for the end of removal") {
					t.Error("it waits for itself")
				}
			})
		})
	}
}

// TestALeaseThatOtherNodesHave stays when only some of its nodes are removed, and whoever holds it
// may: for the others. One that nobody holds then goes: the nodes that stay may have another, and
// make it again if not. That the node itself is made again is an error.
func TestALeaseThatOtherNodesHave(t *testing.T) {
	for name, c := range map[string]struct {
		back, again bool
		want        error
	}{
		"nobody holds it":           {},
		"the others have a process": {back: true},
		"and it has edge too":       {back: true, again: true, want: errTaken},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				w.meanwhile = func(resource, name string) {
					if !c.back || resource != "leases" || name != election.Name {
						return
					}
					w.meanwhile = nil
					w.lease("burstlet-2")
					if !c.again {
						return
					}
					go func() {
						time.Sleep(10 * time.Second)
						node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
							Name: "edge", UID: "again", Labels: map[string]string{virtualLabel: virtualLabelValue},
						}}
						if err := w.tracker.Create(nodeKind, node, ""); err != nil {
							t.Error(err)
						}
					}()
				}
				n := w.node(func(c *Config) { c.KeepElection = true })
				if err := Run(t.Context(), []*Node{n}, w.deployment()); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if holder, there := w.holderOf(election); there != c.back || holder != map[bool]string{true: "burstlet-2"}[c.back] {
					t.Errorf("the Lease of the other nodes: %q, there %v", holder, there)
				}
				if w.said("stays, for the other nodes") != c.back {
					t.Errorf("said %q", w.lines)
				}
				if left := n.Remains(t.Context()); !c.again && len(left) > 0 {
					t.Errorf("remains: %v", left)
				}
			})
		})
	}
}

// TestTheLeaseOfAFormerElection goes with the node, for nobody else would delete it; not while
// somebody holds it.
func TestTheLeaseOfAFormerElection(t *testing.T) {
	former := types.NamespacedName{Namespace: election.Namespace, Name: "burstlet-former"}
	for name, c := range map[string]struct {
		there  bool
		holder string
	}{
		"none":            {},
		"nobody holds it": {there: true},
		"somebody does":   {there: true, holder: "burstlet-0"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				if c.there {
					w.add(&coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Namespace: former.Namespace, Name: former.Name},
						Spec:       coordinationv1.LeaseSpec{HolderIdentity: &c.holder},
					})
				}
				if err := Run(
					t.Context(),
					[]*Node{w.node(func(c *Config) { c.FormerElection = former })},
					w.deployment(),
				); err != nil {
					t.Error(err)
				}
				if holder, there := w.holderOf(former); there != (c.holder != "") || holder != c.holder {
					t.Errorf("the former Lease: %q, there %v", holder, there)
				}
				if w.said("former deleted") != (c.there && c.holder == "") || w.said("burstlet-0 holds it") != (c.holder != "") {
					t.Errorf("said %q", w.lines)
				}
			})
		})
	}
}

// holderOf returns who holds a Lease, and whether there is one.
func (w *world) holderOf(name types.NamespacedName) (holder string, there bool) {
	w.t.Helper()
	lease, err := w.client.CoordinationV1().Leases(name.Namespace).Get(w.t.Context(), name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false
	}
	if err != nil {
		w.t.Error(err)
		return "", false
	}
	if h := lease.Spec.HolderIdentity; h != nil {
		holder = *h
	}
	return holder, true
}

// TestByLease: nodes without an election wait for nobody.
func TestByLease(t *testing.T) {
	with := func(names ...string) (nodes []*Node) {
		for _, name := range names {
			n := &Node{}
			if name != "" {
				n.cfg.Election = types.NamespacedName{Namespace: "ns", Name: name}
			}
			nodes = append(nodes, n)
		}
		return nodes
	}
	all := byLease(with("", "x", "", "y", "x"))
	var sizes []int
	for _, e := range all {
		sizes = append(sizes, len(e))
	}
	if len(all) != 4 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 1 || sizes[3] != 1 {
		t.Errorf("electorates of %v nodes", sizes)
	}
}
