package cri

import (
	"os"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
)

// Records are a file of the node's own, which only root reads; it goes with the node.
func TestPullRecords(t *testing.T) {
	r, _ := newWorld(t).connect(t)
	if data, err := (pullRecords{r}).Load(t.Context()); err != nil || data != nil {
		t.Fatalf("before the first: %q, %v", data, err)
	}
	must(t, pullRecords{r}.Save(t.Context(), []byte("records")))
	if data, err := (pullRecords{r}).Load(t.Context()); err != nil || string(data) != "records" {
		t.Errorf("%q, %v", data, err)
	}
	info, err := os.Stat(r.pullRecordsFile())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	must(t, os.Truncate(r.pullRecordsFile(), 0))
	_, err = pullRecords{r}.Load(t.Context())
	wantClass(t, err, backend.ErrInvalid)
	mine := r.cfg.NodeIdentity
	r.cfg.NodeIdentity = "another"
	if data, err := (pullRecords{r}).Load(t.Context()); err != nil || data != nil {
		t.Errorf("another node reads %q, %v", data, err)
	}
	r.cfg.NodeIdentity = mine
	wantClass(t, pullRecords{r}.Save(t.Context(), []byte(strings.Repeat("x", maxPullRecords+1))), backend.ErrUnsupported)
	if _, err := (files{r}).Volumes(t.Context()); err != nil {
		t.Errorf("volumes beside the file: %v", err)
	}
	_, err = r.sweepAll(t.Context())
	must(t, err)
	if _, err := os.Stat(r.pullRecordsFile()); !os.IsNotExist(err) {
		t.Errorf("after a sweep: %v", err)
	}
}
