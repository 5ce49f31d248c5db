package intask

import (
	"context"
	"net/http"
	"time"

	"github.com/burstlet/burstlet/backend/httpget"
)

// request is what an httpGet stands for: to the task unless it names a host, with
// its headers.
func (c checker) request(ctx context.Context, get *HTTPGet, purpose httpget.Purpose) (*http.Request, error) {
	address, err := c.at(get.Host, get.Port)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for _, h := range get.Headers {
		headers.Add(h.Name, h.Value)
	}
	return httpget.Get{Scheme: get.Scheme, Address: address, Path: get.Path, Headers: headers}.Request(ctx, purpose)
}

func (c checker) http(ctx context.Context, get *HTTPGet, timeout time.Duration) (verdict, string, error) {
	req, err := c.request(ctx, get, httpget.ForProbe)
	if err != nil {
		return unknown, "", err
	}
	client := httpget.Client(nil)
	client.Timeout = timeout
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return unknown, "", err
		}
		return failed, clip(err.Error()), nil
	}
	defer func() { _ = res.Body.Close() }() // what counts was read
	body, err := httpget.Read(res.Body)
	if err != nil {
		// The kubelet takes this for a failure with an error, which does not count.
		return unknown, "", err
	}
	if says := httpget.Failure(res.StatusCode); says != "" {
		return failed, says, nil
	}
	return success, clip(body), nil
}
