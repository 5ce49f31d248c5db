package cri

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

type (
	execRequest = runtimeapi.ExecSyncRequest
	execReply   = runtimeapi.ExecSyncResponse
)

func TestExec(t *testing.T) {
	var asked *execRequest
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(_ context.Context, r *execRequest) (*execReply, error) {
			asked = r
			return &execReply{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 3}, nil
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	var out, stderr bytes.Buffer
	code, err := r.sessions.Exec(
		t.Context(), c, backend.ExecSpec{Command: []string{"a", "b c"}, Stdout: &out, Stderr: &stderr},
	)
	if err != nil || code != 3 || out.String() != "out" || stderr.String() != "err" {
		t.Errorf("%d, %v, %q, %q", code, err, &out, &stderr)
	}
	if strings.Join(asked.GetCmd(), "|") != "a|b c" || asked.GetTimeout() != 0 {
		t.Errorf("asked for %v", asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	_, err = r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"a"}})
	deadline, _ := ctx.Deadline()
	if got := asked.GetTimeout(); err != nil || got > 90 || got < int64(time.Until(deadline).Seconds()) || got < 1 {
		t.Errorf("%v, asked for %v", err, asked)
	}
	_, err = r.sessions.Exec(t.Context(), c, backend.ExecSpec{})
	wantClass(t, err, backend.ErrInvalid)
	broken := &net.OpError{Op: "write", Err: net.ErrClosed}
	if _, err := r.sessions.Exec(
		t.Context(), c, backend.ExecSpec{Command: []string{"a"}, Stdout: failingWriter{broken}},
	); !errors.Is(err, net.ErrClosed) {
		t.Errorf("output that cannot be passed on: %v", err)
	}
}

// countingHost counts what the replies to calls carry.
type countingHost struct {
	host.Host
	replies atomic.Int64
}

func (h *countingHost) Call(ctx context.Context, c host.Call) ([]byte, error) {
	reply, err := h.Host.Call(ctx, c)
	h.replies.Add(int64(len(reply)))
	return reply, err
}

// What nobody wants of a probe's output does not leave the host, and the command ends
// with who asked for it.
func TestOutputIsCutOnTheHost(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(ctx context.Context, r *execRequest) (*execReply, error) {
			if r.GetCmd()[0] == "hang" {
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			}
			return &execReply{
				Stdout: bytes.Repeat([]byte("o"), 8<<20), Stderr: bytes.Repeat([]byte("e"), 4<<20), ExitCode: 3,
			}, nil
		}
	})
	counting := &countingHost{Host: w.host}
	w.host = counting
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	before := counting.replies.Load()
	var out, stderr bytes.Buffer
	code, err := r.sessions.Exec(
		t.Context(), c, backend.ExecSpec{Command: []string{"a"}, Stdout: &out, Stderr: &stderr, MaxOutput: 1000},
	)
	if err != nil || code != 3 || out.String() != strings.Repeat("o", 1000) ||
		stderr.String() != strings.Repeat("e", 1000) {
		t.Errorf("%d, %v, %d and %d bytes", code, err, out.Len(), stderr.Len())
	}
	if n := counting.replies.Load() - before; n == 0 || n > 3000 {
		t.Errorf("the reply has %d bytes", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"hang"}, MaxOutput: 1000})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that takes longer: %v", err)
	}
	<-ended
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// A command may take longer than the runtime may for anything else.
func TestExecIsNotBounded(t *testing.T) {
	var bounded bool
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(ctx context.Context, _ *execRequest) (*execReply, error) {
			_, bounded = ctx.Deadline()
			return &execReply{}, nil
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	if _, err := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"a"}}); err != nil || bounded {
		t.Errorf("%v, bounded: %v", err, bounded)
	}
}

