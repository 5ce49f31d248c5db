package hooks

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/burstlet/burstlet/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type execFunc func(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error)

func (f execFunc) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	return f(ctx, ref, spec)
}

// network is a listener in memory that notes what was dialled.
type network struct {
	*bufconn.Listener
	mu      sync.Mutex
	dialled []string
}

func (n *network) Dial(ctx context.Context, _ backend.Ref, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	return n.DialContext(ctx)
}

// serve answers HTTP, or HTTPS with a certificate that nobody trusts.
func serve(t *testing.T, secure bool, h http.HandlerFunc) *network {
	t.Helper()
	n := &network{Listener: bufconn.Listen(64 << 10)}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = n
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return n
}

func theTarget() Target {
	return Target{
		Ref:       backend.ContainerRef{Name: "web", ID: "c1"},
		Pod:       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "ns", Name: "p"}},
		Container: &corev1.Container{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
		PodIP:     "10.0.0.1",
	}
}

func execOf(command ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

func get(scheme corev1.URIScheme, host string, headers ...corev1.HTTPHeader) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
		Scheme: scheme, Host: host, Path: "/hook", Port: intstr.FromString("http"), HTTPHeaders: headers,
	}}
}

func sleepFor(seconds int64) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
}

func TestExec(t *testing.T) {
	gone := backend.Errorf(backend.ErrNotFound, "container is not running")
	for name, tt := range map[string]struct {
		code int32
		err  error
		want string
	}{
		"0": {},
		"2": {code: 2, want: `Exec lifecycle hook ([sh -c $(X)]) for Container "web" in Pod "p_ns(u1)" failed - error: ` +
			`command 'sh -c $(X)' exited with 2: no, message: "wellno"`},
		"not started": {err: gone, want: `Exec lifecycle hook ([sh -c $(X)]) for Container "web" in Pod "p_ns(u1)" failed - error: ` +
			`container is not running, message: "wellno"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{Exec: execFunc(func(
				_ context.Context, ref backend.ContainerRef, spec backend.ExecSpec,
			) (int32, error) {
				if ref.ID != "c1" || !slices.Equal(spec.Command, []string{"sh", "-c", "$(X)"}) {
					t.Errorf("ran %q in %+v", spec.Command, ref)
				}
				_, errOut := io.WriteString(spec.Stderr, "no")
				_, out := io.WriteString(spec.Stdout, "well")
				return tt.code, errors.Join(tt.err, errOut, out)
			})})
			wantError(t, r.Run(t.Context(), theTarget(), execOf("sh", "-c", "$(X)")), tt.want, tt.err)
		})
	}
}

// wantError compares an error's text and class; an empty text is no error.
func wantError(t *testing.T, err error, want string, class error) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got %v", err)
		}
		return
	}
	var hook *Error
	if !errors.As(err, &hook) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if class != nil && !errors.Is(err, class) {
		t.Errorf("%v is not %v", err, class)
	}
}

func TestHTTPGet(t *testing.T) {
	for name, tt := range map[string]struct {
		handler *corev1.LifecycleHandler
		secure  bool
		code    int
		dialled []string
	}{
		"default host is the pod":     {get("", ""), false, 200, []string{"10.0.0.1:8080"}},
		"behaviour 11: any host":      {get("HTTP", "example.test"), false, 200, []string{"example.test:8080"}},
		"any answer is a success":     {get("", ""), false, 500, []string{"10.0.0.1:8080"}},
		"behaviour 11: unverified":    {get("HTTPS", ""), true, 200, []string{"10.0.0.1:8080"}},
		"behaviour 11: fallback":      {get("HTTPS", ""), false, 200, []string{"10.0.0.1:8080", "10.0.0.1:8080"}},
		"no redirect to another host": {get("", ""), false, 302, []string{"10.0.0.1:8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []*http.Request
			n := serve(t, tt.secure, func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r)
				w.Header().Set("Location", "http://other.test/")
				w.WriteHeader(tt.code)
			})
			if err := New(Config{Dial: n}).Run(t.Context(), theTarget(), tt.handler); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(n.dialled, tt.dialled) {
				t.Errorf("dialled %q, want %q", n.dialled, tt.dialled)
			}
			if len(got) != 1 || got[0].URL.Path != "/hook" || got[0].UserAgent() != "kube-lifecycle/1.36" {
				t.Errorf("asked %d times: %+v", len(got), got)
			}
		})
	}
}

// TestHTTPSFallsBackToHTTP: behaviour 11. Credentials are not sent in
// the clear, and users hear of it.
func TestHTTPSFallsBackToHTTP(t *testing.T) {
	var header http.Header
	n := serve(t, false, func(_ http.ResponseWriter, r *http.Request) { header = r.Header })
	var events []string
	r := New(Config{Dial: n, Event: func(pod *corev1.Pod, kind, reason, message string) {
		events = append(events, pod.Name+" "+kind+" "+reason+" "+message)
	}})
	handler := get(
		"HTTPS", "", corev1.HTTPHeader{Name: "Authorization", Value: "Bearer x"},
		corev1.HTTPHeader{Name: "X-Kept", Value: "y"},
	)
	if err := r.Run(t.Context(), theTarget(), handler); err != nil {
		t.Fatal(err)
	}
	if header.Get("Authorization") != "" || header.Get("X-Kept") != "y" {
		t.Errorf("sent %v", header)
	}
	want := []string{
		"p Warning LifecycleHTTPFallback request to HTTPS lifecycle hook 10.0.0.1:8080 got HTTP response, retry with " +
			"HTTP succeeded",
	}
	if !slices.Equal(events, want) {
		t.Errorf("events %q", events)
	}
}

func TestHooksThatCannotBeCarriedOut(t *testing.T) {
	noIP := theTarget()
	noIP.PodIP = ""
	n := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	for name, tt := range map[string]struct {
		runner  *Runner
		target  Target
		handler *corev1.LifecycleHandler
		want    string
		class   error
	}{
		"no exec": {
			New(Config{}), theTarget(), execOf("true"),
			`Exec lifecycle hook ([true]) for Container "web" in Pod "p_ns(u1)" failed - error: this backend cannot run commands in containers, message: ""`,
			backend.ErrUnsupported,
		},
		"no dial": {
			New(Config{}), theTarget(), get("", ""),
			`HTTP lifecycle hook (/hook) for Container "web" in Pod "p_ns(u1)" failed - error: ` +
				`Get "http://10.0.0.1:8080/hook": this backend cannot connect to pods`, backend.ErrUnsupported,
		},
		"no pod IP": {
			New(Config{Dial: n}), noIP, get("", ""),
			`HTTP lifecycle hook (/hook) for Container "web" in Pod "p_ns(u1)" failed - error: the pod has no IP yet`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, tt.runner.Run(t.Context(), tt.target, tt.handler), tt.want, tt.class)
		})
	}
}

// TestTCPSocketIsNoHook, as with a kubelet, which never carried it out.
func TestTCPSocketIsNoHook(t *testing.T) {
	for _, handler := range []*corev1.LifecycleHandler{
		{}, {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
	} {
		err := New(Config{}).Run(t.Context(), theTarget(), handler)
		if err == nil || !strings.HasPrefix(err.Error(), "Cannot run handler: invalid handler: ") ||
			!errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
}

func TestSleepLastsAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := New(Config{}).Run(t.Context(), theTarget(), sleepFor(30)); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestAHookIsCutWithItsContext: behaviour 2.
func TestAHookIsCutWithItsContext(t *testing.T) {
	for name, handler := range map[string]*corev1.LifecycleHandler{
		"exec": execOf("sleep"), "httpGet": get("", ""), "sleep": sleepFor(3600),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				r := New(Config{Dial: n, Exec: execFunc(func(
					ctx context.Context, _ backend.ContainerRef, _ backend.ExecSpec,
				) (int32, error) {
					<-ctx.Done()
					return 137, nil
				})})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx, theTarget(), handler) }()
				synctest.Wait()
				select {
				case err := <-done:
					t.Fatalf("ended early: %v", err)
				default:
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) || err.Error() != context.Canceled.Error() {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
