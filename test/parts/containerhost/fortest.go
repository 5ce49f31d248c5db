package containerhost

import (
	"context"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// ForTest starts a host that lives as long as the test, or skips the test with
// the reason where no host can be started (and fails it when
// BURSTLET_REQUIRE_REAL=1). The end of containerd's log is shown when the test
// fails. Options change the configuration.
func ForTest(t testing.TB, options ...func(*Config)) *Host {
	t.Helper()
	containerd.Need(t, "container host", Missing())
	var cfg Config
	for _, option := range options {
		option(&cfg)
	}
	host, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logs.Show(t, "containerd", host.inside.Log())
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := host.Stop(ctx); err != nil {
			t.Errorf("stop container host: %v", err)
		}
	})
	return host
}
