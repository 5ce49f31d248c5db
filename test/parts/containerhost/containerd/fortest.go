package containerd

import (
	"os"
	"strings"
	"testing"
)

// requireEnv, when 1, turns a skip of real parts into a failure: "make test"
// sets it, so that nothing is skipped there.
const requireEnv = "BURSTLET_REQUIRE_REAL"

// Need skips the test with the reason where no such host can be started, because
// packages are missing or this is not root, and fails it when
// BURSTLET_REQUIRE_REAL=1.
func Need(t testing.TB, host string, missing []string) {
	t.Helper()
	reason := ""
	switch {
	case len(missing) > 0:
		reason = strings.Join(missing, ", ") + " not installed: run make test"
	case os.Geteuid() != 0:
		reason = "root is needed"
	default:
		return
	}
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf("no %s: %s", host, reason)
	}
	t.Skipf("no %s: %s", host, reason)
}
