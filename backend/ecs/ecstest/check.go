package ecstest

import "github.com/burstlet/burstlet/backend"

// Test is what the checks need of a *testing.T.
type Test interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Must ends the test for an error.
func Must(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", backend.Class(err), err)
	}
}

// WantClass ends the test for an error of another class; "" is no error.
func WantClass(t Test, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Fatalf("error of class %q (%v), want %q", got, err, want)
	}
}
