package remotehost

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

func TestJoinedHostIsReachedWithItsPods(t *testing.T) {
	h := ForTest(t)
	if got := bannerAt(netip.AddrPortFrom(h.Address(), sshPort).String(), 300*time.Millisecond); strings.HasPrefix(got, "SSH-") {
		t.Fatalf("a host that did not join says %q", got)
	}
	if err := h.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := bannerAt(netip.AddrPortFrom(h.Address(), sshPort).String(), 3*time.Minute); !strings.HasPrefix(got, "SSH-") {
		t.Errorf("its sshd says %q", got)
	}

	sandbox, _ := runPod(t, h, "served", "nc -ll -p 7 -e /bin/echo -n hello")
	runtime, _ := h.CRI()
	status, err := runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the pod to answer", func() error {
		if got := bannerAt(net.JoinHostPort(status.GetStatus().GetNetwork().GetIp(), "7"), 10*time.Second); got != "hello" {
			return errors.New("it says " + got)
		}
		return nil
	})

	// A port of the machine, from within.
	listener, err := net.Listen("tcp", netip.AddrPortFrom(h.Gateway(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := h.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("the machine is not reached: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
