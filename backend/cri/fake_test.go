package cri

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/local"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
)

const testImage = fakecri.Image

// world is a fake runtime and a way to connect to it.
type world struct {
	fake *fakecri.Server
	cfg  Config
	access
}

// here reaches this machine as its own host, which has no cgroups to give.
func here() access {
	return access{
		host: &withoutCgroups{Host: local.New(local.Options{})}, control: localDialer{}, streams: localDialer{},
		may: backend.Always,
	}
}

// withoutCgroups remembers the cgroups that it is asked for. Package local has
// tests of real ones.
type withoutCgroups struct {
	host.Host
	mu    sync.Mutex
	asked []host.Cgroup
	left  []host.Leftovers
	// facts changes what the host says of itself.
	facts func(*host.Facts)
}

func (h *withoutCgroups) ask(c *host.Cgroup) {
	if c == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, *c)
}

func (h *withoutCgroups) last() host.Cgroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[len(h.asked)-1]
}

func (h *withoutCgroups) Facts(ctx context.Context) (host.Facts, error) {
	f, err := h.Host.Facts(ctx)
	f.Lacks, f.Kubelets = nil, nil // of the machine that runs the tests
	if h.facts != nil {
		h.facts(&f)
	}
	return f, err
}

func (h *withoutCgroups) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	h.ask(p.Cgroup)
	p.Cgroup = nil
	return h.Host.Prepare(ctx, p)
}

func (h *withoutCgroups) Discard(ctx context.Context, d host.Discard) (host.Discarded, error) {
	h.ask(d.Cgroup)
	d.Cgroup = nil
	if d.Left != nil {
		h.mu.Lock()
		h.left = append(h.left, *d.Left)
		h.mu.Unlock()
		d.Left = nil
	}
	return h.Host.Discard(ctx, d)
}

func (h *withoutCgroups) Limit(_ context.Context, c host.Cgroup) (time.Duration, error) {
	h.ask(&c)
	return 0, nil
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
	return &world{fake: fake, access: here(), cfg: configIn(dir, socket)}
}

// configIn is that of a node which keeps all that it has on its host in a directory.
func configIn(dir, socket string) Config {
	return Config{
		Endpoint: "unix://" + socket, NodeIdentity: "node-a", CgroupDriver: CgroupDriverCgroupfs,
		PodsDir:    filepath.Join(dir, "volumes"),
		PodLogsDir: filepath.Join(dir, "pods"), ContainerLogsDir: filepath.Join(dir, "containers"),
	}
}

// connect runs a backend until the test ends, or until stop is called.
func (w *world) connect(t *testing.T) (r *remote, stop func()) {
	t.Helper()
	r, err := newRemote(w.cfg, w.access)
	if err != nil {
		t.Fatal(err)
	}
	// It outlives what uses it, which the end of the test's context ends.
	stop = background.Run(t, func(ctx context.Context) error { return r.run(ctx, backend.Always) })
	eventually(t, "backend runs", func() bool { _, err := r.transport.Current(); return err == nil })
	return r, stop
}

// eventually polls: a socket lies between, so there is nothing to wait on.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.Holds(t, 3*time.Minute, what, ok)
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
	return fakecri.Pod(uid)
}

func launchSpec(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	return backend.LaunchSpec{Pod: pod, Attempt: attempt}
}

func containerSpec(pod *corev1.Pod, name string, attempt int) backend.ContainerSpec {
	return backend.ContainerSpec{
		Pod: pod, Container: corev1.Container{Name: name, Image: testImage}, Attempt: attempt, Hash: "h1",
	}
}

// runPod launches a pod and starts the containers named.
func runPod(t *testing.T, r *remote, pod *corev1.Pod, names ...string) backend.Ref {
	t.Helper()
	spec := launchSpec(pod, 0)
	must(t, pods{r}.Launch(t.Context(), t.Context(), spec))
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
