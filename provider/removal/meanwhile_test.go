package removal

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Node of the same name that somebody made since ours was looked at is not ours to
// delete.
func TestANodeMadeAnewIsNotDeleted(t *testing.T) {
	in(t, false, func(t *testing.T, w *world) {
		w.meanwhile = func(resource, _ string) {
			if resource != "nodes" {
				return
			}
			w.meanwhile = nil
			kubelets := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "node-of-a-kubelet"}}
			kubelets.Status.NodeInfo.KubeletVersion = "v1.36.3"
			if err := errors.Join(w.tracker.Delete(nodeKind, "", "edge"), w.tracker.Create(nodeKind, kubelets, "")); err != nil {
				t.Error(err)
			}
		}
		if err := Run(t.Context(), []*Node{w.node()}, nil); !errors.Is(err, errForeign) {
			t.Errorf("error %v, want %v", err, errForeign)
		}
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "edge", metav1.GetOptions{})
		if err != nil || node.UID != "node-of-a-kubelet" {
			t.Errorf("the kubelet's Node was deleted: %v", err)
		}
		if w.meanwhile != nil {
			t.Error("no Node was deleted")
		}
	})
}

// The election's Lease is deleted only as it was seen, free: whoever took it since
// leads, and another process that stands by would lead too without it.
func TestALeaseThatWasTakenIsNotDeleted(t *testing.T) {
	for name, take := range map[string]func(*coordinationv1.Lease){
		"written since": func(l *coordinationv1.Lease) { l.ResourceVersion = "1000" },
		// Of the same version: the cluster's store was brought back to an older state.
		"made anew": func(l *coordinationv1.Lease) { l.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, false, func(t *testing.T, w *world) {
				w.meanwhile = func(resource, name string) {
					if resource != "leases" || name != election.Name {
						return
					}
					w.meanwhile = nil
					obj, err := w.tracker.Get(leaseKind, election.Namespace, election.Name)
					if err != nil {
						t.Error(err)
						return
					}
					lease := obj.(*coordinationv1.Lease).DeepCopy()
					lease.Spec.HolderIdentity = new("burstlet-2")
					take(lease)
					if err := w.tracker.Update(leaseKind, lease, election.Namespace); err != nil {
						t.Error(err)
					}
				}
				if err := Run(t.Context(), []*Node{w.node()}, nil); !errors.Is(err, errTaken) {
					t.Errorf("error %v, want %v", err, errTaken)
				}
				lease, err := w.client.CoordinationV1().Leases(election.Namespace).Get(
					t.Context(), election.Name, metav1.GetOptions{},
				)
				if apierrors.IsNotFound(err) {
					t.Error("the Lease that burstlet-2 holds was deleted")
				} else if err != nil || *lease.Spec.HolderIdentity != "burstlet-2" {
					t.Errorf("lease %+v, %v", lease, err)
				}
				if w.meanwhile != nil {
					t.Error("no Lease was deleted")
				}
			})
		})
	}
}
