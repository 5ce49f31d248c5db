package check

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"
)

func TestHTTPVerdictFollowsTheStatusCode(t *testing.T) {
	n := newNetwork(t)
	serve(t, n, func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		if code != http.StatusNotModified {
			reply(t, w, "body")
		}
	}, plain)
	for _, tt := range []struct {
		code    int
		verdict Verdict
		output  string
	}{
		{200, Success, "body"},
		{299, Success, "body"},
		{304, Warning, "Probe terminated redirects, Response body: "},
		{399, Warning, "Probe terminated redirects, Response body: body"},
		{400, Failure, "HTTP probe failed with statuscode: 400"},
		{503, Failure, "HTTP probe failed with statuscode: 503"},
	} {
		verdict, output, err := probe(t, New(nil, n), httpGet("/"+strconv.Itoa(tt.code)))
		if verdict != tt.verdict || output != tt.output || err != nil {
			t.Errorf("%d: got %s %q %v, want %s %q", tt.code, verdict, output, err, tt.verdict, tt.output)
		}
	}
	if n.pod.UID != "u1" {
		t.Errorf("dialled for pod %q", n.pod.UID)
	}
}

func TestHTTPRequestIsTheKubelets(t *testing.T) {
	// A proxy in the environment is the node's, not the pod's.
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:3128")
	kubelet := http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}, "Connection": {"close"}}
	with := func(name string, values ...string) http.Header {
		h := kubelet.Clone()
		if h[name] = values; len(values) == 0 {
			delete(h, name)
		}
		return h
	}
	header := func(name, value string) []corev1.HTTPHeader { return []corev1.HTTPHeader{{Name: name, Value: value}} }
	for name, tt := range map[string]struct {
		get           corev1.HTTPGetAction
		dialled, host string
		uri           string
		header        http.Header
	}{
		"defaults": {corev1.HTTPGetAction{Port: intstr.FromInt32(80)}, "10.0.0.1:80", "10.0.0.1:80", "/", kubelet},
		"named port": {
			corev1.HTTPGetAction{Port: intstr.FromString("http"), Path: "/x?a=b"},
			"10.0.0.1:8080", "10.0.0.1:8080", "/x?a=b",
			kubelet,
		},
		"quoted port": {corev1.HTTPGetAction{Port: intstr.FromString("81")}, "10.0.0.1:81", "10.0.0.1:81", "/", kubelet},
		"strange path": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/%zz"}, "10.0.0.1:80", "10.0.0.1:80", "/%25zz", kubelet,
		},
		"behaviour 11: any host": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), Host: "example.test"},
			"example.test:80", "example.test:80", "/",
			kubelet,
		},
		"IPv6": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), Host: "fd00::1"}, "[fd00::1]:80", "[fd00::1]:80", "/", kubelet,
		},
		"Host": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: header("host", "v.test")},
			"10.0.0.1:80", "v.test",
			"/", kubelet,
		},
		"own header": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: append(header("X-A", "1"), header("x-a", "2")...)},
			"10.0.0.1:80", "10.0.0.1:80", "/", with("X-A", "1", "2"),
		},
		"own user agent": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: header("User-Agent", "me")},
			"10.0.0.1:80", "10.0.0.1:80", "/", with("User-Agent", "me"),
		},
		"no accept": {
			corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: header("Accept", "")},
			"10.0.0.1:80", "10.0.0.1:80", "/", with("Accept"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			var got *http.Request
			serve(t, n, func(_ http.ResponseWriter, r *http.Request) { got = r }, plain)
			verdict, output, err := probe(t, New(nil, n), corev1.ProbeHandler{HTTPGet: &tt.get})
			if verdict != Success || err != nil {
				t.Fatalf("got %s %q %v", verdict, output, err)
			}
			if d := n.addresses(); !slices.Equal(d, []string{tt.dialled}) {
				t.Errorf("dialled %q, want %q", d, tt.dialled)
			}
			if got.Host != tt.host || got.RequestURI != tt.uri {
				t.Errorf("asked %q of %q, want %q of %q", got.RequestURI, got.Host, tt.uri, tt.host)
			}
			if diff := cmp.Diff(tt.header, got.Header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPThatCannotBeAskedIsAnError(t *testing.T) {
	noIP := target
	noIP.PodIP = ""
	for name, tt := range map[string]struct {
		target Target
		port   intstr.IntOrString
		want   string
	}{
		"unknown port":   {target, intstr.FromString("metrics"), `port "metrics" not found in container "web"`},
		"port 0":         {target, intstr.FromInt32(0), "invalid port number: 0"},
		"port too large": {target, intstr.FromString("bad"), "invalid port number: 70000"},
		"no pod IP":      {noIP, intstr.FromInt32(80), "the pod has no IP yet"},
	} {
		t.Run(name, func(t *testing.T) {
			h := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: tt.port}}
			verdict, _, err := New(nil, newNetwork(t)).Probe(t.Context(), tt.target, h, time.Second)
			if verdict != Unknown || err == nil || err.Error() != tt.want {
				t.Errorf("got %s %v, want %s", verdict, err, tt.want)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	for name, tt := range map[string]struct {
		to      func(r *http.Request) string
		verdict Verdict
		output  string
	}{
		"within the host are followed": {
			func(r *http.Request) string {
				return map[string]string{"/": "/a", "/a": "http://10.0.0.1:81/b"}[r.URL.Path]
			},
			Success, "arrived",
		},
		"behaviour 8: to another host is a warning and a success": {
			func(*http.Request) string { return "http://other.test/" },
			Warning, "Probe terminated redirects, Response body: <a href=\"http://other.test/\">Found</a>.\n\n",
		},
		"for ever are a failure": {
			func(r *http.Request) string { return r.URL.Path + "x" },
			Failure, `Get "/xxxxxxxxxx": stopped after 10 redirects`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			serve(t, n, func(w http.ResponseWriter, r *http.Request) {
				if to := tt.to(r); to != "" {
					http.Redirect(w, r, to, http.StatusFound)
					return
				}
				reply(t, w, "arrived")
			}, plain)
			verdict, output, err := probe(t, New(nil, n), httpGet("/"))
			if verdict != tt.verdict || output != tt.output || err != nil {
				t.Errorf("got %s %q %v, want %s %q", verdict, output, err, tt.verdict, tt.output)
			}
			if slices.Contains(n.addresses(), "other.test:80") {
				t.Error("asked another host")
			}
		})
	}
}

func TestHTTPSIsNotVerified(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			serve(t, n, func(w http.ResponseWriter, r *http.Request) { reply(t, w, r.Proto) }, func(s *httptest.Server) {
				s.EnableHTTP2 = http2
				s.StartTLS()
			})
			h := httpGet("/")
			h.HTTPGet.Scheme = corev1.URISchemeHTTPS
			verdict, output, err := probe(t, New(nil, n), h)
			if verdict != Success || output != name || err != nil {
				t.Errorf("got %s %q %v", verdict, output, err)
			}
		})
	}
}

