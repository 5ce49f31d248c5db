package cri

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

// TestCheckpoint: the runtime writes an archive where only root sees it.
func TestCheckpoint(t *testing.T) {
	var asked *runtimeapi.CheckpointContainerRequest
	w := newWorld(t, func(s *fakecri.Server) {
		s.Checkpoints = func(r *runtimeapi.CheckpointContainerRequest) error {
			if asked = r; filepath.Base(filepath.Dir(r.GetLocation())) != checkpointsDir {
				return errors.New("no such place")
			}
			return os.WriteFile(r.GetLocation(), nil, 0o600)
		}
	})
	r, _ := w.connect(t)
	pod := runPod(t, r, testPod("u1"), "main")
	ref := backend.ContainerRef{Pod: pod, Name: "main"}
	location, err := checkpoints{r}.Checkpoint(t.Context(), ref, 3*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := w.fake.Container("main")
	name := filepath.Base(location)
	if asked.GetContainerId() != id || asked.GetTimeout() != 180 || asked.GetLocation() != location ||
		!strings.HasPrefix(name, "checkpoint-name-u1_ns-main-20") || !strings.HasSuffix(name, ".tar") {
		t.Errorf("asked for %v of %s, got %s", asked, id, location)
	}
	info, err := os.Stat(filepath.Dir(location))
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the directory of archives: %v (%v)", info, err)
	}
	facts, err := files{r}.Volumes(t.Context())
	for _, f := range facts {
		if f.Pod.UID != "u1" {
			t.Errorf("the archives are taken for a pod's: %+v", f)
		}
	}
	must(t, err)
	_, err = checkpoints{r}.Checkpoint(t.Context(), backend.ContainerRef{Pod: pod, Name: "other"}, time.Minute)
	wantClass(t, err, backend.ErrNotFound)
	w.fake.Exit(id, 0, "Completed")
	_, err = checkpoints{r}.Checkpoint(t.Context(), ref, time.Minute)
	wantClass(t, err, backend.ErrNotFound)
}

// TestCheckpointWhereTheRuntimeCannot says what can.
func TestCheckpointWhereTheRuntimeCannot(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := runPod(t, r, testPod("u1"), "main")
	_, err := checkpoints{r}.Checkpoint(t.Context(), backend.ContainerRef{Pod: pod, Name: "main"}, time.Minute)
	wantClass(t, err, backend.ErrUnsupported)
	if err == nil || !strings.Contains(err.Error(), "containerd 2.1 or newer") {
		t.Errorf("got %v", err)
	}
}
