package intask

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// request is what an httpGet stands for: to the task unless it names a host, with
// its headers, where Host names the virtual host.
func (c checker) request(ctx context.Context, get *HTTPGet, purpose string) (*http.Request, error) {
	address, err := c.at(get.Host, get.Port)
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
		target.Scheme = strings.ToLower(get.Scheme)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, h := range get.Headers {
		req.Header.Add(h.Name, h.Value)
	}
	setDefaults(req.Header, purpose)
	req.Host = req.Header.Get("Host")
	return req, nil
}

// setDefaults adds the headers that a kubelet sends. An Accept without a value
// means that none is to be sent.
func setDefaults(h http.Header, purpose string) {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", "kube-"+purpose+"/"+kubeVersion)
	}
	if _, ok := h["Accept"]; !ok {
		h.Set("Accept", "*/*")
	} else if h.Get("Accept") == "" {
		h.Del("Accept")
	}
}

// httpClient verifies no certificate, knows no proxy, keeps no connection and does
// not follow a redirect to another host, as the kubelet's.
func httpClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the kubelet's way
			ForceAttemptHTTP2:  true,
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
	}
}

// sameHost follows redirects within the host first asked and takes one to another
// host as the answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

func (c checker) http(ctx context.Context, get *HTTPGet, timeout time.Duration) (verdict, string, error) {
	req, err := c.request(ctx, get, "probe")
	if err != nil {
		return unknown, "", err
	}
	client := httpClient(timeout)
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return unknown, "", err
		}
		return failed, clip(err.Error()), nil
	}
	defer func() { _ = res.Body.Close() }() // what counts was read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxOutput))
	if err != nil {
		// The kubelet takes this for a failure with an error, which does not count.
		return unknown, "", err
	}
	// Of a failure the body is not shown: it may hold anything (kubernetes 99425).
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest {
		return failed, fmt.Sprintf("HTTP probe failed with statuscode: %d", res.StatusCode), nil
	}
	return success, clip(string(body)), nil
}
