package cri

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

const testImage = "registry.test/app:1"

// world is a fake runtime and a way to connect to it.
type world struct {
	fake *fakecri.Server
	cfg  Config
	host host
}

// newWorld serves a fake runtime; set changes it before it is served.
func newWorld(t *testing.T, set ...func(*fakecri.Server)) *world {
	t.Helper()
	fake := fakecri.New(testImage)
	for _, f := range set {
		f(fake)
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "cri.sock")
	stop, err := fake.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &world{
		fake: fake,
		host: localHost{cgroupRoot: filepath.Join(dir, "cgroup")},
		cfg: Config{
			Endpoint: "unix://" + socket, NodeIdentity: "node-a", CgroupDriver: CgroupDriverCgroupfs,
			PodLogsDir: filepath.Join(dir, "pods"), ContainerLogsDir: filepath.Join(dir, "containers"),
		},
	}
}

// connect runs a backend until the test ends, or until stop is called.
func (w *world) connect(t *testing.T) (r *remote, stop func()) {
	t.Helper()
	r, err := newRemote(w.cfg, w.host)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	eventually(t, "backend runs", func() bool { _, err := r.transport.current(); return err == nil })
	return r, stop
}

// eventually polls: a socket lies between, so there is nothing to wait on.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v of class %q, want %q", err, backend.Class(err), backend.Class(class))
	}
}

func testPod(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name-" + uid, UID: types.UID(uid), Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: testImage}}},
	}
}

func launchSpec(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	return backend.LaunchSpec{Pod: pod, Attempt: attempt}
}

func containerSpec(pod *corev1.Pod, name string, attempt int) backend.ContainerSpec {
	return backend.ContainerSpec{Pod: pod, Container: corev1.Container{Name: name, Image: testImage}, Attempt: attempt, Hash: "h1"}
}

// runPod launches a pod and starts the containers named.
func runPod(t *testing.T, r *remote, pod *corev1.Pod, names ...string) backend.Ref {
	t.Helper()
	spec := launchSpec(pod, 0)
	must(t, pods{r}.Launch(t.Context(), spec))
	for _, name := range names {
		must(t, containers{r}.Start(t.Context(), spec.Ref(), containerSpec(pod, name, 0)))
	}
	return spec.Ref()
}

// inspect is the only attempt of a pod.
func inspect(t *testing.T, r *remote, uid types.UID) backend.PodFacts {
	t.Helper()
	facts, err := pods{r}.Inspect(t.Context(), []types.UID{uid})
	must(t, err)
	if len(facts) != 1 {
		t.Fatalf("%d attempts, want 1: %+v", len(facts), facts)
	}
	return facts[0]
}
