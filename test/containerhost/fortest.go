package containerhost

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// requireEnv, when 1, turns a skip of real parts into a failure: "make test"
// sets it, so that nothing is skipped there.
const requireEnv = "BURSTLET_REQUIRE_REAL"

// ForTest starts a host that lives as long as the test, or skips the test with
// the reason where no host can be started (and fails it when
// BURSTLET_REQUIRE_REAL=1). The end of containerd's log is shown when the test
// fails. Options change the configuration.
func ForTest(t testing.TB, options ...func(*Config)) *Host {
	t.Helper()
	if reason := cannotStart(); reason != "" {
		if os.Getenv(requireEnv) == "1" {
			t.Fatalf("no container host: %s", reason)
		}
		t.Skipf("no container host: %s", reason)
	}
	var cfg Config
	for _, option := range options {
		option(&cfg)
	}
	host, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of containerd's log:\n%s", host.supervisor.log.String())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := host.Stop(ctx); err != nil {
			t.Errorf("stop container host: %v", err)
		}
	})
	return host
}

// cannotStart says why no host can be started here, or nothing.
func cannotStart() string {
	if missing := Missing(); len(missing) > 0 {
		return strings.Join(missing, ", ") + " not installed: run make test"
	}
	if os.Geteuid() != 0 {
		return "root is needed"
	}
	return ""
}
