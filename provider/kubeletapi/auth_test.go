package kubeletapi

import (
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestSubresources(t *testing.T) {
	for path, want := range map[string][]string{
		"/containerLogs/a/b/c": {"proxy"},
		"/exec/a/b/c":          {"proxy"},
		"/pods":                {"pods", "proxy"},
		"/pods/":               {"pods", "proxy"},
		"/runningpods/":        {"pods", "proxy"},
		"/podsandmore":         {"proxy"},
		"/healthz":             {"healthz", "proxy"},
		"/healthz/ping":        {"healthz", "proxy"},
		"/configz":             {"configz", "proxy"},
		"/metrics":             {"metrics"},
		"/metrics/resource":    {"metrics"},
		"/metrics/cadvisor":    {"metrics"},
		"/metricsx":            {"proxy"},
		"/stats/summary":       {"stats"},
		"/logs/":               {"log"},
		"/":                    {"proxy"},
	} {
		if got := subresources(path); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

func TestCallersAreIdentifiedAndAllowed(t *testing.T) {
	r := &reviews{
		tokens: map[string]string{"good": "reader", "weak": "stranger"},
		rights: map[string]map[string]bool{"reader": {"pods": true}, "admin": {"proxy": true}},
	}
	s := serve(t, &fakeEngine{}, r, nil)
	admin, _, _ := s.ca.issue(t, "admin", x509.ExtKeyUsageClientAuth)
	stranger, _, _ := newCA(t).issue(t, "admin", x509.ExtKeyUsageClientAuth)
	server, _, _ := s.ca.issue(t, "admin", x509.ExtKeyUsageServerAuth)

	for _, tc := range []struct {
		name   string
		call   func(string) *http.Response
		path   string
		code   int
		within string
	}{
		{"nobody", s.caller(t, nil, ""), "/pods", 401, "Unauthorized"},
		{"nobody, unknown path", s.caller(t, nil, ""), "/nothing", 401, "Unauthorized"},
		{"nobody, health", s.caller(t, nil, ""), "/healthz", 401, "Unauthorized"},
		{"unknown token", s.caller(t, nil, "bad"), "/pods", 401, "Unauthorized"},
		{"certificate of another CA", s.caller(t, &stranger, ""), "/pods", 401, "Unauthorized"},
		{"server's certificate", s.caller(t, &server, ""), "/pods", 401, "Unauthorized"},
		{"certificate", s.caller(t, &admin, ""), "/pods", 200, "PodList"},
		{"token with the fine right", s.caller(t, nil, "good"), "/pods", 200, "PodList"},
		{
			"token with the fine right elsewhere", s.caller(t, nil, "good"), "/healthz", 403,
			"Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[healthz proxy])",
		},
		{
			"token without rights", s.caller(t, nil, "weak"), "/containerLogs/a/b/c", 403,
			"Forbidden (user=stranger, verb=get, resource=nodes, subresource(s)=[proxy])",
		},
		{"nodes/proxy is not nodes/metrics", s.caller(t, &admin, ""), "/metrics", 403, "subresource(s)=[metrics]"},
		{"post", s.caller(t, &admin, ""), "POST /pods", 405, "Method Not Allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := tc.call(tc.path)
			text := body(t, resp)
			if resp.StatusCode != tc.code || !strings.Contains(text, tc.within) {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, text, tc.code, tc.within)
			}
		})
	}
	want := authorizationv1.ResourceAttributes{
		Verb: "get", Version: "v1", Resource: "nodes", Subresource: "proxy", Name: "n1",
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.asked, func(a authorizationv1.ResourceAttributes) bool { return cmp.Equal(a, want) }) {
		t.Errorf("no review of %+v in %+v", want, r.asked)
	}
}

// Who holds a node's port gets the bearer token of whoever scrapes with one, for the process has it reviewed;
// of a scraper with a certificate it gets nothing that opens anything elsewhere. The log has no token.
func TestATokenIsGivenToTheNodeACertificateIsNot(t *testing.T) {
	const token = "of-a-scraper"
	may := map[string]bool{"metrics": true}
	r := &reviews{
		tokens: map[string]string{token: "scraper"}, rights: map[string]map[string]bool{"scraper": may, "prometheus": may},
	}
	s := serve(t, &fakeEngine{}, r, nil)
	certificate, _, _ := s.ca.issue(t, "prometheus", x509.ExtKeyUsageClientAuth)
	for _, tt := range []struct {
		name string
		call func(string) *http.Response
		seen []string
	}{
		{"a certificate", s.caller(t, &certificate, ""), nil},
		{"a token", s.caller(t, nil, token), []string{token}},
	} {
		if resp := tt.call("/metrics"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", tt.name, resp.Status)
		}
		r.mu.Lock()
		if !slices.Equal(r.seen, tt.seen) {
			t.Errorf("%s: tokens %q were reviewed, want %q", tt.name, r.seen, tt.seen)
		}
		r.mu.Unlock()
	}
	if strings.Contains(s.logged.String(), token) {
		t.Errorf("the log tells the token:\n%s", s.logged)
	}
}

func TestAlwaysAllowStillAuthenticates(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}}
	s := serve(t, &fakeEngine{}, r, func(c *Config) { c.AlwaysAllow = true })
	if got := s.caller(t, nil, "")("/pods").StatusCode; got != 401 {
		t.Errorf("anonymous: got %d", got)
	}
	if got := s.caller(t, nil, "t")("/pods").StatusCode; got != 200 {
		t.Errorf("token: got %d", got)
	}
}

