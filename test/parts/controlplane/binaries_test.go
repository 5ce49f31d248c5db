package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/parts/binaries"
)

// TestKubernetesEnv: the API server alone is of the version that is asked for, and one that
// no program has is refused.
func TestKubernetesEnv(t *testing.T) {
	t.Setenv(KubectlEnv, "")
	ours, err := binaries.KubeAPIServer.Version()
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Join(strings.SplitN(strings.TrimPrefix(ours, "v"), ".", 3)[:2], ".")
	for minor, server := range map[string]binaries.Tool{
		"": binaries.KubeAPIServer, own: binaries.KubeAPIServer,
		"1.34": binaries.KubeAPIServer134, "1.35": binaries.KubeAPIServer135, "1.37": binaries.KubeAPIServer137,
	} {
		t.Setenv(KubernetesEnv, minor)
		got, err := Tools()
		want := []binaries.Tool{
			binaries.Etcd, server, binaries.KubeControllerManager, binaries.KubeScheduler, binaries.Kubectl,
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", minor, got, err)
		}
	}
	for _, none := range []string{"1.3", "1.99", "v1.34"} {
		t.Setenv(KubernetesEnv, none)
		if _, err := Tools(); err == nil || !strings.Contains(err.Error(), KubernetesEnv) ||
			!strings.Contains(err.Error(), "1.34, 1.35, 1.37") {
			t.Errorf("%q: %v", none, err)
		}
	}
}
