package provider

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestAddressesAreThosePublished(t *testing.T) {
	spec := nodeSpec{name: "n1", NodeOptions: NodeOptions{InternalIP: "10.0.0.1"}}
	published := spec.build(observation{now: time.Now()}, corev1.NodeStatus{}, corev1.NodeStatus{}).Status.Addresses
	n := &Node{cfg: Config{NodeName: "n1", Node: spec.NodeOptions}}
	if got := n.Addresses(); !slices.Equal(got, published) || len(got) == 0 {
		t.Errorf("got %v, published are %v", got, published)
	}
}
