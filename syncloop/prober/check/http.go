package check

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
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Purpose is what a request is made for, as its user agent says.
type Purpose string

// The purposes of requests.
const (
	ForProbe     Purpose = "probe"
	ForLifecycle Purpose = "lifecycle"
)

// Request returns the request that an httpGet stands for: to the pod unless it
// names a host, with its headers, where Host names the virtual host.
func Request(ctx context.Context, t Target, get *corev1.HTTPGetAction, purpose Purpose) (*http.Request, error) {
	port, err := t.port(get.Port)
	if err != nil {
		return nil, err
	}
	address, err := t.address(get.Host, port)
	if err != nil {
		return nil, err
	}
	// A path that is no valid reference is sent as it is, as kubelets always did.
	target, err := url.Parse(get.Path)
	if err != nil {
		target = &url.URL{Path: get.Path}
	}
	target.Scheme, target.Host = "http", address
	if get.Scheme != "" {
		target.Scheme = strings.ToLower(string(get.Scheme))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, h := range get.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	setDefaults(req.Header, purpose)
	req.Host = req.Header.Get("Host")
	return req, nil
}

// setDefaults adds the headers that a kubelet sends. An Accept without a value
// means that none is to be sent.
func setDefaults(h http.Header, purpose Purpose) {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", "kube-"+string(purpose)+"/"+kubeVersion)
	}
	if _, ok := h["Accept"]; !ok {
		h.Set("Accept", "*/*")
	} else if h.Get("Accept") == "" {
		h.Del("Accept")
	}
}

// Client returns an HTTP client whose connections are the backend's, and the
// function that ends them, to be called after use. It verifies no certificate,
// knows no proxy and does not follow a redirect to another host.
func (c *Checker) Client(ctx context.Context, pod backend.Ref) (*http.Client, func()) {
	// A transport dials with a context that outlives its request: use ours.
	dialing, cancel := context.WithCancel(ctx)
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:  true,
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			return c.connect(dialing, pod, address)
		},
	}
	done := func() {
		cancel()
		transport.CloseIdleConnections()
	}
	return &http.Client{Transport: transport, CheckRedirect: sameHost}, done
}

func (c *Checker) connect(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	if c.dial == nil {
		return nil, backend.Errorf(backend.ErrUnsupported, "this backend cannot connect to pods")
	}
	conn, err := c.dial.Dial(ctx, pod, address)
	var errno syscall.Errno
	if err != nil && !Unasked(err) && errors.As(err, &errno) {
		// Users see what a kubelet's own dial says, whatever way this one went.
		return nil, fmt.Errorf("dial tcp %s: connect: %w", address, errno)
	}
	return conn, err
}

// sameHost follows redirects within the host first asked and takes one to
// another host as the answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

func (c *Checker) probeHTTP(ctx context.Context, t Target, get *corev1.HTTPGetAction, timeout time.Duration) (Verdict, string, error) {
	req, err := Request(ctx, t, get, ForProbe)
	if err != nil {
		return Unknown, "", err
	}
	client, done := c.Client(ctx, t.Ref.Pod)
	defer done()
	client.Timeout = timeout
	res, err := client.Do(req)
	if err != nil {
		if Unasked(err) || ctx.Err() != nil {
			return Unknown, "", err
		}
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return Silence, clip(err.Error()), nil
		}
		return Failure, clip(err.Error()), nil
	}
	defer closeBody(res)
	body, err := io.ReadAll(io.LimitReader(res.Body, maxOutput))
	if err != nil {
		return Failure, "", err
	}
	return judge(res.StatusCode, clip(string(body)))
}

// judge tells a verdict by the status code. Of a failure the body is not shown,
// it may hold anything (kubernetes 99425).
func judge(code int, body string) (Verdict, string, error) {
	switch {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code), nil
	case code >= http.StatusMultipleChoices:
		return Warning, "Probe terminated redirects, Response body: " + body, nil
	default:
		return Success, body, nil
	}
}

// closeBody ends a response; that the answer was read is all that counts.
func closeBody(res *http.Response) {
	_ = res.Body.Close()
}
