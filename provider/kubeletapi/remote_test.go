package kubeletapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
)

// patience is for what ought to happen at once.
const patience = 3 * time.Minute

// client is the configuration of a client-go client of the server.
func (s *served) client() *rest.Config {
	return &rest.Config{Host: s.url, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// streaming is a server whose only user "t" may do all.
func streaming(t *testing.T, engine Engine, change func(*Config)) *served {
	t.Helper()
	return serve(t, engine, &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}, change)
}

// await waits for what a channel brings.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// ask makes a request with headers, over HTTP/1.1 as streams need it.
func (s *served) ask(t *testing.T, method, path string, headers map[string]string) *http.Response {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // self-signed here
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

var upgradeToSPDY = map[string]string{
	"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io",
}

// TestStreamsAreRefusedBeforeTheUpgrade: while there is an HTTP status to tell.
func TestStreamsAreRefusedBeforeTheUpgrade(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	const query = "?command=true&output=1"
	for _, path := range []string{
		"/exec/ns/p/c" + query, "/exec/ns/p/uid/c" + query, "/attach/ns/p/c" + query, "/attach/ns/p/uid/c" + query,
		"/portForward/ns/p", "/portForward/ns/p/uid", "/run/ns/p/c?cmd=true", "/run/ns/p/uid/c?cmd=true",
	} {
		for _, tc := range []struct {
			err  error
			code int
		}{
			{backend.Errorf(backend.ErrNotFound, "pod does not exist"), http.StatusNotFound},
			{backend.Errorf(backend.ErrUnsupported, "the ecs backend does not lend exec"), http.StatusNotImplemented},
			{errors.New("surprise"), http.StatusInternalServerError},
		} {
			engine.refuse(tc.err)
			resp := s.ask(t, http.MethodPost, path, upgradeToSPDY)
			var said metav1.Status
			text := body(t, resp)
			err := json.Unmarshal([]byte(text), &said)
			if err != nil || resp.StatusCode != tc.code || said.Message != tc.err.Error() || int(said.Code) != tc.code {
				t.Errorf("%s: got %d %q, want %d %q", path, resp.StatusCode, text, tc.code, tc.err)
			}
		}
	}
}

// TestRequestsAboutAPodAwaitIt: a process that has just begun is asked for nothing before it
// knows the pod.
func TestRequestsAboutAPodAwaitIt(t *testing.T) {
	engine := &fakeEngine{}
	r := &reviews{
		tokens: map[string]string{"t": "u"}, rights: map[string]map[string]bool{"u": {"proxy": true, "checkpoint": true}},
	}
	s := serve(t, engine, r, nil)
	unlisted := backend.Errorf(backend.ErrUnavailable, "the node has just started")
	for _, request := range []string{
		"GET /containerLogs/ns/p/c", "POST /checkpoint/ns/p/c",
		"POST /exec/ns/p/c?command=true&output=1", "POST /exec/ns/p/uid/c?command=true&output=1",
		"POST /attach/ns/p/c?output=1", "POST /attach/ns/p/uid/c?output=1",
		"POST /portForward/ns/p", "POST /portForward/ns/p/uid", "POST /run/ns/p/c?cmd=true", "POST /run/ns/p/uid/c?cmd=true",
	} {
		method, path, _ := strings.Cut(request, " ")
		want := backend.Ref{Namespace: "ns", Name: "p"}
		if strings.Contains(path, "/uid") {
			want.UID = "uid"
		}
		engine.await = func(ctx context.Context, pod backend.Ref) error {
			if _, bounded := ctx.Deadline(); !bounded || pod != want {
				t.Errorf("%s awaits %+v, bounded: %v", request, pod, bounded)
			}
			return unlisted
		}
		resp := s.ask(t, method, path, upgradeToSPDY)
		text := body(t, resp)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, unlisted.Error()) {
			t.Errorf("%s: got %d %q, want 503 %q", request, resp.StatusCode, text, unlisted)
		}
	}
}

func TestStreamRequestsThatCannotBe(t *testing.T) {
	s := streaming(t, &fakeEngine{}, nil)
	webSocket := map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	}
	for _, tc := range []struct {
		name, method, path string
		headers            map[string]string
		code               int
		text               string
	}{
		{"no upgrade", "POST", "/exec/ns/p/c?command=a&output=1", nil, 400, "Upgrade request required"},
		{"no upgrade", "GET", "/attach/ns/p/c?output=1", nil, 400, "Upgrade request required"},
		{"no upgrade", "POST", "/portForward/ns/p", nil, 400, "Upgrade request required"},
		{
			"unknown upgrade", "POST", "/portForward/ns/p",
			map[string]string{"Connection": "Upgrade", "Upgrade": "h2c"},
			400,
			"Upgrade request required",
		},
		{"unknown protocol", "POST", "/exec/ns/p/c?command=a&output=1", map[string]string{
			"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v9",
		}, 403, "v9"},
		{
			"no streams", "POST", "/exec/ns/p/c?command=a", upgradeToSPDY, 400,
			"you must specify at least 1 of stdin, stdout, stderr",
		},
		{"no streams", "POST", "/attach/ns/p/c", upgradeToSPDY, 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"no command", "POST", "/exec/ns/p/c?output=1", upgradeToSPDY, 400, "command"},
		{"no command", "POST", "/run/ns/p/c", nil, 400, "cmd"},
		{"no port", "GET", "/portForward/ns/p", webSocket, 400, `query parameter \"port\" is required`},
		{"bad port", "GET", "/portForward/ns/p?port=70000", webSocket, 400, `\"70000\"`},
		{"wrong method", "PUT", "/exec/ns/p/c?command=a&output=1", upgradeToSPDY, 405, ""},
		{"wrong method", "DELETE", "/attach/ns/p/c?output=1", upgradeToSPDY, 405, ""},
		{"wrong method", "PATCH", "/portForward/ns/p", upgradeToSPDY, 405, ""},
		{"wrong method", "GET", "/run/ns/p/c?cmd=a", nil, 405, ""},
		{"no container", "POST", "/exec/ns/p?command=a&output=1", upgradeToSPDY, 404, ""},
	} {
		t.Run(tc.name+" "+tc.path, func(t *testing.T) {
			resp := s.ask(t, tc.method, tc.path, tc.headers)
			text := body(t, resp)
			if resp.StatusCode != tc.code || !strings.Contains(text, tc.text) {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, text, tc.code, tc.text)
			}
			if strings.Contains(text, "Bearer") {
				t.Errorf("the answer repeats credentials: %q", text)
			}
		})
	}
}

