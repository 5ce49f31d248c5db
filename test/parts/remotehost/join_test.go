package remotehost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
)

func TestJoinedHostIsReachedWithItsPods(t *testing.T) {
	h := ForTest(t)
	if got := bannerAt(
		netip.AddrPortFrom(h.Address(), sshPort).String(), 300*time.Millisecond,
	); strings.HasPrefix(got, "SSH-") {
		t.Fatalf("a host that did not join says %q", got)
	}
	if err := h.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := bannerAt(netip.AddrPortFrom(h.Address(), sshPort).String(), 3*time.Minute); !strings.HasPrefix(got, "SSH-") {
		t.Errorf("its sshd says %q", got)
	}

	sandbox, _ := runPod(t, h, "served", "nc -ll -p 7 -e /bin/echo -n hello")
	pod := net.JoinHostPort(podIP(t, h, sandbox), "7")
	wait.For(t, patience, "the pod to answer", func() error {
		if got := bannerAt(pod, 10*time.Second); got != "hello" {
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

func TestDialing(t *testing.T) {
	const server = "mkdir /www; echo served > /www/index.html; httpd -f -p 8080 -h /www"
	h := ForTest(t)
	linked := ForTest(t, func(c *Config) { c.Linked = true })
	get := func(conn net.Conn, err error) error {
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		reply, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(reply), "served") {
			err = fmt.Errorf("reply %q", reply)
		}
		return err
	}

	sandbox, _ := runPod(t, h, "web", server)
	apart := net.JoinHostPort(podIP(t, h, sandbox), "8080")
	wait.For(t, patience, "pod through the host's network", func() error {
		return get(h.DialContext(t.Context(), "tcp", apart))
	})
	if _, err := h.DialContext(t.Context(), "tcp", "localhost:80"); err == nil {
		t.Error("a name was dialled")
	}

	if err := linked.Reboot(t.Context()); err != nil { // the link is there again
		t.Fatal(err)
	}
	if out := inside(t, linked, "ip route show default"); out != "" {
		t.Errorf("a linked host has a way beyond the machine: %s", out)
	}
	sandbox, container := runPod(t, linked, "web", server)
	reached := net.JoinHostPort(podIP(t, linked, sandbox), "8080")
	var dialer net.Dialer
	wait.For(t, patience, "pod through the link", func() error {
		return get(dialer.DialContext(t.Context(), "tcp", reached))
	})
	runtime, _ := linked.CRI()
	exec, err := runtime.Exec(
		t.Context(), &runtimeapi.ExecRequest{ContainerId: container, Cmd: []string{"true"}, Stdout: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Split(strings.TrimPrefix(exec.GetUrl(), "http://"), "/")[0]
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("dial streaming server of a linked host: %v", err)
	}
	conn.Close()
}

func TestRegistryOnTheMachine(t *testing.T) {
	const ref = "pull.burstlet.test/busybox:1"
	h := ForTest(t, func(c *Config) { c.Linked = true })
	image, err := images.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New()
	if err := r.Push(image, ref); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(h.Gateway(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}}
	server.Start()
	defer server.Close()
	if err := h.UseRegistry("pull.burstlet.test", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	_, imageService := h.CRI()
	pull := func() error {
		_, err := imageService.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
		return err
	}
	if err := pull(); err != nil || r.Pulls("busybox") == 0 {
		t.Errorf("pull: %v after %d reads", err, r.Pulls("busybox"))
	}
	server.CloseClientConnections()
	server.Close()
	if err := pull(); err == nil {
		t.Error("an image was pulled from a registry that is gone")
	}
}
