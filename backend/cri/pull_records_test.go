package cri

import (
	"os"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/images"
)

// Records are a file of the node's own, which only root reads; it goes with the node.
func TestPullRecords(t *testing.T) {
	r, _ := newWorld(t).connect(t)
	if data, err := r.pullRecords.Load(t.Context()); err != nil || data != nil {
		t.Fatalf("before the first: %q, %v", data, err)
	}
	must(t, r.pullRecords.Save(t.Context(), []byte("records")))
	if data, err := r.pullRecords.Load(t.Context()); err != nil || string(data) != "records" {
		t.Errorf("%q, %v", data, err)
	}
	info, err := os.Stat(r.pullRecords.Path())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	must(t, os.Truncate(r.pullRecords.Path(), 0))
	_, err = r.pullRecords.Load(t.Context())
	wantClass(t, err, backend.ErrInvalid)
	another := images.NewRecords(r.host, r.cfg.PodsDir, "another")
	if data, err := another.Load(t.Context()); err != nil || data != nil {
		t.Errorf("another node reads %q, %v", data, err)
	}
	wantClass(t, r.pullRecords.Save(t.Context(), []byte(strings.Repeat("x", 8<<20+1))), backend.ErrUnsupported)
	if _, err := (files{r}).Volumes(t.Context()); err != nil {
		t.Errorf("volumes beside the file: %v", err)
	}
	_, err = r.sweepAll(t.Context())
	must(t, err)
	if _, err := os.Stat(r.pullRecords.Path()); !os.IsNotExist(err) {
		t.Errorf("after a sweep: %v", err)
	}
}