// The runtime measures a command's own time: what the call takes beyond it does not count.
func TestExecTimeoutIsTheRuntimes(t *testing.T) {
	var given int64
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(ctx context.Context, r *execRequest) (*execReply, error) {
			given = r.GetTimeout()
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Minute {
				t.Errorf("the call ends in %v", time.Until(deadline))
			}
			return &execReply{}, nil
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	spec := backend.ExecSpec{Command: []string{"a"}, Timeout: 1500 * time.Millisecond}
	if _, err := r.sessions.Exec(ctx, c, spec); err != nil || given != 2 {
		t.Errorf("%v, timeout of %d s, want 2", err, given)
	}
}

// departingHost makes calls until it is away.
type departingHost struct {
	host.Host
	away atomic.Bool
}

func (h *departingHost) Call(ctx context.Context, c host.Call) ([]byte, error) {
	if h.away.Load() {
		return awayHost{}.Call(ctx, c)
	}
	return h.Host.Call(ctx, c)
}

// awayHost is a host whose helper is not started yet.
type awayHost struct{ host.Host }

func (awayHost) Call(ctx context.Context, _ host.Call) ([]byte, error) {
	<-ctx.Done()
	return nil, backend.Errorf(backend.ErrUnavailable, "the helper is not running yet")
}

// A call that waited for the helper until its end says so: the command never ran.
func TestExecThatNeverReachedTheRuntime(t *testing.T) {
	w := newWorld(t)
	departing := &departingHost{Host: w.host}
	w.host = departing
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	departing.away.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"a"}, MaxOutput: 10, Timeout: time.Millisecond})
	if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestExecErrors(t *testing.T) {
	const runc = "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: unable to " +
		"start container process: "
	for name, tt := range map[string]struct {
		answer error
		want   error
	}{
		"not in the image": {
			errors.New(runc + `exec: "x": executable file not found in $PATH: unknown`), backend.ErrInvalid,
		},
		"no such file": {
			errors.New(runc + `exec: "/x": stat /x: no such file or directory: unknown`), backend.ErrInvalid,
		},
		"not executable":         {errors.New(runc + `exec: "/x": permission denied: unknown`), backend.ErrInvalid},
		"no room for a process":  {errors.New(runc + "resource temporarily unavailable"), nil},
		"a file of the runtime":  {errors.New("failed to open fifo: no such file or directory"), nil},
		"gone in the meantime":   {status.Error(codes.NotFound, "no such container"), backend.ErrNotFound},
		"the runtime went away":  {status.Error(codes.Unavailable, "closing"), backend.ErrUnavailable},
		"ended by the runtime":   {status.Error(codes.DeadlineExceeded, "timeout 1s exceeded"), context.DeadlineExceeded},
		"too much of its output": {status.Error(codes.ResourceExhausted, "larger than max"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.Commands = func(context.Context, *execRequest) (*execReply, error) { return nil, tt.answer }
			})
			r, _ := w.connect(t)
			c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
			_, err := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"x"}})
			if err == nil || (tt.want != nil && !errors.Is(err, tt.want)) ||
				(backend.Class(tt.want) == "" && backend.Class(err) != "Transient") {
				t.Errorf("%s: %v, want %v", backend.Class(err), err, tt.want)
			}
			if errors.Is(tt.want, context.DeadlineExceeded) && backend.Class(err) != "Transient" {
				t.Errorf("class %s, want none", backend.Class(err))
			}
		})
	}
}

// The runtime's clock is ahead of ours: it ended the command, and the look at the
// container after that, before our own deadline.
func TestExecThatTheRuntimeEndedFirst(t *testing.T) {
	var over atomic.Bool
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(context.Context, *execRequest) (*execReply, error) {
			over.Store(true)
			return nil, errors.New("failed to exec in container: failed to kill exec: context deadline exceeded: unknown")
		}
		s.Before = func(_ context.Context, method string, _ any) error {
			if method == "ContainerStatus" && over.Load() {
				return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
			}
			return nil
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for want, ctx := range map[bool]context.Context{true: ctx, false: t.Context()} {
		_, err := r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"x"}})
		if err == nil || errors.Is(err, context.DeadlineExceeded) != want {
			t.Errorf("got %v, want the deadline: %t", err, want)
		}
	}
}

