package sim_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// forwarded asks a port over HTTP from inside the pod.
func forwarded(t *testing.T, b backend.Backend, port uint16) string {
	t.Helper()
	conn, err := b.Forward.Forward(t.Context(), backend.Ref{UID: "u"}, port)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case err != nil:
		return backend.Class(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(body)
}

// TestForward: what the command line serves, what is declared, an echo, and
// nothing else.
func TestForward(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "pod": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := sim.New(sim.Config{Images: []string{"busybox"}, PodUnit: podUnit})
				b := r.Backend()
				if got := forwarded(t, b, 80); got != "NotFound" {
					t.Errorf("no pod: %s", got)
				}
				s := spec("u", 0, container("c", "sh", "-c", "serve 8080 ready-after=1h"), container("d", "serve", "9090"))
				s.Containers[0].Container.Ports = []corev1.ContainerPort{
					{ContainerPort: 8080},
					{ContainerPort: 80, Protocol: corev1.ProtocolTCP},
					{ContainerPort: 53, Protocol: corev1.ProtocolUDP},
				}
				must(t, b.Pods.Launch(t.Context(), t.Context(), s))
				for _, c := range s.Containers {
					if !podUnit {
						must(t, b.Containers.Start(t.Context(), s.Ref(), c))
					}
				}
				for port, want := range map[uint16]string{
					9090: "ok\n", 8080: "refused", 53: "refused", 81: "refused",
					80: "hello from simulated pod ns/pod-u, container c, port 80\n",
				} {
					if got := forwarded(t, b, port); got != want {
						t.Errorf("port %d: %q, want %q", port, got, want)
					}
				}
				conn, err := b.Forward.Forward(t.Context(), backend.Ref{UID: "u"}, 7)
				must(t, err)
				_, err = io.WriteString(conn, "echo")
				must(t, err)
				must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
				if got, err := io.ReadAll(conn); err != nil || string(got) != "echo" {
					t.Errorf("port 7: %q, %v", got, err)
				}
				must(t, conn.Close())

				conn, err = b.Forward.Forward(t.Context(), backend.Ref{UID: "u"}, 7)
				must(t, err)
				must(t, b.Pods.Stop(t.Context(), s.Ref(), 0))
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("read %d bytes from the dead", n)
				}
				must(t, conn.Close())
				if got := forwarded(t, b, 7); got != "NotFound" {
					t.Errorf("a pod that has ended: %s", got)
				}
			})
		})
	}
}
