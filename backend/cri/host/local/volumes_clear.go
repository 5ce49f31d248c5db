package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Clear implements [host.Host]. What says whose the pod is goes last, so that one
// that was cut off is still known.
func (h *Host) Clear(ctx context.Context, pod host.PodDir) error {
	if err := h.led(ctx); err != nil {
		return err
	}
	pod, err := realPod(pod)
	if err != nil {
		return err
	}
	dir, err := lockPod(ctx, pod, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	owner, err := podOwner(pod)
	if err != nil {
		return err
	}
	if owner != "" && owner != pod.Node {
		return foreign(pod, owner)
	}
	if err := h.unmountBelow(ctx, pod.Path()); err != nil {
		return fmt.Errorf("clear pod %s: %w", pod.UID, err)
	}
	if err := removePod(ctx, pod, dir); err != nil {
		return fmt.Errorf("clear pod %s: %w", pod.UID, err)
	}
	return nil
}

// removePod removes a pod's directory, in which nothing is mounted.
func removePod(ctx context.Context, pod host.PodDir, dir *os.File) error {
	described := filepath.Base(filepath.Dir(pod.Described("any")))
	mark := filepath.Base(pod.Mark())
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var errs []error
	for _, name := range names {
		if name != described && name != mark {
			errs = append(errs, removeEntry(ctx, dir, name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range []string{described, mark} {
		if err := removeEntry(ctx, dir, name); err != nil {
			return err
		}
	}
	return ignoreMissing(os.Remove(pod.Path()))
}
