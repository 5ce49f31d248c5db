package controlplane

import (
	"slices"
	"testing"
)

func TestNodeEnvIsWithoutWhatConfigures(t *testing.T) {
	got := NodeEnv([]string{"PATH=/bin", "BURSTLET_BACKEND=ecs", "KUBECONFIG=/x", "BURSTLET_NODE_NAME=x", "HOME=/root"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
