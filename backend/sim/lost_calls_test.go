package sim_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// call is one of the contract, with what shows that it had its effect; nil where it has none.
type call struct {
	do     func(ctx context.Context, b backend.Backend) error
	effect func(t *testing.T, r *sim.Remote, b backend.Backend) bool
}

// only is a call's error, whatever it returns beside it.
func only[T any](_ T, err error) error { return err }

func lostCalls() map[string]call {
	ref := backend.Ref{UID: "u"}
	c := backend.ContainerRef{Pod: ref, Name: "c"}
	dead := backend.ContainerRef{Pod: ref, Name: "dead"}
	volume := volumeOf("new", map[string]string{"f": "x"})
	has := func(kind sim.Kind, container string) func(*testing.T, *sim.Remote, backend.Backend) bool {
		return func(_ *testing.T, r *sim.Remote, _ backend.Backend) bool {
			for _, e := range r.History() {
				if e.Kind == kind && e.Container == container && (kind != sim.Placed || e.Volume == "new") &&
					(kind != sim.Launched || e.Pod.UID == "other") {
					return true
				}
			}
			return false
		}
	}
	stored := func(image string, want bool) func(*testing.T, *sim.Remote, backend.Backend) bool {
		return func(t *testing.T, _ *sim.Remote, b backend.Backend) bool {
			_, err := b.Images.Find(t.Context(), image)
			return (err == nil) == want
		}
	}
	resized := container("c", "serve")
	resized.Container.Resources = bounded("1", "1Gi")
	return map[string]call{
		"Pods.Launch": {func(ctx context.Context, b backend.Backend) error {
			return b.Pods.Launch(ctx, ctx, spec("other", 0))
		}, has(sim.Launched, "")},
		"Pods.Stop": {
			func(ctx context.Context, b backend.Backend) error { return b.Pods.Stop(ctx, ref, 0) }, has(sim.Stopped, ""),
		},
		"Pods.Remove": {
			func(ctx context.Context, b backend.Backend) error { return b.Pods.Remove(ctx, ref) }, has(sim.Removed, ""),
		},
		"Containers.Start": {func(ctx context.Context, b backend.Backend) error {
			return b.Containers.Start(ctx, ref, container("new", "serve"))
		}, has(sim.Started, "new")},
		"Containers.Stop": {
			func(ctx context.Context, b backend.Backend) error { return b.Containers.Stop(ctx, c, 0) }, has(sim.Stopped, "c"),
		},
		"Containers.Remove": {
			func(ctx context.Context, b backend.Backend) error { return b.Containers.Remove(ctx, dead) },
			has(sim.Removed, "dead"),
		},
		"Resize.Resize": {
			func(ctx context.Context, b backend.Backend) error { return b.Resize.Resize(ctx, c, resized) },
			has(sim.Resized, "c"),
		},
		"Files.Place": {
			func(ctx context.Context, b backend.Backend) error { return b.Files.Place(ctx, volume) }, has(sim.Placed, ""),
		},
		"Files.Clear": {
			func(ctx context.Context, b backend.Backend) error { return b.Files.Clear(ctx, ref) }, has(sim.Cleared, ""),
		},
		"Images.Pull": {func(ctx context.Context, b backend.Backend) error {
			return only(b.Images.Pull(ctx, "new", nil))
		}, stored("new", true)},
		"Store.Remove": {func(ctx context.Context, b backend.Backend) error {
			images, err := b.Store.List(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			return b.Store.Remove(ctx, images[len(images)-1].ID)
		}, stored("spare", false)},
		"PullRecords.Save": {func(ctx context.Context, b backend.Backend) error {
			return b.PullRecords.Save(ctx, []byte("x"))
		}, func(t *testing.T, _ *sim.Remote, b backend.Backend) bool {
			data, err := b.PullRecords.Load(t.Context())
			must(t, err)
			return string(data) == "x"
		}},
		"Pods.List": {func(ctx context.Context, b backend.Backend) error { return only(b.Pods.List(ctx)) }, nil},
		"Pods.Inspect": {
			func(ctx context.Context, b backend.Backend) error { return only(b.Pods.Inspect(ctx, []types.UID{"u"})) }, nil,
		},
		"Files.Volumes": {func(ctx context.Context, b backend.Backend) error {
			return only(b.Files.Volumes(ctx))
		}, nil},
		"Images.Find": {
			func(ctx context.Context, b backend.Backend) error { return only(b.Images.Find(ctx, "busybox")) }, nil,
		},
		"Store.List": {func(ctx context.Context, b backend.Backend) error { return only(b.Store.List(ctx)) }, nil},
		"Store.Disk": {func(ctx context.Context, b backend.Backend) error { return only(b.Store.Disk(ctx)) }, nil},
		"PullRecords.Load": {
			func(ctx context.Context, b backend.Backend) error { return only(b.PullRecords.Load(ctx)) }, nil,
		},
		"Stats.Stats":     {func(ctx context.Context, b backend.Backend) error { return only(b.Stats.Stats(ctx)) }, nil},
		"Signals.Signals": {func(ctx context.Context, b backend.Backend) error { return only(b.Signals.Signals(ctx)) }, nil},
		"Node.Describe":   {func(ctx context.Context, b backend.Backend) error { return only(b.Node.Describe(ctx)) }, nil},
		"Logs.Open": {
			func(ctx context.Context, b backend.Backend) error {
				return only(b.Logs.Open(ctx, c, backend.LogOptions{}))
			}, nil,
		},
		"Dial.Dial": {
			func(ctx context.Context, b backend.Backend) error { return only(b.Dial.Dial(ctx, ref, "10.88.0.1:80")) }, nil,
		},
		"Forward.Forward": {
			func(ctx context.Context, b backend.Backend) error { return only(b.Forward.Forward(ctx, ref, 80)) }, nil,
		},
		"Exec.Exec": {func(ctx context.Context, b backend.Backend) error {
			return only(b.Exec.Exec(ctx, c, backend.ExecSpec{Command: []string{"sh", "-c", "echo x > /made"}}))
		}, func(t *testing.T, _ *sim.Remote, b backend.Backend) bool {
			_, code, err := run(t.Context(), b, "c", "", "test", "-e", "/made")
			must(t, err)
			return code == 0
		}},
		"SystemOOMs.Await": {
			func(ctx context.Context, b backend.Backend) error { return only(b.SystemOOMs.Await(ctx, "")) }, nil,
		},
		"Shutdown.Await": {
			func(ctx context.Context, b backend.Backend) error { return only(b.Shutdown.Await(ctx, true)) }, nil,
		},
	}
}

// TestLostCalls: a call whose request is lost has no effect; one whose reply is lost has had
// it. Both are Unavailable, say what was called, and leave nothing open behind them.
func TestLostCalls(t *testing.T) {
	const way = time.Second // there, and back
	for name, tt := range lostCalls() {
		for lost, after := range map[string]time.Duration{"request": way / 2, "reply": way + way/2} {
			t.Run(name+"/"+lost, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := sim.New(sim.Config{Latency: sim.Latency{API: 2 * way}, Images: []string{"busybox", "spare"}, Record: true})
					b := r.Backend()
					must(t, b.Pods.Launch(t.Context(), t.Context(), spec("u", 0)))
					must(t, b.Files.Place(t.Context(), volumeOf("v", nil)))
					for _, c := range []backend.ContainerSpec{container("c", "serve", "80"), container("dead", "true")} {
						must(t, b.Containers.Start(t.Context(), backend.Ref{UID: "u"}, c))
					}
					ctx, cancel := context.WithCancel(t.Context())
					skip := time.Duration(0)
					if name == "Store.Remove" {
						skip = 2 * way // it lists first
					}
					time.AfterFunc(skip+after, cancel)
					err := tt.do(ctx, b)
					wantClass(t, err, "Unavailable")
					if err != nil && !strings.Contains(err.Error(), "context canceled") {
						t.Errorf("it does not say why: %v", err)
					}
					if tt.effect != nil {
						if got := tt.effect(t, r, b); got != (lost == "reply") {
							t.Errorf("with its %s lost: effect %v", lost, got)
						}
					}
				})
			})
		}
	}
}

