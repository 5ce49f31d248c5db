package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// logRuntime has one container c, and opens its log anew.
type logRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	log    string
	state  runtimeapi.ContainerState
	ended  atomic.Bool // nothing runs any more
	refuse error

	layer     uint64 // bytes in the container's
	stops     atomic.Int32
	stopFails error
}

func (r *logRuntime) ListContainers(
	_ context.Context, q *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	if q.GetFilter().GetLabelSelector()["node"] != "n" {
		return nil, errors.New("the request did not arrive")
	}
	if r.ended.Load() {
		return &runtimeapi.ListContainersResponse{}, nil
	}
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{
		Id: "c", PodSandboxId: "s", Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 300}, ImageRef: "i",
		Image: &runtimeapi.ImageSpec{Image: "i"}, CreatedAt: 1 << 60, State: r.state, Labels: map[string]string{
			"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "pod", "io.kubernetes.pod.uid": "uid", "other": "",
		},
	}}}, nil
}

func (r *logRuntime) ReopenContainerLog(
	_ context.Context, q *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	if q.GetContainerId() != "c" {
		return nil, errors.New("another container")
	}
	return &runtimeapi.ReopenContainerLogResponse{}, os.WriteFile(r.log, []byte("new"), 0o640)
}

// serveLogs serves a runtime whose container has written a log, and says how to rotate.
func serveLogs(t *testing.T) (*logRuntime, host.Rotation) {
	t.Helper()
	dir := t.TempDir()
	r := &logRuntime{log: filepath.Join(dir, "logs/ns_pod_uid/app/300.log")}
	r.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	if err := os.MkdirAll(filepath.Dir(r.log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.log, []byte("much too long"), 0o640); err != nil {
		t.Fatal(err)
	}
	list, err := proto.Marshal(&runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"node": "n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, host.Rotation{MaxSize: 10, MaxFiles: 5, Keep: &host.Keep{
		Root: filepath.Join(dir, "pods"), Node: "n", Socket: serve(t, r), List: list, PodLogs: filepath.Join(dir, "logs"),
		Period: time.Millisecond,
	}}
}

// asked is a host that was asked to rotate, and goes on.
func asked(t *testing.T, r host.Rotation) *Host {
	t.Helper()
	h := New(Options{Root: r.Keep.Root})
	if _, err := h.Rotate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return h
}

// kept is a keeper that rotates by that order until it ends by itself.
func kept(t *testing.T, r *host.Rotation, failed func(error)) (held *os.File, ended chan struct{}) {
	t.Helper()
	held, err := NewKeeper(t.Context(), r.Keep)
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		New(Options{}).KeepOn(t.Context(), held, *r, failed)
	}()
	t.Cleanup(func() {
		<-ended
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	})
	return held, ended
}

func TestRoundsOfAKeeper(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*logRuntime)
		more   bool
		fails  bool
		files  int    // beside the log
		log    string // its contents
	}{
		"a log outgrew its size": {func(*logRuntime) {}, true, false, 1, "new"},
		"the runtime cannot open it anew": {
			func(l *logRuntime) { l.refuse = errors.New("no") }, true, true, 0, "much too long",
		},
		"nothing runs": {
			func(l *logRuntime) { l.state = runtimeapi.ContainerState_CONTAINER_EXITED }, false, false, 0, "much too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, r := serveLogs(t)
			h := asked(t, r)
			tt.change(l)
			order, err := h.KeepOrder(t.Context())
			if (order != nil) != tt.more || err != nil {
				t.Errorf("order %+v, %v", order, err)
			}
			if more, err := h.keepRound(t.Context(), r); more != tt.more || (err != nil) != tt.fails {
				t.Errorf("more %t, %v", more, err)
			}
			files, err := rotatedFiles(l.log)
			if err != nil || len(files) != tt.files {
				t.Errorf("rotated files %q, %v", files, err)
			}
			if got, err := os.ReadFile(l.log); err != nil || string(got) != tt.log {
				t.Errorf("the log is %q, %v", got, err)
			}
		})
	}
}

