// Package httpget carries out the httpGet handlers of probes and hooks as a kubelet does
// (pkg/probe/http, pkg/kubelet/lifecycle), for the engine and for the program in ECS tasks.
// It imports the standard library alone, because that program must stay small.
package httpget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// kubeVersion is the Kubernetes release whose kubelet burstlet stands in for.
const kubeVersion = "1.36"

// MaxBody bounds, in bytes, what is read of an answer (kubelet: maxRespBodyLength).
const MaxBody = 10 << 10

// maxRedirects is how many redirects are followed, at most.
const maxRedirects = 10

// Purpose is what a request is made for, as its user agent says.
type Purpose string

// The purposes of requests.
const (
	ForProbe     Purpose = "probe"
	ForLifecycle Purpose = "lifecycle"
)

// UserAgent is the kubelet's for the purpose.
func (p Purpose) UserAgent() string { return "kube-" + string(p) + "/" + kubeVersion }

// Get is an httpGet whose host and port are resolved.
type Get struct {
	// Scheme is HTTP or HTTPS; empty is HTTP.
	Scheme string
	// Address is host:port.
	Address string
	Path    string
	// Headers may be nil; Host names the virtual host.
	Headers http.Header
}

// Request is the request that the httpGet stands for.
func (g Get) Request(ctx context.Context, purpose Purpose) (*http.Request, error) {
	// A path that is no valid reference is sent as it is, as kubelets always did.
	target, err := url.Parse(g.Path)
	if err != nil {
		target = &url.URL{Path: g.Path}
	}
	target.Scheme, target.Host = "http", g.Address
	if g.Scheme != "" {
		target.Scheme = strings.ToLower(g.Scheme)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if g.Headers != nil {
		req.Header = g.Headers.Clone()
	}
	setDefaults(req.Header, purpose)
	req.Host = req.Header.Get("Host")
	return req, nil
}

// setDefaults adds the headers that a kubelet sends. An Accept without a value
// means that none is to be sent.
func setDefaults(h http.Header, purpose Purpose) {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", purpose.UserAgent())
	}
	if _, ok := h["Accept"]; !ok {
		h.Set("Accept", "*/*")
	} else if h.Get("Accept") == "" {
		h.Del("Accept")
	}
}

// Client verifies no certificate, knows no proxy, keeps no connection and does not
// follow a redirect to another host. Without dial it connects by itself.
func Client(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
			ForceAttemptHTTP2:  true,
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext:        dial,
		},
	}
}

// sameHost follows redirects within the host first asked and takes one to another
// host as the answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// Read reads the body of an answer to a probe, up to MaxBody.
func Read(body io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(body, MaxBody))
	return string(data), err
}

// Failure is what a kubelet says of a status code that fails a probe; of any other it is
// empty. The body is not shown: it may hold anything (kubernetes 99425).
func Failure(code int) string {
	if code < http.StatusOK || code >= http.StatusBadRequest {
		return fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
	}
	return ""
}

// Hook sends the request of a hook. Any answer is a success. A server that does not speak
// TLS is asked again without it, as hooks were before kubelets knew https; again, which may
// be nil, hears how that ended. The error is that of what was asked for, as a kubelet's.
func Hook(client *http.Client, req *http.Request, again func(err error)) error {
	err := send(client, req)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme = "http"
	// Credentials are not sent in the clear.
	req.Header.Del("Authorization")
	second := send(client, req)
	if again != nil {
		again(second)
	}
	if second != nil {
		return err
	}
	return nil
}

// send makes one request and drops the answer: that there was one is all that counts.
func send(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, MaxBody))
	return nil
}
