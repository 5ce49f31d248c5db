package cri

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
	"github.com/burstlet/burstlet/backend/gate"
)

// TestNoRetryLeavesAfterTheTerm: a launch that waits for a name is not asked for again once
// the term is over.
func TestNoRetryLeavesAfterTheTerm(t *testing.T) {
	g := gate.Always()
	sent := 0
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			if method != "RunPodSandbox" {
				return nil
			}
			sent++
			g.Close()
			return errors.New(`failed to reserve sandbox name "n": name "n" is reserved for "id"`)
		}
	})
	w.may = g.Permit
	r, _ := w.connect(t)
	wantClass(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)), backend.ErrThrottled)
	if sent != 1 {
		t.Errorf("it was sent %d times", sent)
	}
}

// TestNoStepLeavesAfterTheTerm: a start that has made its container does not start it.
func TestNoStepLeavesAfterTheTerm(t *testing.T) {
	g := gate.Always()
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			if method == "CreateContainer" {
				g.Close()
			}
			return nil
		}
	})
	w.may = g.Permit
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	wantClass(t, containers{r}.Start(t.Context(), ref, containerSpec(pod, "main", 0)), backend.ErrThrottled)
	if runs := w.fake.Runs("main"); runs != 0 {
		t.Errorf("it was started %d times", runs)
	}
}

// TestACallThatWaitsForItsConnectionAsksThen: gRPC holds calls while it connects.
func TestACallThatWaitsForItsConnectionAsksThen(t *testing.T) {
	g := gate.Always()
	w := newWorld(t, func(s *fakecri.Server) {
		s.Commands = func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			t.Error("the command was run")
			return &runtimeapi.ExecSyncResponse{}, nil
		}
	})
	w.may = g.Permit
	w.control = closing{w.control, g}
	r, _ := w.connect(t)
	_, err := r.runtime.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: "c", Cmd: []string{"true"}})
	wantClass(t, err, backend.ErrThrottled)
}

// closing ends the term while it connects.
type closing struct {
	host.Dialer
	gate *gate.Gate
}

func (c closing) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	c.gate.Close()
	return c.Dialer.DialContext(ctx, network, address)
}

// TestOnlyReadsLeaveWithoutAPermit makes every call of the runtime's API: those that are
// refused do not reach it.
func TestOnlyReadsLeaveWithoutAPermit(t *testing.T) {
	var mu sync.Mutex
	reached := map[string]bool{}
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			mu.Lock()
			defer mu.Unlock()
			reached[method] = true
			return nil
		}
	})
	w.may = nil
	r, _ := w.connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tried := 0
	for _, service := range []*grpc.ServiceDesc{
		&runtimeapi.RuntimeService_ServiceDesc, &runtimeapi.ImageService_ServiceDesc,
	} {
		for _, m := range service.Methods {
			full := "/" + service.ServiceName + "/" + m.MethodName
			err := r.transport.Invoke(ctx, full, &runtimeapi.VersionRequest{}, &runtimeapi.VersionResponse{})
			mu.Lock()
			got := reached[m.MethodName]
			mu.Unlock()
			if got != transport.Reads(full) || !got && backend.Class(err) != "Throttled" {
				t.Errorf("%s reaches the runtime: %v (%v)", m.MethodName, got, err)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("%d calls", tried)
	}
}
