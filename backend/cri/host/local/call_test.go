package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// slowRuntime is a runtime whose StartContainer takes until it is let go on.
type slowRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	begun, goOn chan struct{}
	ended       chan error // of the call's context
}

func (r *slowRuntime) StartContainer(
	ctx context.Context, q *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	r.begun <- struct{}{}
	select {
	case <-r.goOn:
	case <-ctx.Done():
	}
	r.ended <- ctx.Err()
	if q.GetContainerId() == "odd" {
		return nil, status.Error(codes.FailedPrecondition, "it is odd: 100 % ☹\nso be it")
	}
	return &runtimeapi.StartContainerResponse{}, ctx.Err()
}

func (*slowRuntime) Version(_ context.Context, q *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: q.GetVersion(), RuntimeName: strings.Repeat("n", 1<<20)}, nil
}

func serveSlow(t *testing.T) (*slowRuntime, string) {
	t.Helper()
	r := &slowRuntime{begun: make(chan struct{}, 9), goOn: make(chan struct{}), ended: make(chan error, 9)}
	return r, serve(t, r)
}

// serve serves a runtime on a socket.
func serve(t *testing.T, r runtimeapi.RuntimeServiceServer) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return socket
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	out, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func startOf(t *testing.T, socket, id string) host.Call {
	t.Helper()
	return host.Call{
		Socket: socket, Method: runtimeapi.RuntimeService_StartContainer_FullMethodName, Owner: "node",
		Request: encoded(t, &runtimeapi.StartContainerRequest{ContainerId: id}), Timeout: time.Minute,
	}
}

