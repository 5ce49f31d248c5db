package intask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// hook carries out a postStart or preStop hook to its end, in the kubelet's words
// (lifecycle/handlers.go). A hook has no time limit of its own. nil is a success; of
// one that was cut off by ctx nothing is told.
func (c checker) hook(ctx context.Context, h *Handler) *HookFailure {
	switch {
	case h.Exec != nil:
		what := fmt.Sprintf("Exec lifecycle hook (%v)", h.Exec)
		r, err := c.output(ctx, h.Exec)
		if err == nil && r.code != 0 {
			err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(h.Exec, " "), r.code, r.stderr)
		}
		return hookFailed(what, err, fmt.Sprintf(", message: %q", r.text()))
	case h.HTTP != nil:
		return hookFailed(fmt.Sprintf("HTTP lifecycle hook (%s)", h.HTTP.Path), c.get(ctx, h.HTTP), "")
	case h.Sleep != nil:
		return hookFailed(fmt.Sprintf("Sleep lifecycle hook (%d)", *h.Sleep), pause(ctx, time.Duration(*h.Sleep)*time.Second), "")
	}
	return &HookFailure{What: "lifecycle hook", Why: "error: " + errHandler.Error()}
}

func hookFailed(what string, err error, tail string) *HookFailure {
	if err == nil {
		return nil
	}
	return &HookFailure{What: what, Why: fmt.Sprintf("error: %v%s", err, tail)}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.New("container terminated before sleep hook finished")
	case <-timer.C:
		return nil
	}
}

// get sends the request of a hook. Any answer is a success. A server that does not
// speak TLS is asked again without it, as hooks were before kubelets knew https.
func (c checker) get(ctx context.Context, get *HTTPGet) error {
	req, err := c.request(ctx, get, "lifecycle")
	if err != nil {
		return err
	}
	client := httpClient(0)
	defer client.CloseIdleConnections()
	err = send(client, req)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	req = req.Clone(ctx)
	req.URL.Scheme = "http"
	// Credentials are not sent in the clear.
	req.Header.Del("Authorization")
	if send(client, req) != nil {
		return err // of what was asked for, as the kubelet
	}
	return nil
}

// send makes one request and drops the answer.
func send(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	// That there was an answer is all that counts.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxOutput))
	_ = res.Body.Close()
	return nil
}
