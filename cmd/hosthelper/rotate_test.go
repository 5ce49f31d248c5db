package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// writer is a container that runs, and its log.
type writer struct {
	runtime  *fakecri.Server
	id       string
	log      string
	reopened chan error
	stops    chan struct{} // one for each request to stop it
}

func (w *writer) write(text string) error { return os.WriteFile(w.log, []byte(text), 0o640) }

// newWriter runs it as one of the node n, and says how its log is rotated.
func newWriter(t *testing.T, dir string) (*writer, host.Rotation) {
	t.Helper()
	logs := filepath.Join(dir, "logs")
	w := &writer{
		runtime: fakecri.New("image"), log: filepath.Join(logs, "ns_pod_uid", "app", "0.log"), reopened: make(chan error, 1),
		stops: make(chan struct{}, 100),
	}
	w.runtime.Before = func(_ context.Context, method string, _ any) error {
		if method == "StopContainer" {
			w.stops <- struct{}{}
		}
		return nil
	}
	w.runtime.Reopening = func(string) error {
		w.reopened <- w.write("")
		return nil
	}
	socket := filepath.Join(dir, "s")
	stop, err := w.runtime.Serve(socket)
	must(t, err)
	t.Cleanup(stop)
	sandbox, err := w.runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{})
	must(t, err)
	labels := map[string]string{
		"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": "pod", "io.kubernetes.pod.uid": "uid", "node": "n",
	}
	container, err := w.runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.PodSandboxId, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "image"}, Labels: labels,
		},
	})
	must(t, err)
	w.id = container.ContainerId
	_, err = w.runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: w.id})
	must(t, err)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(w.log), 0o755), w.write("short")))
	list, err := proto.Marshal(&runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"node": "n"}},
	})
	must(t, err)
	return w, host.Rotation{Logs: []string{w.log}, MaxSize: 10, MaxFiles: 3, Keep: &host.Keep{
		Root: filepath.Join(dir, "pods"), Node: "n", Socket: socket, List: list, PodLogs: logs, Period: 10 * time.Millisecond,
	}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The session ends while a container writes its log: that is rotated until the container
// ends, and then nothing is left.
func TestLogsRotateAfterTheSession(t *testing.T) {
	w, r := newWriter(t, t.TempDir())
	p := start(t, self(t), "--root", r.Keep.Root)
	c := helper.NewClient(p.stream)
	_, err := c.Rotate(t.Context(), r)
	must(t, err)
	must(t, c.Close())
	p.ends(t)

	for range 4 {
		must(t, w.write("longer than ten bytes"))
		select {
		case err := <-w.reopened:
			must(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the log is not rotated")
		}
	}
	if files, err := filepath.Glob(w.log + ".*"); err != nil || len(files) == 0 || len(files) > 2 {
		t.Errorf("rotated files %s, %v", strings.Join(files, " "), err)
	}
	w.runtime.Exit(w.id, 0, "Completed")
	wait.For(t, time.Minute, "nothing of it is left", func() error {
		left, err := os.ReadDir(r.Keep.Root)
		if err == nil && len(left) > 0 {
			return errors.New(left[0].Name())
		}
		return err
	})
}

// The session ends while a pod is over its limit on local storage: it is recorded and stopped
// once no other session sees to it, and the next one is told.
func TestPodIsEvictedAfterTheSession(t *testing.T) {
	dir := t.TempDir()
	w, r := newWriter(t, dir)
	stats, err := proto.Marshal(&runtimeapi.ListContainerStatsRequest{})
	must(t, err)
	r.MaxSize, r.Keep.Evict = 0, &host.Evict{Stats: stats, Grace: 2 * time.Second}
	pod := filepath.Dir(filepath.Dir(w.log))
	must(t, errors.Join(
		os.WriteFile(filepath.Join(pod, host.LogMark), host.Ownership{Node: "n"}.Bytes(), 0o644),
		os.WriteFile(filepath.Join(pod, host.StorageLimits), []byte(`{"pod":{"bytes":4096,"text":"4Ki"}}`), 0o600),
	))
	asked := host.EvictedRequest{Root: r.Keep.Root, Node: "n", PodLogs: r.Keep.PodLogs}
	session := func() (*helper.Client, func()) {
		p := start(t, self(t), "--root", r.Keep.Root)
		c := helper.NewClient(p.stream)
		got, err := c.Evicted(t.Context(), asked)
		if err != nil || len(got) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		return c, func() {
			must(t, c.Close())
			p.ends(t)
		}
	}
	first, end := session()
	_, endOther := session()
	_, err = first.Rotate(t.Context(), r)
	must(t, err)
	end()
	select {
	case <-w.stops:
		t.Fatal("it was stopped beside a session")
	case <-time.After(20 * r.Keep.Period):
	}
	endOther()
	select {
	case <-w.stops:
	case <-time.After(time.Minute):
		t.Fatal("it was not stopped")
	}
	p := start(t, self(t), "--root", r.Keep.Root)
	c := helper.NewClient(p.stream)
	got, err := c.Evicted(t.Context(), asked)
	must(t, errors.Join(err, c.Close()))
	p.ends(t)
	const message = "Pod ephemeral local storage usage exceeds the total limit of containers 4Ki. "
	if len(got) != 1 || got[0].UID != "uid" || got[0].Message != message {
		t.Errorf("%+v", got)
	}
}