// TestStreamsNeedNodesProxy: GET needs get and POST create, for WebSocket too (the
// kubelet's attributes; pods/exec is the API server's to check).
func TestStreamsNeedNodesProxy(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: map[string]map[string]bool{"u": {"pods": true}}}
	s := serve(t, &fakeEngine{}, r, nil)
	for path, verb := range map[string]string{
		"GET /exec/ns/p/c": "get", "POST /exec/ns/p/c": "create", "POST /attach/ns/p/c": "create",
		"GET /portForward/ns/p": "get", "POST /run/ns/p/c": "create",
	} {
		method, path, _ := strings.Cut(path, " ")
		resp := s.ask(t, method, path, upgradeToSPDY)
		want := "Forbidden (user=u, verb=" + verb + ", resource=nodes, subresource(s)=[proxy])"
		if text := body(t, resp); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, want) {
			t.Errorf("%s %s: got %d %q, want %q", method, path, resp.StatusCode, text, want)
		}
	}
}

func TestStreamsAreCountedAsLongRunning(t *testing.T) {
	engine := &fakeEngine{}
	engine.refuse(backend.Errorf(backend.ErrNotFound, "pod does not exist"))
	s := streaming(t, engine, nil)
	s.ask(t, http.MethodPost, "/exec/ns/p/c?command=a&output=1", upgradeToSPDY)
	s.ask(t, http.MethodGet, "/portForward/ns/p", upgradeToSPDY)
	s.ask(t, http.MethodPost, "/run/ns/p/c?cmd=a", nil)
	text := body(t, s.ask(t, http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`kubelet_http_requests_total{long_running="true",method="POST",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="true",method="GET",path="portForward",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="POST",path="run",server_type="readwrite"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

// TestShutdownWaitsForStreams: Run returns once the commands have ended.
func TestShutdownWaitsForStreams(t *testing.T) {
	engine := &fakeEngine{}
	began, ended := make(chan struct{}), false
	engine.exec = func(ctx context.Context, _ backend.Ref, _ string, _ backend.ExecSpec) (int32, error) {
		close(began)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond)
		ended = true
		return 0, ctx.Err()
	}
	s := streaming(t, engine, nil)
	failed := make(chan error, 1)
	go func() { failed <- command(t, s, "SPDY", "/exec/ns/p/c?command=a&output=1", streams{}) }()
	await(t, "the command", began)
	s.stop()
	if !ended {
		t.Error("the server ended before its command")
	}
	if err := await(t, "the client's error", failed); err == nil {
		t.Error("the client was told of success")
	}
}