// TestSandboxKilled: its containers go on and still count, the pod is not ready for others, and
// only what is the remote's to kill is.
func TestSandboxKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r, b := running(t, sim.Config{Record: true, Latency: sim.Latency{Launch: time.Second}}, "sleep", "10")
		if r.KillSandbox("none") || !r.KillSandbox("u") || r.KillSandbox("u") {
			t.Error("a sandbox is killed once, if it is there")
		}
		f := r.Facts()[0]
		if !f.Live || f.Reason != backend.SandboxNotReady || len(f.IPs) != 0 || f.Containers[0].State() != backend.Running {
			t.Errorf("killed: %+v", f)
		}
		wantClass(t, b.Containers.Start(ctx, f.Ref, container("late", "true")), "NotFound")
		time.Sleep(10 * time.Second)
		if f := r.Facts()[0]; f.Live || f.Containers[0].State() != backend.Exited {
			t.Errorf("when all has ended: %+v", f)
		}
		go func() { _ = b.Pods.Launch(ctx, ctx, spec("slow", 0)) }()
		synctest.Wait()
		if r.KillSandbox("slow") {
			t.Error("a sandbox was killed before it was there")
		}
		time.Sleep(time.Second)
		var kinds []sim.Kind
		for _, e := range r.History() {
			kinds = append(kinds, e.Kind)
		}
		if diff := cmp.Diff([]sim.Kind{sim.Launched, sim.Started, sim.SandboxKilled, sim.Launched}, kinds); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		task, _ := running(t, sim.Config{PodUnit: true}, "serve")
		if task.KillSandbox("u") {
			t.Error("a task has no sandbox of its own")
		}
	})
}

