package fault_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func spec(uid types.UID) backend.LaunchSpec {
	return backend.LaunchSpec{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid)}}}
}

func wantClass(t *testing.T, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Errorf("class %q (%v), want %q", got, err, want)
	}
}

func TestNilStaysNil(t *testing.T) {
	w := fault.Wrap(backend.Backend{Name: "none"}, &fault.Script{})
	if w.Pods != nil || w.Containers != nil || w.Images != nil || w.Events != nil || w.Logs != nil ||
		w.Files != nil || w.Exec != nil || w.Dial != nil || w.Node != nil || w.Check != nil || w.Run != nil ||
		w.Name != "none" {
		t.Errorf("fields appeared: %+v", w)
	}
}

// TestEveryMethod shows for each method that an error keeps the call from being
// made, that a lost reply is Unavailable, that a delay outlives the context, and
// that all are spent after a time.
func TestEveryMethod(t *testing.T) {
	ref := backend.Ref{UID: "u"}
	c := backend.ContainerRef{Pod: ref, Name: "c"}
	container := backend.ContainerSpec{
		Pod: spec("u").Pod, Container: corev1.Container{Name: "c", Image: "busybox"},
	}
	calls := map[fault.Method]func(backend.Backend, context.Context) error{
		fault.PodsLaunch: func(b backend.Backend, ctx context.Context) error { return b.Pods.Launch(ctx, ctx, spec("u")) },
		fault.PodsStop:   func(b backend.Backend, ctx context.Context) error { return b.Pods.Stop(ctx, ref, 0) },
		fault.PodsRemove: func(b backend.Backend, ctx context.Context) error { return b.Pods.Remove(ctx, ref) },
		fault.PodsList:   func(b backend.Backend, ctx context.Context) error { _, err := b.Pods.List(ctx); return err },
		fault.PodsInspect: func(
			b backend.Backend, ctx context.Context,
		) error {
			_, err := b.Pods.Inspect(ctx, nil)
			return err
		},
		fault.ContainersStart: func(b backend.Backend, ctx context.Context) error {
			return b.Containers.Start(ctx, ref, container)
		},
		fault.ContainersStop:   func(b backend.Backend, ctx context.Context) error { return b.Containers.Stop(ctx, c, 0) },
		fault.ContainersRemove: func(b backend.Backend, ctx context.Context) error { return b.Containers.Remove(ctx, c) },
		fault.FilesPlace: func(b backend.Backend, ctx context.Context) error {
			return b.Files.Place(ctx, backend.VolumeSpec{Pod: spec("u").Pod, Name: "v"})
		},
		fault.FilesClear:   func(b backend.Backend, ctx context.Context) error { return b.Files.Clear(ctx, ref) },
		fault.FilesVolumes: func(b backend.Backend, ctx context.Context) error { _, err := b.Files.Volumes(ctx); return err },
		fault.FilesRead: func(b backend.Backend, ctx context.Context) error {
			_, err := b.Files.Read(ctx, backend.VolumeFile{})
			return err
		},
		fault.ExecExec: func(b backend.Backend, ctx context.Context) error {
			_, err := b.Exec.Exec(ctx, c, backend.ExecSpec{Command: []string{"true"}})
			return err
		},
		fault.DialDial: func(b backend.Backend, ctx context.Context) error {
			conn, err := b.Dial.Dial(ctx, ref, "localhost:80")
			if err == nil {
				err = errors.Join(conn.Close())
			}
			return err
		},
		fault.ImagesFind: func(b backend.Backend, ctx context.Context) error {
			_, err := b.Images.Find(ctx, "busybox")
			return err
		},
		fault.ImagesPull: func(b backend.Backend, ctx context.Context) error {
			_, err := b.Images.Pull(ctx, "busybox", nil)
			return err
		},
		fault.NodeDescribe: func(b backend.Backend, ctx context.Context) error { _, err := b.Node.Describe(ctx); return err },
		fault.EventsRun: func(b backend.Backend, ctx context.Context) error {
			return b.Events.Run(ctx, make(chan types.UID))
		},
		fault.LogsOpen: func(b backend.Backend, ctx context.Context) error {
			stream, err := b.Logs.Open(ctx, c, backend.LogOptions{})
			if err == nil {
				err = errors.Join(stream.Close())
			}
			return err
		},
	}
	for m, call := range calls {
		t.Run(string(m), func(t *testing.T) {
			var s fault.Script
			var inner counter
			b := fault.Wrap(inner.backend(), &s)
			s.Fail(m, 2, backend.Errorf(backend.ErrDenied, "injected"))
			s.Add(m, 1, fault.Fault{LoseReply: true})
			lost := 2
			for i, want := range []struct {
				class string
				calls int
			}{{"Denied", 0}, {"Denied", 0}, {"Unavailable", 1}, {"", 2}} {
				err := call(b, t.Context())
				wantClass(t, err, want.class)
				if errors.Is(err, fault.ErrInjected) != (i == lost) {
					t.Errorf("call %d: %v: what the script made itself is marked, and nothing else", i, err)
				}
				if inner.calls != want.calls {
					t.Errorf("call %d: %d calls went through, want %d", i, inner.calls, want.calls)
				}
			}
			if n := s.Calls(m); n != 4 {
				t.Errorf("counted %d calls, want 4", n)
			}
			s.Add(m, 1, fault.Fault{Delay: time.Hour})
			s.Add(m, 1, fault.Fault{ReplyDelay: time.Hour})
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			for want := 2; want <= 3; want++ {
				wantClass(t, call(b, short), "Unavailable")
				if inner.calls != want {
					t.Errorf("delayed before, then after: %d calls went through, want %d", inner.calls, want)
				}
			}
			if inner.open != 0 {
				t.Errorf("%d streams were left open", inner.open)
			}
		})
	}
}

