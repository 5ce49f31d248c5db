package images

import (
	"testing"

	"github.com/burstlet/burstlet/backend"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", backend.Class(err), err)
	}
}
