package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// get asks an address over HTTP and returns the answer's status, or why there is
// none.
func get(ctx context.Context, b backend.Backend, pod backend.Ref, address string) string {
	conn, err := b.Dial.Dial(ctx, pod, address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case err != nil:
		return err.Error()
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}

// TestServe: a command line listens, is not ready, is, and fails.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := running(t, sim.Config{}, "sh", "-c", "sleep 1; serve 8080 ready-after=2s fail-after=9s")
		ref := backend.Ref{UID: "u"}
		address := r.Facts()[0].IPs[0] + ":8080"
		for second := range 13 {
			want := "200"
			switch {
			case second < 3:
				want = "refused"
			case second >= 10:
				want = "500"
			}
			if got := get(t.Context(), b, ref, address); got != want {
				t.Errorf("after %d s: %s, want %s", second, got, want)
			}
			time.Sleep(time.Second)
		}
		if got := get(t.Context(), b, ref, r.Facts()[0].IPs[0]+":8081"); got != "refused" {
			t.Errorf("another port: %s", got)
		}
		if got := get(t.Context(), b, ref, "localhost:8080"); got != "refused" {
			t.Errorf("the host: %s", got)
		}
		_, err := b.Dial.Dial(t.Context(), ref, "192.0.2.1:80")
		if !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("elsewhere: %v", err)
		}
		_, err = b.Dial.Dial(t.Context(), ref, "nonsense")
		wantClass(t, err, "Invalid")

		conn, err := b.Dial.Dial(t.Context(), ref, address)
		must(t, err)
		must(t, b.Containers.Stop(t.Context(), backend.ContainerRef{Pod: ref, Name: "c"}, 0))
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from the dead", n)
		}
		must(t, conn.Close())
		if got := get(t.Context(), b, ref, address); got != "refused" {
			t.Errorf("the dead: %s", got)
		}
		must(t, b.Pods.Stop(t.Context(), ref, 0))
		if _, err := b.Dial.Dial(t.Context(), ref, address); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("a pod that is gone: %v", err)
		}
	})
}

// TestLocalhost is the pod's host: shared in the container unit by pods on the
// host network, and the pod's own in the pod unit.
func TestLocalhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := running(t, sim.Config{PodUnit: true}, "httpd", "-f", "-p", "80")
		if got := get(t.Context(), b, backend.Ref{UID: "u"}, "localhost:80"); got != "200" {
			t.Errorf("pod unit: %s", got)
		}
		b = sim.New(sim.Config{Images: []string{"busybox"}}).Backend()
		s := spec("host", 0)
		s.Pod.Spec.HostNetwork = true
		must(t, b.Pods.Launch(t.Context(), t.Context(), s))
		must(t, b.Containers.Start(t.Context(), s.Ref(), container("c", "serve", "80")))
		for _, host := range []string{"localhost:80", "127.0.0.1:80", "10.87.0.1:80"} {
			if got := get(t.Context(), b, backend.Ref{UID: "other"}, host); got != "200" {
				t.Errorf("%s: %s", host, got)
			}
		}
	})
}

// TestListen: a test's own server answers for a pod.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := running(t, sim.Config{Dial: func(context.Context, backend.Ref, string) (net.Conn, error) {
			return nil, errors.New("elsewhere")
		}}, "serve")
		l := r.Listen("u", 443)
		server := http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		ref, address := backend.Ref{UID: "u"}, r.Facts()[0].IPs[0]+":443"
		if got := get(t.Context(), b, ref, address); got != "418" {
			t.Errorf("served: %s", got)
		}
		must(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if got := get(t.Context(), b, ref, address); got != "refused" {
			t.Errorf("closed: %s", got)
		}
		if _, err := b.Dial.Dial(t.Context(), ref, "192.0.2.1:80"); err == nil || !errors.Is(err, errors.Unwrap(err)) {
			t.Errorf("elsewhere: %v", err)
		}
		r.Listen("u", 444)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Dial.Dial(short, ref, r.Facts()[0].IPs[0]+":444"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: %v", err)
		}
	})
}

// TestProbesInVirtualTime: a gRPC health check and an HTTP client reach a pod,
// and its end, without real time.
func TestProbesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := running(t, sim.Config{Latency: sim.Latency{API: time.Second}}, "serve", "80")
		ref, ip := backend.Ref{UID: "u"}, r.Facts()[0].IPs[0]
		l := r.Listen("u", 9090)
		server := grpc.NewServer()
		healthpb.RegisterHealthServer(server, health.NewServer())
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		conn, err := grpc.NewClient("passthrough:///"+ip+":9090",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(
				func(ctx context.Context, address string) (net.Conn, error) { return b.Dial.Dial(ctx, ref, address) },
			))
		must(t, err)
		answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("gRPC: %v, %v", answer, err)
		}
		must(t, conn.Close())
		server.Stop()
		must(t, <-ended)

		transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return b.Dial.Dial(ctx, ref, address)
		}}
		defer transport.CloseIdleConnections()
		client := http.Client{Transport: transport, Timeout: 3 * time.Second}
		for range 2 { // the second over the same connection
			resp, err := client.Get("http://" + ip + "/")
			must(t, err)
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok\n" {
				t.Errorf("HTTP: %q, %v", body, err)
			}
			must(t, resp.Body.Close())
		}
	})
}
