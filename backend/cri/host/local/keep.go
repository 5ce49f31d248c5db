package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// A keeper is the process that looks after a node's pods while no burstlet is connected: it
// rotates their logs and evicts pods over their limits on local storage (keep_evict.go). The
// helper, which does both while connected, starts it when its session ends. The keeper has a
// file beside the node's pods and ends when that file is removed or replaced. So the next
// connection ends a keeper of any version, and so does a later keeper. For a moment two
// processes may rotate; the locks on the logs' directories put them in order.

const (
	// keepCall is how long a call of the runtime may take.
	keepCall = time.Minute
	// keepLook is how often a keeper looks whether it is still wanted.
	keepLook = time.Second
)

// keeperFile is where a node's keeper stands. No pod's directory has such a name.
func keeperFile(k *host.Keep) string {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, k.Node) // it never fails
	return filepath.Join(k.Root, fmt.Sprintf(".keeper-%016x", hash.Sum64()))
}

// takeOver ends the node's keeper, and remembers what a later one is to do.
func (h *Host) takeOver(r host.Rotation) error {
	h.keepMu.Lock()
	defer h.keepMu.Unlock()
	r.Logs, h.keep = nil, nil
	if r.MaxSize > 0 || r.Keep.Evict != nil {
		h.keep = &r
	}
	if err := os.Remove(keeperFile(r.Keep)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the process that saw to pods meanwhile: %w", err)
	}
	return nil
}

// KeepOrder is what a keeper is to do; nil if no keeper was asked for, or if none of the
// node's containers runs. If the runtime does not answer, some are assumed to run.
func (h *Host) KeepOrder(ctx context.Context) (*host.Rotation, error) {
	h.keepMu.Lock()
	order := h.keep
	h.keepMu.Unlock()
	if order == nil {
		return nil, nil
	}
	containers, err := h.keptContainers(ctx, order.Keep)
	if err == nil && len(containers) == 0 {
		return nil, nil
	}
	return order, err
}

// NewKeeper makes the file of a keeper, which ends the one before. The keeper holds it open.
func NewKeeper(ctx context.Context, k *host.Keep) (*os.File, error) {
	if err := mkdirAll(k.Root, kubeletDirMode); err != nil {
		return nil, err
	}
	root, err := lockDir(ctx, k.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only locked
	path := keeperFile(k)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

// InheritKeeper is the file of a keeper that another process has opened.
func InheritKeeper(fd uintptr, k *host.Keep) *os.File { return os.NewFile(fd, keeperFile(k)) }

// KeepOn does what a keeper does until its file is gone, none of the node's containers runs any more,
// or ctx ends; then it removes the file. failed is told what fails; the next round tries
// again.
func (h *Host) KeepOn(ctx context.Context, held *os.File, r host.Rotation, failed func(error)) {
	look, rotate := time.NewTicker(keepLook), time.NewTicker(max(r.Keep.Period, time.Millisecond))
	defer look.Stop()
	defer rotate.Stop()
	for more := true; more; {
		due := false
		select {
		case <-ctx.Done():
			more = false
			continue
		case <-look.C:
		case <-rotate.C:
			due = true
		}
		err := stillThere(held)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err == nil && due {
			more, err = h.keepRound(ctx, r)
		}
		if err != nil {
			failed(err)
		}
	}
	if err := endKeeper(context.WithoutCancel(ctx), held); err != nil {
		failed(err)
	}
}

// endKeeper removes a keeper's file, unless another stands there.
func endKeeper(ctx context.Context, held *os.File) error {
	root, err := lockDir(ctx, filepath.Dir(held.Name()))
	if err == nil {
		defer root.Close() //nolint:errcheck // it was only locked
		err = stillThere(held)
	}
	if err == nil {
		err = os.Remove(held.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// keepRound does everything once, and is false when nothing is left to do.
func (h *Host) keepRound(ctx context.Context, r host.Rotation) (more bool, err error) {
	containers, err := h.keptContainers(ctx, r.Keep)
	if err != nil {
		return true, err
	}
	var errs []error
	for _, c := range containers {
		if r.MaxSize <= 0 {
			break
		}
		if err := h.keepLog(ctx, c, r); err != nil {
			errs = append(errs, fmt.Errorf("rotate the log of container %s: %w", c.id, err))
		}
	}
	if r.Keep.Evict != nil {
		if err := h.keepLimits(ctx, containers, r.Keep); err != nil {
			errs = append(errs, fmt.Errorf("hold pods to their limits on local storage: %w", err))
		}
	}
	return len(containers) > 0, errors.Join(errs...)
}

// keptContainers are the node's that run.
func (h *Host) keptContainers(ctx context.Context, k *host.Keep) ([]runningContainer, error) {
	reply, err := h.keepCall(ctx, k.Socket, "ListContainers", k.List)
	if err != nil {
		return nil, fmt.Errorf("list the containers that run: %w", err)
	}
	return runningContainers(reply)
}

// keepLog rotates one log. Where the runtime does not open it anew, as that of a container
// that has ended meanwhile, it gets its name back (kubelet: rotateLatestLog).
func (h *Host) keepLog(ctx context.Context, c runningContainer, r host.Rotation) error {
	log := c.log(r.Keep.PodLogs)
	reopen, err := rotate(ctx, log, r)
	if !reopen {
		return err
	}
	request := binary.AppendUvarint([]byte{1<<3 | wireBytes}, uint64(len(c.id)))
	_, callErr := h.keepCall(ctx, r.Keep.Socket, "ReopenContainerLog", append(request, c.id...))
	if callErr == nil {
		return err
	}
	r.MaxSize = math.MaxInt64
	_, backErr := rotate(ctx, log, r)
	return errors.Join(err, callErr, backErr)
}

func (h *Host) keepCall(ctx context.Context, socket, method string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keepCall)
	defer cancel()
	call := host.Call{Socket: socket, Method: "/runtime.v1.RuntimeService/" + method, Request: request}
	return h.calls.client(socket).unary(ctx, call)
}
