package provider

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// existing is a Node of ours that a process before this one made.
func existing(identity string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "before", ResourceVersion: "7", Labels: map[string]string{virtualLabel: virtualLabelValue},
		Annotations: map[string]string{"team": "blue"},
	}}
	if identity != "" {
		node.Annotations[IdentityAnnotation] = identity
	}
	return node
}

func TestIdentityStandsOnTheNode(t *testing.T) {
	for _, tc := range []struct {
		name string
		node *corev1.Node // before; nil: none
	}{
		{name: "a new node"},
		{name: "a node from before identities stood on nodes", node: existing("")},
		{name: "a node that has it", node: existing("svc-1/n1")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(cfg *Config) {
					cfg.Node.Identity = "svc-1/n1"
					cfg.Node.Annotations = map[string]string{IdentityAnnotation: "mine", "owner": "me"}
				})
				if tc.node != nil {
					if err := b.client.Tracker().Add(tc.node); err != nil {
						t.Fatal(err)
					}
				}
				b.run(func() {
					b.settle(5 * time.Second)
					has := func(when string) {
						t.Helper()
						if got := b.inAPI().Annotations; got[IdentityAnnotation] != "svc-1/n1" || got["owner"] != "me" {
							t.Errorf("%s: annotations %v", when, got)
						}
					}
					has("registered")
					for _, change := range []string{"", "svc-2/n1"} {
						node := b.inAPI().DeepCopy()
						node.Annotations[IdentityAnnotation] = change
						if err := b.client.Tracker().Update(nodeKind, node, ""); err != nil {
							t.Fatal(err)
						}
						b.settle(repushEvery + time.Second)
						has("changed to " + change)
					}
					if err := b.client.Tracker().Delete(nodeKind, "", "n1"); err != nil {
						t.Fatal(err)
					}
					b.settle(5 * time.Second)
					has("made again")
				})
			})
		})
	}
}

// What another process called the node meanwhile is not overwritten, and nothing is done
// under the other name.
func TestIdentityOfAnotherProcessIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(cfg *Config) { cfg.Node.Identity = "svc-1/n1" })
		if err := b.client.Tracker().Add(existing("svc-0/n1")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := b.node.Run(t.Context())
		if !errors.Is(err, errIdentity) || !strings.Contains(err.Error(), "node.identity") ||
			time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if found := writes(b.client, "nodes"); len(found) > 0 {
			t.Errorf("wrote %v", found)
		}
	})
}
