package simrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// runUntilReady is run in real time.
func runUntilReady(t testing.TB, b backend.Backend) {
	t.Helper()
	background.Run(t, b.RunFreely)
	wait.For(t, patience, "the server answers", func() error {
		_, err := b.Node.Describe(t.Context())
		return err
	})
}

// patience bounds what ought to happen at once, on a machine with other work.
const patience = 3 * time.Minute

// TestRunIsTheConnection: calls work while Run runs, and never else.
func TestRunIsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve(t, (&far{}).backend).connect("node")
		_, err := b.Pods.List(t.Context())
		wantClass(t, err, "Unavailable")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.RunFreely(ctx) }()
		synctest.Wait()
		_, err = b.Pods.List(t.Context())
		wantClass(t, err, "")
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		_, err = b.Pods.List(t.Context())
		wantClass(t, err, "Unavailable")
	})
}

// TestContextsEndCalls: the end of the caller's context ends the call at both
// sides, and is the reason.
func TestContextsEndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		block := func(ctx context.Context) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
		f := &far{
			list: block,
			exec: func(ctx context.Context, _ backend.ExecSpec) (int32, error) { return 0, block(ctx) },
			dial: func(ctx context.Context, _ string) (net.Conn, error) { return nil, block(ctx) },
			logs: func(ctx context.Context) (io.ReadCloser, error) { return nil, block(ctx) },
			hint: func(ctx context.Context, _ chan<- types.UID) error { return block(ctx) },
		}
		b := serve(t, f.backend).running("node")
		for name, tt := range map[string]struct {
			call  func(context.Context) error
			class string
		}{
			"list": {func(ctx context.Context) error { _, err := b.Pods.List(ctx); return err }, "Unavailable"},
			"exec": {func(ctx context.Context) error {
				_, err := b.Exec.Exec(ctx, backend.ContainerRef{}, backend.ExecSpec{Stdin: strings.NewReader("x")})
				return err
			}, "Transient"},
			"dial": {
				func(ctx context.Context) error { _, err := b.Dial.Dial(ctx, backend.Ref{}, "h:1"); return err }, "Transient",
			},
			"logs": {func(ctx context.Context) error {
				_, err := b.Logs.Open(ctx, backend.ContainerRef{}, backend.LogOptions{})
				return err
			}, "Unavailable"},
			"events": {func(ctx context.Context) error { return b.Events.Run(ctx, nil) }, "Unavailable"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			begun := time.Now()
			err := tt.call(ctx)
			cancel()
			if took := time.Since(begun); took != time.Hour {
				t.Errorf("%s: ended after %v", name, took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || backend.Class(err) != tt.class {
				t.Errorf("%s: %s: %v", name, backend.Class(err), err)
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: it did not end on the server", name)
			}
		}
	})
}

// TestServerGoneMidCall: whatever is under way ends as Unavailable, and when the
// server is back the same backend goes on with what the remote kept.
func TestServerGoneMidCall(t *testing.T) {
	path := socket(t)
	inCall := make(chan struct{}, 10)
	waits := func(ctx context.Context) error {
		inCall <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	f := &far{
		list: waits,
		exec: func(ctx context.Context, _ backend.ExecSpec) (int32, error) { return 0, waits(ctx) },
		hint: func(ctx context.Context, _ chan<- types.UID) error { return waits(ctx) },
		logs: func(ctx context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
			inCall <- struct{}{}
			return r, nil
		},
	}
	stop := serveSocket(t, path, f.backend)
	b := connectSocket(t, path)
	runUntilReady(t, b)
	ctx := t.Context()
	errs := make(chan error, 4)
	go func() { _, err := b.Pods.List(ctx); errs <- err }()
	go func() { _, err := b.Exec.Exec(ctx, backend.ContainerRef{}, backend.ExecSpec{}); errs <- err }()
	go func() { errs <- b.Events.Run(ctx, make(chan types.UID)) }()
	go func() {
		stream, err := b.Logs.Open(ctx, backend.ContainerRef{}, backend.LogOptions{Follow: true})
		if err == nil {
			_, err = io.ReadAll(stream)
			_ = stream.Close()
		}
		errs <- err
	}()
	for range cap(errs) {
		<-inCall
	}
	stop()
	for range cap(errs) {
		wantClass(t, <-errs, "Unavailable")
	}
	_, err := b.Node.Describe(ctx)
	wantClass(t, err, "Unavailable")

	f.list = nil
	serveSocket(t, path, f.backend)
	wait.For(t, patience, "the client reconnects", func() error { _, err := b.Pods.List(ctx); return err })
}

// TestRepliesAreLost: a connection that is cut after the call had its effect is
// Unavailable, and the call is not made again behind the engine's back.
func TestRepliesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := sim.New(sim.Config{Record: true})
		w := serve(t, remote.BackendFor)
		var cut func()
		b, err := Connect(
			t.Context(),
			Config{Node: "node", Check: takesAll, May: backend.Always, dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := w.pipes.dial(ctx)
				if err == nil && cut != nil {
					conn = &cutConn{Conn: conn}
				}
				return conn, err
			}},
		)
		if err != nil {
			t.Fatal(err)
		}
		run(t, b)
		cut = func() {}
		spec := backend.LaunchSpec{Pod: aPod()}
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Unavailable")
		synctest.Wait()
		if n := remote.Audit().Launches["u"]; n != 1 {
			t.Errorf("%d launches", n)
		}
		cut = nil
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "")
		if a := remote.Audit(); a.Launches["u"] != 1 || len(a.Violations) > 0 {
			t.Errorf("after the replay: %+v", a)
		}
	})
}

