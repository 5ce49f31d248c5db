package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/provider/bound"
	"github.com/burstlet/burstlet/test/kit/ports"
)

var errBroken = errors.New("reach the cri backend: no such file or directory")

func TestHealth(t *testing.T) {
	h := New("a", "b")
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for _, tc := range []struct {
		a, b string
		err  error // of b
		code int
		want string
	}{
		{Starting, Running, nil, 503, "[-]node/a starting\n[+]node/b running\n"},
		{Running, Failed, errBroken, 503, "[+]node/a running\n[-]node/b failed: " + errBroken.Error() + "\n"},
		{Running, Standby, errBroken, 503, "[+]node/a running\n[-]node/b standby: " + errBroken.Error() + "\n"},
		{Standby, Running, nil, 200, "[+]node/a standby\n[+]node/b running\n"},
	} {
		h.Nodes[0].Set(tc.a, nil)
		h.Nodes[1].Set(tc.b, tc.err)
		if code, text := get("/readyz"); code != tc.code || text != tc.want {
			t.Errorf("%s, %s: %d %q", tc.a, tc.b, code, text)
		}
		if code, text := get("/healthz"); code != 200 || text != "ok" {
			t.Errorf("healthz: %d %q", code, text)
		}
	}
	if code, _ := get("/pods"); code != 404 {
		t.Errorf("another path: %d", code)
	}
}

func TestHealthPort(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	port := ports.Free(t)
	wait, err := New().Serve(ctx, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New().Serve(ctx, "127.0.0.1", port); err == nil ||
		!strings.Contains(err.Error(), "healthzPort") {
		t.Errorf("a port that is taken: %v", err)
	}
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%d, %v", resp.StatusCode, err)
	}
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// Whoever holds connections to the health port, or scrapes it again and again, keeps no
// probe out.
func TestTheHealthPortIsThereForProbes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	h, port := New(), ports.Free(t)
	h.conns, h.scrapes = bound.NewConns(2), bound.NewSlots("requests", 0)
	h.Metrics = http.NotFoundHandler()
	wait, err := h.Serve(ctx, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 429} {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	h.Metrics = NodesHandler(h.Bounds(), nil)
	h.scrapes = bound.NewSlots("requests", 1)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `burstlet_http_refused_total{kind="connections",server="health"}`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s is missing in\n%s", want, w.Body)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}