func TestExecWhereNothingRuns(t *testing.T) {
	w := newWorld(t)
	r, stop := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	run := func(c backend.ContainerRef) error {
		_, err := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"a"}})
		return err
	}
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 0, "Completed")
	wantClass(t, run(c), backend.ErrNotFound)
	c.ID = id
	wantClass(t, run(c), backend.ErrNotFound)
	c.ID, c.Name = "", "other"
	wantClass(t, run(c), backend.ErrNotFound)
	stop()
	wantClass(t, run(c), backend.ErrUnavailable)
}

func TestExecEndsWithItsContext(t *testing.T) {
	begun, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(ctx context.Context, _ *execRequest) (*execReply, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	run := func(ctx context.Context, want error) {
		_, err := r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"sleep", "1000"}})
		if !errors.Is(err, want) || backend.Class(err) != "Transient" {
			t.Errorf("%s: %v", backend.Class(err), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	run(ctx, context.Canceled)
	<-ended
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	run(ctx, context.DeadlineExceeded) // which may not have begun
}

// The runtime may see the end of a call first, and say so in its words: that the
// command did not start. Whoever is asked about the container then has no time left.
func TestExecThatEndsBeforeItsCommandStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := false
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(context.Context, *execRequest) (*execReply, error) {
			asked = true
			return nil, errors.New("failed to start exec: context deadline exceeded: unknown")
		}
		s.Before = func(call context.Context, method string, _ any) error {
			if asked && method == "ContainerStatus" {
				cancel()
				<-call.Done()
			}
			return nil
		}
	})
	r, _ := w.connect(t)
	c := backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
	_, err := r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"sleep", "1000"}})
	if !errors.Is(err, context.Canceled) || backend.Class(err) != "Transient" {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
}

func TestDial(t *testing.T) {
	w := newWorld(t)
	r, stop := w.connect(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	conn, err := dialer{r}.Dial(t.Context(), backend.Ref{}, address)
	must(t, err)
	must(t, conn.Close())
	must(t, listener.Close())
	const closed = "127.0.0.1:1" // the kernel gives it to nobody
	_, err = dialer{r}.Dial(t.Context(), backend.Ref{}, closed)
	if backend.Class(err) != "Transient" || err.Error() != "dial tcp "+closed+": connect: connection refused" {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (dialer{r}).Dial(ctx, backend.Ref{}, address); !errors.Is(err, context.Canceled) ||
		backend.Class(err) != "Transient" {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
	stop()
	_, err = dialer{r}.Dial(t.Context(), backend.Ref{}, address)
	wantClass(t, err, backend.ErrUnavailable)
}

// An ephemeral container joins its target's process namespace, where the pod's
// containers have one each.
func TestTarget(t *testing.T) {
	start := func(
		pod func(*fakecri.Server) *runtimeapi.ContainerConfig, target string, shared bool,
	) (*runtimeapi.ContainerConfig, error) {
		w := newWorld(t)
		r, _ := w.connect(t)
		p := testPod("u1")
		p.Spec.ShareProcessNamespace = &shared
		ref := runPod(t, r, p, "main")
		spec := containerSpec(p, "debug", 0)
		spec.Target = target
		if err := (containers{r}).Start(t.Context(), ref, spec); err != nil {
			return nil, err
		}
		return pod(w.fake), nil
	}
	var main string
	config := func(s *fakecri.Server) *runtimeapi.ContainerConfig {
		main, _ = s.Container("main")
		_, c := s.Container("debug")
		return c
	}
	for _, tt := range []struct {
		target string
		shared bool
		pid    runtimeapi.NamespaceMode
	}{
		{"", false, runtimeapi.NamespaceMode_CONTAINER},
		{"main", false, runtimeapi.NamespaceMode_TARGET},
		{"main", true, runtimeapi.NamespaceMode_POD},
	} {
		c, err := start(config, tt.target, tt.shared)
		must(t, err)
		n := c.GetLinux().GetSecurityContext().GetNamespaceOptions()
		if joins := tt.pid == runtimeapi.NamespaceMode_TARGET; n.GetPid() != tt.pid || (n.GetTargetId() == main) != joins {
			t.Errorf("%+v: %v, target is %s", tt, n, main)
		}
	}
	if _, err := start(config, "none", false); err == nil ||
		!strings.Contains(err.Error(), "unable to find target container none") {
		t.Errorf("no such target: %v", err)
	}
}
