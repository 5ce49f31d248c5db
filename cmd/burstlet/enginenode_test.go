package main

import (
	"slices"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
)

// TestEngineNodeIsCurrent: pods are judged by what the remote can do now, which a new
// runtime may change.
func TestEngineNodeIsCurrent(t *testing.T) {
	current := provider.Current{}
	node, err := engineNode(config.Configuration{}, backend.Backend{}, func() provider.Current { return current })
	if err != nil {
		t.Fatal(err)
	}
	for _, can := range []bool{false, true, false} {
		current = provider.Current{OS: "linux", Kernel: "6.1", SupplementalGroupsPolicy: can}
		if got := node().Admission; got.SupplementalGroupsPolicy != can || got.OS != "linux" || got.Kernel != "6.1" {
			t.Errorf("pods are judged by %+v, want %+v", got, current)
		}
		if current.RecursiveReadOnly = []string{"runc"}; !slices.Equal(
			node().Cluster.RecursiveReadOnly, current.RecursiveReadOnly,
		) {
			t.Errorf("handlers %q, want %q", node().Cluster.RecursiveReadOnly, current.RecursiveReadOnly)
		}
	}
}
