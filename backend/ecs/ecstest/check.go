package ecstest

import (
	"testing"

	"github.com/burstlet/burstlet/backend"
)

// Must ends the test for an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", backend.Class(err), err)
	}
}

// WantClass ends the test for an error of another class; "" is no error.
func WantClass(t *testing.T, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Fatalf("error of class %q (%v), want %q", got, err, want)
	}
}
