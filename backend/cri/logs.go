package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// followPoll is how often a followed container is inspected should no hint have
// reported its end.
const followPoll = 5 * time.Second

// logs implements [backend.Logs].
type logs struct{ *remote }

// Open reads the container's log file on the host. A container that has not
// started has none: NotFound.
func (l logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	if _, err := l.transport.Current(); err != nil {
		return nil, transport.Failed(err, "open log of container %s", ref.Name)
	}
	file, err := l.logFile(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("open log of container %s: %w", ref.Name, err)
	}
	request := host.LogRequest{
		Path: file, Follow: opts.Follow, Timestamps: opts.Timestamps,
		Tail: opts.Tail, LimitBytes: opts.LimitBytes, Since: l.clock.theirs(opts.Since),
	}
	if !opts.Follow {
		return l.open(ctx, ref, request)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	request.Ended = ended
	stream, err := l.open(ctx, ref, request)
	if err != nil {
		cancel()
		return nil, err
	}
	f := &followed{ReadCloser: stream, cancel: cancel}
	f.watching.Go(func() {
		l.awaitEnd(ctx, ref)
		close(ended)
	})
	return f, nil
}

func (l logs) open(ctx context.Context, ref backend.ContainerRef, request host.LogRequest) (io.ReadCloser, error) {
	stream, err := l.host.Log(ctx, request)
	if isNotExist(err) {
		return nil, backend.Errorf(
			backend.ErrNotFound, "open log of container %s: attempt %d has none: %w", ref.Name, ref.Attempt, err,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("open log of container %s: %w", ref.Name, err)
	}
	return stream, nil
}

// followed is a log that is followed. Close ends the watch for its container's
// end, and waits for it.
type followed struct {
	io.ReadCloser
	cancel   context.CancelFunc
	watching sync.WaitGroup
}

// Close closes the log.
func (f *followed) Close() error {
	f.cancel()
	err := f.ReadCloser.Close()
	f.watching.Wait()
	return err
}

// logFile is where the runtime writes the log of this attempt.
func (l logs) logFile(ctx context.Context, ref backend.ContainerRef) (string, error) {
	pod := ref.Pod
	if pod.Namespace == "" || pod.Name == "" {
		found, err := l.findContainer(ctx, pod.UID, ref.Name, ref.Attempt)
		if err != nil {
			return "", err
		}
		if pod, err = convert.ContainerPodRef(found); err != nil {
			return "", err
		}
	}
	return path.Join(l.convert.LogDir(pod), convert.LogPath(ref.Name, ref.Attempt)), nil
}

// awaitEnd returns when the container writes no more, or with the context. Hints
// about its pod make it look; a poll is there should one be lost.
func (l logs) awaitEnd(ctx context.Context, ref backend.ContainerRef) {
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for {
		hint := l.details.changed(ref.Pod.UID)
		if l.ended(ctx, &ref) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-hint:
		case <-poll.C:
		}
	}
}

// ended is true when the container writes no more. A runtime that cannot be
// asked now says nothing about it.
func (l logs) ended(ctx context.Context, ref *backend.ContainerRef) bool {
	if ref.ID == "" {
		found, err := l.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
		if err != nil {
			return errors.Is(err, backend.ErrNotFound)
		}
		ref.ID = found.GetId()
	}
	s, err := l.askContainer(ctx, ref.ID)
	if err != nil {
		log.G(ctx).WithError(err).WithField("container", ref.Name).Debug(
			"failed to ask for the state of a followed container",
		)
		return false
	}
	return s == nil || s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
}