// TestHostShutsDown: who waits holds the host back until the shutdown begins, or they give up;
// and hears when it is called off.
func TestHostShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{})
		b := r.Backend()
		heard := make(chan bool)
		await := func(ctx context.Context, was bool) {
			is, err := b.Shutdown.Await(ctx, was)
			if ctx.Err() == nil && err != nil {
				t.Error(err)
			}
			heard <- is
		}
		if r.ShutdownDelayed() {
			t.Error("held back by nobody")
		}
		go await(t.Context(), false)
		synctest.Wait()
		if !r.ShutdownDelayed() {
			t.Error("nobody holds the host back")
		}
		r.ShutDown(false) // nothing new
		synctest.Wait()
		r.ShutDown(true)
		if !<-heard {
			t.Error("it did not hear of the shutdown")
		}
		go await(t.Context(), true)
		synctest.Wait()
		if r.ShutdownDelayed() {
			t.Error("the host is held back while it shuts down")
		}
		r.ShutDown(false)
		if <-heard {
			t.Error("it did not hear that the shutdown was called off")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go await(ctx, false)
		synctest.Wait()
		cancel()
		if <-heard || r.ShutdownDelayed() {
			t.Error("who gave up holds the host back")
		}
	})
}

// TestWhatASimulatedPodNeeds: refusals of what can never be, and of what is not there yet.
func TestWhatASimulatedPodNeeds(t *testing.T) {
	ctx := t.Context()
	r := sim.New(sim.Config{Images: []string{"busybox"}})
	b := r.Backend()
	ref := backend.Ref{UID: "u"}
	must(t, b.Pods.Launch(ctx, ctx, spec("u", 0)))
	must(t, b.Containers.Start(ctx, ref, container("c", "serve")))
	other := container("other", "true")
	other.Container.Image = "other"
	expanded := withMounts(container("x", "true"), corev1.VolumeMount{Name: "v", MountPath: "/v", SubPathExpr: "$(A)"})
	negative := container("n", "true")
	negative.Attempt = -1
	renamed := spec("u", 0)
	renamed.Pod.Name = "another"
	c := backend.ContainerRef{Pod: ref, Name: "c"}
	for name, tt := range map[string]struct {
		err         error
		class, says string
	}{
		"no name":    {b.Containers.Start(ctx, ref, container("")), "Invalid", "a name and an attempt are required"},
		"no attempt": {b.Containers.Start(ctx, ref, negative), "Invalid", "a name and an attempt are required"},
		"no pod":     {b.Containers.Start(ctx, backend.Ref{UID: "none"}, container("c")), "NotFound", "no sandbox"},
		"no image":   {b.Containers.Start(ctx, ref, other), "Transient", `image "other" is not on the remote`},
		"a path to expand": {
			b.Containers.Start(ctx, ref, expanded), "Invalid", `subPathExpr of the mount at "/v" is not expanded`,
		},
		"remove while it is": {b.Containers.Remove(ctx, c), "Transient", "it has not ended"},
		"another's place":    {b.Pods.Launch(ctx, ctx, renamed), "Exists", "another pod's"},
		"a bad image":        {only(b.Images.Pull(ctx, "Bad", nil)), "Invalid", "not a valid image name"},
		"a port of none":     {only(b.Dial.Dial(ctx, ref, "10.88.0.1:x")), "Invalid", "dial 10.88.0.1:x"},
		"a port too high":    {only(b.Dial.Dial(ctx, ref, "10.88.0.1:65536")), "Invalid", "out of range"},
		"a volume of nobody": {b.Files.Place(ctx, backend.VolumeSpec{Name: "v"}), "Invalid", "a pod with a UID is required"},
		"an image of none":   {b.Store.Remove(ctx, "none"), "NotFound", "not on the remote"},
		"no such container": {
			b.Containers.Stop(ctx, backend.ContainerRef{Pod: ref, Name: "d"}, 0), "NotFound", "stop container u/d",
		},
		"of another attempt": {
			b.Containers.Stop(ctx, backend.ContainerRef{Pod: ref, Name: "c", Attempt: 1}, 0), "NotFound", "attempt 1",
		},
	} {
		if tt.err == nil || backend.Class(tt.err) != tt.class || !strings.Contains(tt.err.Error(), tt.says) {
			t.Errorf("%s: %q (%v), want %q, %q", name, backend.Class(tt.err), tt.err, tt.class, tt.says)
		}
	}
	if f := r.Facts(); len(f) != 1 || len(f[0].Containers) != 1 || !f[0].Live {
		t.Errorf("refusals had an effect: %+v", f)
	}
}
