package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/httpget"
)

// Request returns the request that an httpGet stands for: to the pod unless it
// names a host, with its headers, where Host names the virtual host.
func Request(ctx context.Context, t Target, get *corev1.HTTPGetAction, purpose httpget.Purpose) (*http.Request, error) {
	port, err := t.port(get.Port)
	if err != nil {
		return nil, err
	}
	address, err := t.address(get.Host, port)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for _, h := range get.HTTPHeaders {
		headers.Add(h.Name, h.Value)
	}
	resolved := httpget.Get{Scheme: string(get.Scheme), Address: address, Path: get.Path, Headers: headers}
	return resolved.Request(ctx, purpose)
}

// Client returns an HTTP client whose connections are the backend's, and the
// function that ends them, to be called after use.
func (c *Checker) Client(ctx context.Context, pod backend.Ref) (*http.Client, func()) {
	// A transport dials with a context that outlives its request: use ours.
	dialing, cancel := context.WithCancel(ctx)
	client := httpget.Client(func(_ context.Context, _, address string) (net.Conn, error) {
		return c.connect(dialing, pod, address)
	})
	done := func() {
		cancel()
		client.CloseIdleConnections()
	}
	return client, done
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

func (c *Checker) probeHTTP(
	ctx context.Context, t Target, get *corev1.HTTPGetAction, timeout time.Duration,
) (Verdict, string, error) {
	req, err := Request(ctx, t, get, httpget.ForProbe)
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
	defer func() { _ = res.Body.Close() }() // what counts was read
	body, err := httpget.Read(res.Body)
	if err != nil {
		return Failure, "", err
	}
	if says := httpget.Failure(res.StatusCode); says != "" {
		return Failure, says, nil
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return Warning, "Probe terminated redirects, Response body: " + clip(body), nil
	}
	return Success, clip(body), nil
}
