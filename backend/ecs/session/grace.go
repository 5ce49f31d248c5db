package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// errOldSupervisor: the task was started by an earlier version.
var errOldSupervisor = errors.New("its supervisor, of an earlier version of burstlet, takes no grace")

// Shorten leaves containers that run no longer than a grace from now, once they are asked
// to end. It returns when ctx ends at the latest.
func (s *Pool) Shorten(ctx context.Context, arn string, containers []string, grace time.Duration) error {
	select {
	case s.shortening <- struct{}{}:
		defer func() { <-s.shortening }()
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "too many containers are being told of their grace")
	}
	t, done, err := s.use(ctx, arn, containers...)
	if err != nil {
		return fmt.Errorf("tell its containers: %w", err)
	}
	defer done()
	var failed error
	for _, name := range containers {
		if err := t.shorten(ctx, name, grace); err != nil {
			failed = errors.Join(failed, fmt.Errorf("tell container %s: %w", name, err))
		}
	}
	return failed
}

func (t *taskSession) shorten(ctx context.Context, name string, grace time.Duration) error {
	client, err := t.container(ctx, name)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	started := t.pool.start(func() { // ends with the connection at the latest
		seconds := uint32(grace / time.Second) //nolint:gosec // at most Limits.MaxGrace
		ok, _, err := client.SendRequest(intask.RequestGrace, true, ssh.Marshal(intask.Grace{Seconds: seconds}))
		if err == nil && !ok {
			err = errOldSupervisor
		}
		told <- err
	})
	if !started {
		return errEnded
	}
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "it does not answer: %w", ctx.Err())
	}
}