// cutConn loses the first thing that the server says.
type cutConn struct{ net.Conn }

func (c *cutConn) Read(p []byte) (int, error) {
	if _, err := c.Conn.Read(p); err != nil {
		return 0, err
	}
	return 0, errors.Join(io.ErrUnexpectedEOF, c.Conn.Close())
}

// TestClientGoneMidCall: the server ends the calls of a client that is gone, and
// serves the next.
func TestClientGoneMidCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		f := &far{list: func(ctx context.Context) error {
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}}
		w := serve(t, f.backend)
		var conns []net.Conn
		b, err := Connect(t.Context(), Config{Check: takesAll, dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := w.pipes.dial(ctx)
			conns = append(conns, conn)
			return conn, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, b)
		failed := make(chan error, 1)
		go func() { _, err := b.Pods.List(t.Context()); failed <- err }()
		synctest.Wait()
		_ = conns[len(conns)-1].Close()
		wantClass(t, <-failed, "Unavailable")
		<-ended
		f.list = nil
		_, err = w.running("node").Pods.List(t.Context())
		wantClass(t, err, "")
	})
}

// TestAnotherServerComesBack: an engine that has planned with what was lent must
// not go on with something else.
func TestAnotherServerComesBack(t *testing.T) {
	path := socket(t)
	stop := serveSocket(t, path, sim.New(sim.Config{}).BackendFor)
	b := connectSocket(t, path)
	ended := make(chan error, 1)
	go func() { ended <- b.RunFreely(t.Context()) }()
	wait.For(t, patience, "the server answers", func() error { _, err := b.Pods.List(t.Context()); return err })
	stop()
	serveSocket(t, path, sim.New(sim.Config{PodUnit: true}).BackendFor)
	err := <-ended
	wantClass(t, err, "Unsupported")
	if err == nil || !strings.Contains(err.Error(), "lends something else") {
		t.Errorf("Run: %v", err)
	}
}

// TestVersionMismatch is a message that says who is what.
func TestVersionMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(status int, body any) error {
			p := newPipes()
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				data, err := json.Marshal(body)
				if err != nil {
					t.Error(err)
				}
				write(w, status, typeJSON, data)
			})}
			served := make(chan struct{})
			go func() { _ = server.Serve(p); close(served) }()
			_, err := Connect(t.Context(), Config{Version: "v1.0.0", Check: takesAll, dial: p.dial})
			_ = server.Close()
			<-served
			return err
		}
		type future struct {
			Protocol int
			Version  string
			Limits   string
		}
		err := answer(http.StatusOK, future{protocol + 1, "v9.0.0", "another shape"})
		want := fmt.Sprintf(
			`connect to the sim: the server (version "v9.0.0") speaks protocol %d, this program (version "v1.0.0") %d: run both from one version`,
			protocol+1,
			protocol,
		)
		if err == nil || err.Error() != want || backend.Class(err) != "Unsupported" {
			t.Errorf("error %v, want %s", err, want)
		}
		err = answer(http.StatusNotFound, "who?")
		wantClass(t, err, "Unavailable")
		if err == nil || !strings.Contains(err.Error(), "404 Not Found") {
			t.Errorf("another server: %v", err)
		}
	})
}

// TestServerThatSaysNothing: connecting ends.
func TestServerThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		_, err := Connect(
			t.Context(), Config{Check: takesAll, dial: func(context.Context) (net.Conn, error) { return near, nil }},
		)
		wantClass(t, err, "Unavailable")
		if err == nil || !strings.Contains(err.Error(), "no answer within 10s") {
			t.Errorf("error %v", err)
		}
	})
}

// TestNobodyListens says what to do.
func TestNobodyListens(t *testing.T) {
	_, err := Connect(t.Context(), Config{Socket: socket(t), Check: takesAll})
	wantClass(t, err, "Unavailable")
	if err == nil || !strings.Contains(err.Error(), "does burstlet sim run?") {
		t.Errorf("error %v", err)
	}
}

// TestManyCallsAtOnce: pods that are created all at once are launched all at
// once.
func TestManyCallsAtOnce(t *testing.T) {
	const pods = 5000
	path := socket(t)
	serveSocket(t, path, sim.New(sim.Config{Latency: sim.Latency{API: time.Millisecond}}).BackendFor)
	b := connectSocket(t, path)
	runUntilReady(t, b)
	var calls errgroup.Group
	for i := range pods {
		pod := aPod()
		pod.UID = types.UID(strconv.Itoa(i))
		calls.Go(func() error { return b.Pods.Launch(t.Context(), t.Context(), backend.LaunchSpec{Pod: pod}) })
	}
	if err := calls.Wait(); err != nil {
		t.Error(err)
	}
	if facts, err := b.Pods.List(t.Context()); err != nil || len(facts) != pods {
		t.Errorf("%d pods, %v", len(facts), err)
	}
}
