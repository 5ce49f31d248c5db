package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Names of rotated logs are the kubelet's (pkg/kubelet/logs): the log's, and a
// time, which sorts; then what compressing makes of it.
const (
	rotatedTime      = "20060102-150405"
	compressedSuffix = ".gz"
	tmpSuffix        = ".tmp"
)

// Rotate implements [host.Host].
//
// A log that is missing gets its newest rotated file back first: a runtime that was
// not told to open it anew writes there. So a call whose MaxSize is never reached
// undoes a rotation. A log that is missing altogether is returned, for the runtime
// to make it.
func (h *Host) Rotate(ctx context.Context, r host.Rotation) ([]string, error) {
	if err := h.led(ctx); err != nil {
		return nil, err
	}
	var (
		rotated []string
		errs    []error
	)
	if r.Keep != nil {
		if err := h.takeOver(r); err != nil {
			errs = append(errs, err)
		}
	}
	if r.MaxSize <= 0 {
		return nil, errors.Join(errs...) // As the kubelet's: never.
	}
	for _, log := range r.Logs {
		if err := ctx.Err(); err != nil {
			return rotated, errors.Join(append(errs, err)...)
		}
		reopen, err := rotate(ctx, log, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("rotate log %s: %w", log, err))
		}
		if reopen {
			rotated = append(rotated, log)
		}
	}
	return rotated, errors.Join(errs...)
}

// rotate is true when the runtime must open the log anew. The lock is for those who rotate at
// once: what one has moved away, and the runtime still writes, no other may compress.
func rotate(ctx context.Context, log string, r host.Rotation) (reopen bool, err error) {
	dir, err := lockDir(ctx, filepath.Dir(log))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close() //nolint:errcheck // it was only locked
	info, err := os.Lstat(log)
	if errors.Is(err, fs.ErrNotExist) {
		back, err := renameBack(log)
		if err != nil || !back {
			return err == nil, err
		}
		info, err = os.Lstat(log)
		if err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if info.Size() < r.MaxSize || !info.Mode().IsRegular() {
		return false, nil
	}
	// What is old does not stand in the way of a log that grows: on a full disk
	// nothing can be compressed.
	err = tidyRotated(ctx, log, r.MaxFiles)
	if ctx.Err() != nil {
		return false, err
	}
	if moveErr := moveAway(log, time.Now().UTC()); moveErr != nil {
		return false, errors.Join(err, moveErr)
	}
	return true, err
}

// renameBack undoes the last rotation of a log, if there is one that was not
// compressed yet.
func renameBack(log string) (bool, error) {
	files, err := rotatedFiles(log)
	if err != nil || len(files) == 0 {
		return false, err
	}
	newest := files[len(files)-1]
	if strings.HasSuffix(newest, compressedSuffix) {
		return false, nil
	}
	if err := renameNew(newest, log); err != nil {
		// The runtime has made it meanwhile.
		if errors.Is(err, fs.ErrExist) {
			return true, nil
		}
		return false, err
	}
	return true, nil
}

// moveAway gives the log the name of its time, a later one if that is taken.
func moveAway(log string, now time.Time) error {
	for {
		err := renameNew(log, log+"."+now.Format(rotatedTime))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		now = now.Add(time.Second)
	}
}

// rotatedFiles are the rotated files of a log, oldest first, after those were
// removed that a crash left: half compressed ones, and those that are compressed.
func rotatedFiles(log string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(log))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all, files []string
	for _, e := range entries {
		if isRotated(e, filepath.Base(log)) {
			all = append(all, filepath.Join(filepath.Dir(log), e.Name()))
		}
	}
	for _, f := range all {
		if strings.HasSuffix(f, tmpSuffix) || slices.Contains(all, f+compressedSuffix) {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		files = append(files, f)
	}
	slices.Sort(files)
	return files, nil
}

// isRotated is true of the rotated files of a log of that name.
func isRotated(e os.DirEntry, log string) bool {
	stamp, ok := strings.CutPrefix(e.Name(), log+".")
	if !ok || !e.Type().IsRegular() {
		return false
	}
	stamp = strings.TrimSuffix(stamp, tmpSuffix)
	_, err := time.Parse(rotatedTime, strings.TrimSuffix(stamp, compressedSuffix))
	return err == nil
}

// tidyRotated keeps as many rotated files that there are at most maxFiles with the
// one that is about to come and the new log, and compresses them. It goes as far as
// it can.
func tidyRotated(ctx context.Context, log string, maxFiles int) error {
	files, err := rotatedFiles(log)
	if err != nil {
		return err
	}
	var errs []error
	excess := max(0, len(files)-max(0, maxFiles-2))
	for i, f := range files {
		if i < excess {
			err = os.Remove(f)
		} else if !strings.HasSuffix(f, compressedSuffix) {
			err = compress(ctx, f)
		}
		if err != nil {
			errs = append(errs, err)
			err = nil
		}
	}
	return errors.Join(errs...)
}
