package intask

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// portOf is that of host:port or of a URL.
func portOf(t *testing.T, address string) int32 {
	t.Helper()
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	must(t, err)
	return int32(n)
}

// closedPort is one that nobody listens on, and that no other test is given: the
// kernel gives away none that is so low.
const closedPort int32 = 1

// probed answers with the code that a path names, and tells of the request.
func probed(elsewhere string, seen chan<- *http.Request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-r.Context().Done()
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/500", http.StatusFound)
		default:
			seen <- r
			code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if err == nil {
				w.WriteHeader(code)
			}
			_, _ = io.WriteString(w, "body "+r.URL.RawQuery)
		}
	}
}

func TestHTTPProbes(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	seen := make(chan *http.Request, 10)
	handler := probed(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), seen)
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	port := portOf(t, plain.URL)
	for name, c := range map[string]struct {
		get     HTTPGet
		verdict verdict
		output  string
	}{
		"200":                     {HTTPGet{Port: port, Path: "/x?a=b"}, success, "body a=b"},
		"399":                     {HTTPGet{Port: port, Path: "/399"}, success, "body "},
		"400":                     {HTTPGet{Port: port, Path: "/400"}, failed, "HTTP probe failed with statuscode: 400"},
		"500":                     {HTTPGet{Port: port, Path: "/500"}, failed, "HTTP probe failed with statuscode: 500"},
		"a redirect is followed":  {HTTPGet{Port: port, Path: "/here"}, failed, "HTTP probe failed with statuscode: 500"},
		"not to another host":     {HTTPGet{Port: port, Path: "/away"}, success, "<a href="},
		"any certificate will do": {HTTPGet{Scheme: "HTTPS", Port: portOf(t, secure.URL), Path: "/"}, success, "body "},
		"a host of its own":       {HTTPGet{Host: "localhost", Port: port, Path: "/"}, success, "body "},
		"nobody listens":          {HTTPGet{Port: closedPort, Path: "/"}, failed, `Get "http://127.0.0.1:`},
		"no answer within a timeout": {HTTPGet{Port: port, Path: "/hang"}, failed, `Get "http://127.0.0.1:` +
			strconv.Itoa(int(port)) + `/hang": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := patience
			if c.get.Path == "/hang" {
				timeout = 5 * time.Second // it connects in that time
			}
			v, output, err := checker{address: "127.0.0.1"}.check(t.Context(), Handler{HTTP: &c.get}, timeout)
			if v != c.verdict || err != nil || !strings.HasPrefix(output, c.output) {
				t.Errorf("%v, %q, %v", v, output, err)
			}
			for len(seen) > 0 {
				<-seen
			}
		})
	}
	get := HTTPGet{
		Port: port, Path: "/", Headers: []Header{{"Host", "web.test"}, {"X-A", "1"}, {"X-A", "2"}, {"Accept", ""}},
	}
	if v, _, err := (checker{address: "127.0.0.1"}).check(t.Context(), Handler{HTTP: &get}, patience); v != success {
		t.Fatal(err)
	}
	r := <-seen
	if _, accept := r.Header["Accept"]; r.Host != "web.test" || len(r.Header["X-A"]) != 2 || accept ||
		r.UserAgent() != "kube-probe/1.36" {
		t.Errorf("sent %s %v", r.Host, r.Header)
	}
}

func TestTCPProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	open, closed := portOf(t, l.Addr().String()), closedPort
	for name, c := range map[string]struct {
		socket  TCPSocket
		verdict verdict
		output  string
		errs    bool
	}{
		"open":      {TCPSocket{Port: open}, success, "", false},
		"with host": {TCPSocket{Port: open, Host: "localhost"}, success, "", false},
		"closed": {
			TCPSocket{Port: closed}, failed, fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", closed), false,
		},
		"not a port": {TCPSocket{Port: 70000}, unknown, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			v, output, err := checker{address: "127.0.0.1"}.check(t.Context(), Handler{TCP: &c.socket}, patience)
			if v != c.verdict || output != c.output || (err != nil) != c.errs {
				t.Errorf("%v, %q, %v", v, output, err)
			}
		})
	}
}

// slowHealth answers when nobody waits any more.
type slowHealth struct {
	healthv1.UnimplementedHealthServer
}

func (slowHealth) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestGRPCProbes(t *testing.T) {
	t.Parallel()
	healthy := func(s *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("down", healthv1.HealthCheckResponse_NOT_SERVING)
		h.SetServingStatus(strings.Repeat("long", 100), healthv1.HealthCheckResponse_SERVING)
		healthv1.RegisterHealthServer(s, h)
	}
	for name, c := range map[string]struct {
		register func(*grpc.Server)
		service  string
		verdict  verdict
		output   string
	}{
		"serving":     {healthy, "", success, "service healthy"},
		"a long name": {healthy, strings.Repeat("long", 100), success, "service healthy"},
		"not serving": {healthy, "down", failed, `service unhealthy (responded with "NOT_SERVING")`},
		"not known": {
			healthy, "other", failed, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
		},
		"not answered": {
			func(s *grpc.Server) { healthv1.RegisterHealthServer(s, slowHealth{}) }, "", failed,
			"timeout: health rpc did not complete within 10s",
		},
		"not asked for": {
			func(*grpc.Server) {}, "", failed,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service " +
				"grpc.health.v1.Health",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			s := grpc.NewServer()
			c.register(s)
			done := make(chan error, 1)
			go func() { done <- s.Serve(l) }()
			handler := Handler{GRPC: &GRPC{Port: portOf(t, l.Addr().String()), Service: c.service}}
			timeout := patience
			if name == "not answered" {
				timeout = 10 * time.Second // it connects in that time
			}
			v, output, err := checker{address: "127.0.0.1"}.check(t.Context(), handler, timeout)
			if v != c.verdict || output != c.output || err != nil {
				t.Errorf("%v, %q, %v", v, output, err)
			}
			s.Stop()
			must(t, <-done)
		})
	}
}

func TestGRPCProbesWithoutAServerFail(t *testing.T) {
	port := closedPort
	v, output, err := checker{address: "127.0.0.1"}.check(
		t.Context(), Handler{GRPC: &GRPC{Port: port}}, 200*time.Millisecond,
	)
	want := fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 200ms: context deadline exceeded`, port)
	if v != failed || output != want || err != nil {
		t.Errorf("%v, %q, %v", v, output, err)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	v, output, err = checker{address: "127.0.0.1"}.check(
		t.Context(), Handler{GRPC: &GRPC{Port: portOf(t, web.URL)}}, patience,
	)
	if v != failed || !strings.HasPrefix(output, "error: health rpc probe failed: rpc error: code = Unavailable") ||
		err != nil {
		t.Errorf("%v, %q, %v", v, output, err)
	}
}

// FuzzHealthStatus: whatever stands around the field, it is found; whatever is no
// message is an error or a status, and no panic.
func FuzzHealthStatus(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add([]byte{0x12, 2, 'x', 'y', 0x1d, 0, 0, 0, 0}, uint8(2))
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, uint8(2))
	f.Fuzz(func(t *testing.T, other []byte, status uint8) {
		framed := func(message []byte) []byte {
			return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		}
		_, plain := healthStatus(framed(other))
		field := binary.AppendUvarint([]byte{statusField}, uint64(status))
		got, err := healthStatus(framed(append(slices.Clone(other), field...)))
		if plain == nil && (err != nil || got != int(status)) {
			t.Errorf("%d, %v, want %d", got, err, status)
		}
		if _, err := healthStatus(other); len(other) < grpcHeader && err == nil {
			t.Error("a message without its header")
		}
	})
}

