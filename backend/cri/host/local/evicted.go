package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/localstorage"
)

// maxEviction is more than a record, or a pod's limits, have bytes.
const maxEviction = 1 << 20

// Evicted implements [host.Host].
func (h *Host) Evicted(ctx context.Context, r host.EvictedRequest) ([]host.Eviction, error) {
	if err := h.attend(ctx, r.Root, r.Node); err != nil {
		return nil, err
	}
	entries, err := readDir(r.PodLogs)
	if err != nil {
		return nil, fmt.Errorf("look for evicted pods: %w", err)
	}
	var all []host.Eviction
	for _, e := range entries {
		uid, ok := podLogUID(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		dir := filepath.Join(r.PodLogs, e.Name())
		record, err := readEviction(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look whether pod %s was evicted: %w", uid, err)
		}
		if record.UID = uid; markOf(dir).Node == r.Node {
			all = append(all, record)
		}
	}
	return all, nil
}

// readEviction is the record in a pod's log directory. Errors: fs.ErrNotExist. One that
// cannot be understood says no less that the pod was evicted: it was written whole.
func readEviction(dir string) (host.Eviction, error) {
	text, err := readSmall(filepath.Join(dir, host.EvictedMark), maxEviction)
	if err != nil {
		return host.Eviction{}, err
	}
	var record host.Eviction
	if json.Unmarshal(text, &record) != nil {
		record = host.Eviction{Message: "The pod was over a limit on local storage; the record on its host cannot be read. "}
	}
	return record, nil
}

// readLimits are the limits of the pod of a log directory. Errors: fs.ErrNotExist.
func readLimits(dir string) (limits localstorage.Limits, err error) {
	text, err := readSmall(filepath.Join(dir, host.StorageLimits), maxEviction)
	if err != nil {
		return limits, err
	}
	if err := json.Unmarshal(text, &limits); err != nil {
		return limits, fmt.Errorf("read the pod's limits on local storage: %w", err)
	}
	return limits, nil
}

// readSmall reads at most so many bytes of a file of ours, which is no link.
func readSmall(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return text, errors.Join(err, f.Close())
}

// writeEviction records one so that it outlives a power failure. Only who is alone with a
// node's pods writes.
func writeEviction(dir string, record host.Eviction) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, host.EvictedMark)
	other := path + tmpSuffix
	if err := ignoreMissing(os.Remove(other)); err != nil { // of one that was killed
		return err
	}
	f, err := os.OpenFile(other, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(other, path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(other)))
	}
	return syncDir(dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
