package kubelet

import (
	"context"
	"errors"
	"testing"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// ForTest starts a kubelet on a host as a node of a cluster, until the test ends,
// or skips the test where the program is not built (and fails it when
// BURSTLET_REQUIRE_REAL=1). Of the configuration it fills in the program, the
// credential and the CA.
func ForTest(t testing.TB, cluster *controlplane.ControlPlane, host *remotehost.Host, cfg Config) *Kubelet {
	t.Helper()
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Binary, err = cache.Lookup(binaries.Kubelet)
	if errors.Is(err, binaries.ErrNotBuilt) {
		need.Missing(t, "the kubelet is not built: run make test (or go run ./test/cmd/controlplane build): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Credential, err = cluster.NodeCredential(cfg.Node); err != nil {
		t.Fatal(err)
	}
	cfg.ClientCAFile = cluster.CAFile()
	k, err := Start(t.Context(), host, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		if err := k.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}