func TestHTTPHooks(t *testing.T) {
	var asked []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.UserAgent())
		w.WriteHeader(http.StatusInternalServerError)
	})
	web := httptest.NewServer(handler)
	defer web.Close()
	c := checker{address: "127.0.0.1"}
	get := &HTTPGet{Port: portOf(t, web.URL), Path: "/stop", Headers: []Header{{"Authorization", "a"}}}
	if f := c.hook(t.Context(), &Handler{HTTP: get}); f != nil {
		t.Errorf("any answer will do: %+v", f)
	}
	get.Scheme = "HTTPS"
	if f := c.hook(t.Context(), &Handler{HTTP: get}); f != nil {
		t.Errorf("behaviour 11: %+v", f)
	}
	if want := "/stop a kube-lifecycle/1.36|/stop  kube-lifecycle/1.36"; strings.Join(asked, "|") != want {
		t.Errorf("asked %q", asked)
	}
	f := c.hook(t.Context(), &Handler{HTTP: &HTTPGet{Port: closedPort, Path: "/x"}})
	if f == nil || f.What != "HTTP lifecycle hook (/x)" || !strings.HasPrefix(f.Why, "error: Get ") {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	f = c.hook(ctx, &Handler{Sleep: new(int64(60))})
	if f == nil ||
		f.Message("c", "p") != `Sleep lifecycle hook (60) for Container "c" in Pod "p" failed - error: container terminated before sleep hook finished` {
		t.Errorf("%+v", f)
	}
}
