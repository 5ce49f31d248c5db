// Package need ends tests that lack something of the machine: they are skipped and
// say what is missing, or fail where everything must run.
package need

import (
	"os"
	"testing"
)

// RequireEnv names the environment variable that, set to 1, makes a missing part fail
// a test instead of skipping it. "make test" sets it where the parts can be had.
const RequireEnv = "BURSTLET_REQUIRE_REAL"

// MachineEnv names the environment variable that tells one state of a machine (its packages,
// its kernel) from another. test/cmd/lanes sets it.
const MachineEnv = "BURSTLET_MACHINE"

// Machine says that a test depends on what is installed. Go's test cache keeps a result for
// the value of each variable that the test read: with other packages or another kernel the
// test runs again.
func Machine() { _ = os.Getenv(MachineEnv) }

// Required says that missing parts fail tests.
func Required() bool { return os.Getenv(RequireEnv) == "1" }

// Missing ends the test, which lacks what the message names: it is skipped, or fails
// when RequireEnv is 1.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Root ends the test as [Missing] does when this process is not root's.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root is needed")
	}
}
