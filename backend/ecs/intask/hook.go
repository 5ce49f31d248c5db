package intask

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/httpget"
	"github.com/burstlet/burstlet/backend/pause"
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
		return hookFailed(
			fmt.Sprintf("Sleep lifecycle hook (%d)", *h.Sleep), sleep(ctx, time.Duration(*h.Sleep)*time.Second), "",
		)
	}
	return &HookFailure{What: "lifecycle hook", Why: "error: " + errHandler.Error()}
}

func hookFailed(what string, err error, tail string) *HookFailure {
	if err == nil {
		return nil
	}
	return &HookFailure{What: what, Why: fmt.Sprintf("error: %v%s", err, tail)}
}

// sleep is a sleep hook. The text of its error is the kubelet's.
func sleep(ctx context.Context, d time.Duration) error {
	if pause.For(ctx, d) != nil {
		return errors.New("container terminated before sleep hook finished")
	}
	return nil
}

// get sends the request of a hook. That a server had to be asked without TLS is told to
// nobody: a task has no way to report an Event.
func (c checker) get(ctx context.Context, get *HTTPGet) error {
	req, err := c.request(ctx, get, httpget.ForLifecycle)
	if err != nil {
		return err
	}
	client := httpget.Client(nil)
	defer client.CloseIdleConnections()
	return httpget.Hook(client, req, nil)
}