func TestTokenReviewCanBeLeftOut(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	s := serve(t, &fakeEngine{}, r, func(c *Config) { c.DisableTokenReview = true })
	if got := s.caller(t, nil, "t")("/pods").StatusCode; got != 401 {
		t.Errorf("token: got %d", got)
	}
}

func TestMetricsAreServedAndCounted(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	s := serve(t, &fakeEngine{logs: noLogs}, r, nil)
	call := s.caller(t, nil, "t")
	call("/pods")
	call("/surprise/with/many/values")
	text := body(t, call("/metrics"))
	for _, want := range []string{
		`kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 1`,
		`kubelet_http_requests_duration_seconds_count`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

func TestHealth(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	engine := &fakeEngine{}
	s := serve(t, engine, r, nil)
	call := s.caller(t, nil, "t")
	at := func(when time.Time) { engine.mu.Lock(); engine.relist = when; engine.mu.Unlock() }
	expect := func(path string, code int, within ...string) {
		t.Helper()
		resp := call(path)
		text := body(t, resp)
		if resp.StatusCode != code {
			t.Errorf("%s: got %d %q, want %d", path, resp.StatusCode, text, code)
		}
		for _, w := range within {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", path, text, w)
			}
		}
	}
	expect("/healthz", 200, "ok") // not listed yet, but just started
	at(time.Now())
	expect("/healthz", 200, "ok")
	at(time.Now().Add(-4 * time.Minute))
	expect(
		"/healthz", 500, "[+]ping ok", "[-]pleg failed: pleg was last seen active 4m0s ago; threshold is 3m0s",
		"healthz check failed",
	)
	expect("/healthz/pleg", 500, "pleg")
	expect("/healthz/ping", 200, "ok")
	expect("/healthz/unknown", 404)
	at(time.Time{})
	if err := s.server.checkRelist(time.Now().Add(4 * time.Minute)); err == nil {
		t.Error("never listed for four minutes, and healthy")
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	s := serve(t, &fakeEngine{logs: endless}, r, nil)
	resp := s.caller(t, nil, "t")("/containerLogs/ns/p/c?follow=true")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	// The cleanup of serve ends the server; goleak sees whether the stream ended.
	go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
}
