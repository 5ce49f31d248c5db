package taskdef

import (
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
)

var podOf, withInit, specOf, resolved = ecstest.Pod, ecstest.WithInit, ecstest.Spec, ecstest.Resolved

var withVolume = ecstest.WithVolume

const canary = ecstest.Canary

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", backend.Class(err), err)
	}
}

func wantClass(t *testing.T, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Fatalf("error of class %q (%v), want %q", got, err, want)
	}
}