func TestCallCarriesMessages(t *testing.T) {
	_, socket := serveSlow(t)
	h := New(Options{RunRoot: t.TempDir()})
	for range 3 {
		reply, err := h.Call(t.Context(), host.Call{
			Socket: socket, Method: runtimeapi.RuntimeService_Version_FullMethodName,
			Request: encoded(t, &runtimeapi.VersionRequest{Version: "v1"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		var got runtimeapi.VersionResponse
		if err := proto.Unmarshal(reply, &got); err != nil || got.GetVersion() != "v1" || len(got.GetRuntimeName()) != 1<<20 {
			t.Errorf("got %q and a name of %d bytes, %v", got.GetVersion(), len(got.GetRuntimeName()), err)
		}
	}
}

func TestCallFails(t *testing.T) {
	r, socket := serveSlow(t)
	close(r.goOn)
	h := New(Options{RunRoot: t.TempDir()})
	answer := &host.CallError{}
	if _, err := h.Call(t.Context(), startOf(t, socket, "odd")); !errors.As(err, &answer) ||
		codes.Code(answer.Code) != codes.FailedPrecondition || answer.Message != "it is odd: 100 % ☹\nso be it" {
		t.Errorf("got %v", err)
	}
	unknown := host.Call{Socket: socket, Method: "/runtime.v1.RuntimeService/Dance"}
	if _, err := h.Call(t.Context(), unknown); !errors.As(err, &answer) || codes.Code(answer.Code) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
	if _, err := h.Call(t.Context(), startOf(t, socket+"-not", "c")); !errors.Is(err, syscall.ENOENT) ||
		errors.As(err, new(*host.CallError)) {
		t.Errorf("got %v", err)
	}
	large := startOf(t, socket, strings.Repeat("x", maxCallMessage))
	if _, err := h.Call(t.Context(), large); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

// A call goes on when whoever made it has gone.
func TestCallIsFinished(t *testing.T) {
	r, socket := serveSlow(t)
	h := New(Options{RunRoot: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := h.Call(ctx, startOf(t, socket, "c"))
		gone <- err
	}()
	<-r.begun
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	finished := make(chan struct{})
	go func() {
		h.AwaitCalls()
		close(finished)
	}()
	select {
	case err := <-r.ended:
		t.Fatalf("the call was ended with its caller: %v", err)
	case <-finished:
		t.Fatal("AwaitCalls returned while the call was under way")
	case <-time.After(50 * time.Millisecond):
	}
	close(r.goOn)
	if err := <-r.ended; err != nil {
		t.Errorf("the call ended with %v", err)
	}
	<-finished
}

func TestCallEndsAtItsTimeout(t *testing.T) {
	r, socket := serveSlow(t)
	h := New(Options{RunRoot: t.TempDir()})
	c := startOf(t, socket, "c")
	c.Timeout = 50 * time.Millisecond
	if _, err := h.Call(t.Context(), c); err == nil {
		t.Error("it did not end")
	}
	if err := <-r.ended; err == nil {
		t.Error("the runtime was not told of the timeout")
	}
}

// What an earlier process left under way ends before the first call of the next one of
// the same owner begins.
func TestCallsWaitForThoseOfAnEarlierProcess(t *testing.T) {
	r, socket := serveSlow(t)
	run := t.TempDir()
	earlier, later := New(Options{RunRoot: run}), New(Options{RunRoot: run})
	replies := make(chan error, 2)
	call := func(h *Host, owner string) {
		c := startOf(t, socket, "c")
		c.Owner = owner
		_, err := h.Call(t.Context(), c)
		replies <- err
	}
	go call(earlier, "node")
	<-r.begun
	for _, owner := range []string{"other", ""} {
		go call(later, owner)
		<-r.begun // it waits for nobody
	}
	go call(later, "node")
	select {
	case <-r.begun:
		t.Fatal("two processes called for one owner at once")
	case <-time.After(5 * earlierPoll):
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(Options{RunRoot: run}).Call(ctx, startOf(t, socket, "c")); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits ends with its context, and got %v", err)
	}
	close(r.goOn)
	<-r.begun
	for range 4 {
		if err := <-replies; err != nil {
			t.Error(err)
		}
	}
}

// Calls of an earlier process that do not end keep those of the next one for a minute, and
// no longer: the runtime refuses a second call for one name by itself.
func TestTheWaitForAnEarlierProcessIsBounded(t *testing.T) {
	r, socket := serveSlow(t)
	close(r.goOn)
	run := t.TempDir()
	earlier := New(Options{RunRoot: run})
	if err := earlier.begin(t.Context(), "node"); err != nil { // of a call that never ends
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var conn net.Conn
		later := New(Options{RunRoot: run, Dial: func(ctx context.Context, socket string) (_ net.Conn, err error) {
			conn, err = dialSocket(ctx, socket)
			return conn, err
		}})
		for _, owner := range []string{"other", "node"} {
			c := startOf(t, socket, "c")
			c.Owner = owner
			begun, want := time.Now(), map[string]time.Duration{"node": time.Minute}[owner]
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			if _, err := later.Call(ctx, c); err != nil || time.Since(begun) != want {
				t.Errorf("a call of %s: %v after %s, want none after %s", owner, err, time.Since(begun), want)
			}
			cancel()
			later.AwaitCalls()
			conn.Close() // while somebody reads it no time passes here
		}
	})
	// It has not taken the lock of the earlier process away.
	if held, err := New(Options{RunRoot: run}).tryLock("node"); held != nil || err != nil {
		t.Errorf("the earlier process has lost its lock, %v", err)
	}
	earlier.finish("node")
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Nothing stays on the host when no call is under way, whoever made the last.
func TestCallsLeaveNothing(t *testing.T) {
	r, socket := serveSlow(t)
	run := t.TempDir()
	one, other := New(Options{RunRoot: run}), New(Options{RunRoot: run})
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			c := startOf(t, socket, "c")
			c.Owner = fmt.Sprintf("pod-%d", i%7)
			for _, h := range []*Host{one, other} {
				if _, err := h.Call(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-r.begun:
			case err := <-r.ended:
				if err != nil {
					t.Error(err)
				}
			case <-done:
				return
			}
		}
	}()
	close(r.goOn)
	calls.Wait()
	one.AwaitCalls()
	other.AwaitCalls()
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