// A keeper ends, and its file with it, as soon as it has no part any more.
func TestKeeperEnds(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *logRuntime, host.Rotation){
		"somebody is connected, and there is nothing to rotate": func(t *testing.T, _ *logRuntime, r host.Rotation) {
			asked(t, r)
		},
		"logs are not rotated any more": func(t *testing.T, _ *logRuntime, r host.Rotation) {
			r.MaxSize = -1
			asked(t, r)
		},
		"the last container ended": func(_ *testing.T, l *logRuntime, _ host.Rotation) {
			l.ended.Store(true)
		},
		"the directory of the pods is gone": func(t *testing.T, _ *logRuntime, r host.Rotation) {
			if err := os.RemoveAll(r.Keep.Root); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, r := serveLogs(t)
			_, ended := kept(t, &r, func(err error) { t.Error(err) })
			change(t, l, r)
			<-ended
			if _, err := os.Stat(keeperFile(r.Keep)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its file: %v", err)
			}
		})
	}
}

// A keeper ends the one before it, whose end leaves the file of the later one.
func TestOneKeeperOfANode(t *testing.T) {
	l, r := serveLogs(t)
	failed := func(err error) { t.Error(err) }
	_, first := kept(t, &r, failed)
	second, ended := kept(t, &r, failed)
	<-first
	if err := stillThere(second); err != nil {
		t.Error(err)
	}
	l.ended.Store(true)
	<-ended
}

// A helper leaves no keeper that nobody asked for.
func TestNoKeeperWithoutBeingAsked(t *testing.T) {
	_, r := serveLogs(t)
	h := asked(t, r)
	r.MaxSize = 0
	if _, err := h.Rotate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Host{h, New(Options{})} {
		if order, err := h.KeepOrder(t.Context()); order != nil || err != nil {
			t.Errorf("%v, %v", order, err)
		}
	}
}

// While the runtime does not say what runs, a keeper is wanted, and stays.
func TestKeeperWithoutTheRuntime(t *testing.T) {
	_, r := serveLogs(t)
	r.Keep.Socket += "-gone"
	order, err := asked(t, r).KeepOrder(t.Context())
	if order == nil || err == nil {
		t.Fatalf("%v, %v", order, err)
	}
	failures := make(chan error, 1)
	held, _ := kept(t, order, func(err error) {
		select {
		case failures <- err:
		default:
		}
	})
	t.Log(<-failures)
	if err := stillThere(held); err != nil {
		t.Error(err)
	}
	if err := os.Remove(held.Name()); err != nil {
		t.Error(err)
	}
}

// What one has moved away, and the runtime still writes, no other compresses: who rotates
// waits for whoever does already.
func TestRotationsOfOneLogWaitForEachOther(t *testing.T) {
	dir := logDir(t, map[string]string{"0.log": "1234"})
	held, err := lockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := host.Rotation{Logs: []string{filepath.Join(dir, "0.log")}, MaxSize: 4, MaxFiles: 5}
	if got, err := New(Options{}).Rotate(ctx, r); !errors.Is(err, context.DeadlineExceeded) || len(got) > 0 {
		t.Errorf("beside another: %v, %v", got, err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if got, err := New(Options{}).Rotate(t.Context(), r); err != nil || len(got) != 1 {
		t.Errorf("after it: %v, %v", got, err)
	}
}

func TestListingThatIsNone(t *testing.T) {
	good, err := proto.Marshal(&runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{
		Id: "c", Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := runningContainers(good)
	want := []runningContainer{{id: "c", name: "app", labels: map[string]string{}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(runningContainer{})); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for i := 1; i < len(good); i++ {
		if _, err := runningContainers(good[:i]); !errors.Is(err, errNoMessage) {
			t.Errorf("%d bytes of %d: %v", i, len(good), err)
		}
	}
}