func TestHTTPBodyIsBounded(t *testing.T) {
	n := newNetwork(t)
	written := make(chan error, 1)
	serve(t, n, func(w http.ResponseWriter, _ *http.Request) {
		// The probe hangs up once it has read enough.
		_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
		written <- err
	}, plain)
	verdict, output, err := probe(t, New(nil, n), httpGet("/"))
	if verdict != Success || len(output) != maxOutput || err != nil {
		t.Errorf("got %s, %d bytes, %v", verdict, len(output), err)
	}
	if err := <-written; err == nil {
		t.Error("the whole body was read")
	}
}

func TestHTTPLateAnswersFail(t *testing.T) {
	late := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, dial := range map[string]func(*testing.T) dialFunc{
		"late connection": func(*testing.T) dialFunc { return hangs },
		"late answer": func(t *testing.T) dialFunc {
			n := newNetwork(t)
			serve(t, n, late, plain)
			return n.Dial
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				verdict, output, err := New(nil, dial(t)).Probe(t.Context(), target, httpGet("/x"), 2*time.Second)
				// Package http adds "(Client.Timeout …)" if its own timer was first.
				want := `Get "http://10.0.0.1:80/x": context deadline exceeded`
				if verdict != Silence || !strings.HasPrefix(output, want) || err != nil {
					t.Errorf("got %s %q %v", verdict, output, err)
				}
				if took := time.Since(start); took != 2*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestNoConnectionOutlivesAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		serve(t, n, func(http.ResponseWriter, *http.Request) {}, plain)
		if verdict, output, err := probe(t, New(nil, n), httpGet("/")); verdict != Success {
			t.Fatalf("got %s %q %v", verdict, output, err)
		}
		synctest.Wait()
		if open := n.open(); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	})
}

func reply(t *testing.T, w io.Writer, body string) {
	if _, err := io.WriteString(w, body); err != nil {
		t.Error(err)
	}
}