// counter is a backend on which everything succeeds.
type counter struct{ calls, open int }

func (c *counter) backend() backend.Backend {
	return backend.Backend{
		Pods: countPods{c}, Containers: countContainers{c}, Images: countImages{c},
		Events: countEvents{c}, Logs: countLogs{c}, Node: countNode{c},
		Files: countFiles{c}, Exec: countExec{c}, Dial: countDial{c},
	}
}

func (c *counter) hit() error { c.calls++; return nil }

type (
	countPods       struct{ c *counter }
	countContainers struct{ c *counter }
	countImages     struct{ c *counter }
	countEvents     struct{ c *counter }
	countLogs       struct{ c *counter }
	countNode       struct{ c *counter }
	countFiles      struct{ c *counter }
	countExec       struct{ c *counter }
	countDial       struct{ c *counter }
	countStream     struct{ c *counter }
	countConn       struct {
		net.Conn
		c *counter
	}
)

func (f countFiles) Place(context.Context, backend.VolumeSpec) error { return f.c.hit() }
func (f countFiles) Clear(context.Context, backend.Ref) error        { return f.c.hit() }
func (f countFiles) Volumes(context.Context) ([]backend.VolumeFacts, error) {
	return nil, f.c.hit()
}

func (f countFiles) Read(context.Context, backend.VolumeFile) ([]byte, error) { return nil, f.c.hit() }

func (e countExec) Exec(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error) {
	return 0, e.c.hit()
}

func (d countDial) Dial(context.Context, backend.Ref, string) (net.Conn, error) {
	d.c.open++
	return countConn{c: d.c}, d.c.hit()
}
func (s countConn) Close() error { s.c.open--; return nil }

func (p countPods) Launch(context.Context, context.Context, backend.LaunchSpec) error {
	return p.c.hit()
}

func (p countPods) Stop(context.Context, backend.Ref, time.Duration) error {
	return p.c.hit()
}

func (p countPods) Remove(context.Context, backend.Ref) error                { return p.c.hit() }
func (p countPods) List(context.Context) ([]backend.PodFacts, error)         { return nil, p.c.hit() }
func (p countContainers) Remove(context.Context, backend.ContainerRef) error { return p.c.hit() }
func (p countImages) Find(context.Context, string) (string, error)           { return "id", p.c.hit() }
func (p countEvents) Run(context.Context, chan<- types.UID) error            { return p.c.hit() }
func (p countNode) Describe(context.Context) (backend.NodeFacts, error) {
	return backend.NodeFacts{}, p.c.hit()
}

func (p countPods) Inspect(context.Context, []types.UID) ([]backend.PodFacts, error) {
	return nil, p.c.hit()
}

func (p countContainers) Start(context.Context, backend.Ref, backend.ContainerSpec) error {
	return p.c.hit()
}

func (p countContainers) Stop(context.Context, backend.ContainerRef, time.Duration) error {
	return p.c.hit()
}

func (p countImages) Pull(context.Context, string, []backend.Credential) (backend.PulledImage, error) {
	return backend.PulledImage{ID: "id"}, p.c.hit()
}

func (p countLogs) Open(context.Context, backend.ContainerRef, backend.LogOptions) (io.ReadCloser, error) {
	p.c.open++
	return countStream(p), p.c.hit()
}
func (s countStream) Read([]byte) (int, error) { return 0, io.EOF }
func (s countStream) Close() error             { s.c.open--; return nil }

func TestListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := sim.New(sim.Config{})
		var s fault.Script
		b := fault.Wrap(r.Backend(), &s)
		for _, uid := range []types.UID{"a", "b", "c"} {
			if err := b.Pods.Launch(ctx, ctx, spec(uid)); err != nil {
				t.Fatal(err)
			}
		}
		s.Add(fault.PodsList, 1, fault.Fault{Partial: true})
		facts, err := b.Pods.List(ctx)
		wantClass(t, err, "Unavailable")
		if len(facts) != 2 || !errors.Is(err, fault.ErrInjected) {
			t.Errorf("a partial listing has %d of 3 pods", len(facts))
		}

		if facts, err = b.Pods.List(ctx); err != nil || len(facts) != 3 {
			t.Fatalf("%d pods, %v", len(facts), err)
		}
		r.Vanish("a")
		s.Add(fault.PodsList, 1, fault.Fault{Stale: true})
		if facts, err = b.Pods.List(ctx); err != nil || len(facts) != 3 {
			t.Errorf("a stale listing has %d pods, %v", len(facts), err)
		}
		s.Add(fault.PodsInspect, 2, fault.Fault{Stale: true})
		if facts, err = b.Pods.Inspect(ctx, []types.UID{"a"}); err != nil || len(facts) != 1 {
			t.Errorf("a stale inspection has %d pods, %v", len(facts), err)
		}
		if facts, err = b.Pods.Inspect(ctx, nil); err != nil || len(facts) != 0 {
			t.Errorf("a stale inspection of nothing has %d pods, %v", len(facts), err)
		}
		if facts, err = b.Pods.List(ctx); err != nil || len(facts) != 2 {
			t.Errorf("afterwards %d pods, %v", len(facts), err)
		}
	})
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{})
		var s fault.Script
		b := fault.Wrap(r.Backend(), &s)
		begun := time.Now()

		s.Add(fault.PodsLaunch, 1, fault.Fault{Delay: time.Minute})
		if err := b.Pods.Launch(t.Context(), t.Context(), spec("a")); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("delayed launch: %v after %v", err, time.Since(begun))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Add(fault.PodsLaunch, 1, fault.Fault{Delay: time.Minute})
		wantClass(t, b.Pods.Launch(short, short, spec("b")), "Unavailable")
		if n := len(r.Facts()); n != 1 {
			t.Errorf("%d pods: a call that ended on its way had an effect", n)
		}
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Add(fault.PodsLaunch, 1, fault.Fault{ReplyDelay: time.Minute})
		wantClass(t, b.Pods.Launch(short, short, spec("b")), "Unavailable")
		if n := len(r.Facts()); n != 2 {
			t.Errorf("%d pods: a call whose reply is late had no effect", n)
		}

		s.Add(fault.PodsList, 1, fault.Fault{ReplyDelay: time.Minute})
		time.AfterFunc(time.Second, func() { r.Vanish("a") })
		if facts, err := b.Pods.List(t.Context()); err != nil || len(facts) != 2 {
			t.Errorf("a late answer is of its time: %d pods, %v", len(facts), err)
		}
	})
}

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{})
		var s fault.Script
		b := fault.Wrap(r.Backend(), &s)
		ctx, cancel := context.WithCancel(t.Context())
		hints := make(chan types.UID, 10)
		ended := make(chan error, 1)
		run := func() { ended <- b.Events.Run(ctx, hints) }
		go run()
		synctest.Wait()
		s.Add(fault.Hint, 1, fault.Fault{Drop: true})
		s.Add(fault.Hint, 1, fault.Fault{Repeat: 2})
		for i, want := range []int{0, 3, 1} {
			if err := b.Pods.Launch(ctx, ctx, spec(types.UID('a'+rune(i)))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(hints) != want {
				t.Errorf("launch %d: %d hints, want %d", i, len(hints), want)
			}
			for len(hints) > 0 {
				<-hints
			}
		}

		s.Fail(fault.Hint, 1, backend.Errorf(backend.ErrUnavailable, "the stream broke"))
		r.Vanish("a")
		wantClass(t, <-ended, "Unavailable")
		go run()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestDecide(t *testing.T) {
	var seen []fault.Call
	s := fault.Script{Decide: func(c fault.Call) fault.Fault {
		seen = append(seen, c)
		if c.N == 1 {
			return fault.Fault{Err: backend.ErrThrottled}
		}
		return fault.Fault{}
	}}
	var inner counter
	b := fault.Wrap(inner.backend(), &s)
	s.Fail(fault.PodsStop, 1, backend.ErrDenied)
	s.Fail(fault.PodsLaunch, 1, backend.ErrDenied)
	s.Clear()
	ref := backend.Ref{UID: "u"}
	for _, want := range []string{"", "Throttled", ""} {
		wantClass(t, b.Pods.Stop(t.Context(), ref, 0), want)
	}
	if len(seen) != 3 || seen[2] != (fault.Call{Method: fault.PodsStop, N: 2, UID: "u"}) {
		t.Errorf("asked about %+v", seen)
	}
}
