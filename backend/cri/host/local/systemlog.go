package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxSystemLogNames bounds the names of a directory that are told.
const maxSystemLogNames = 10000

// SystemLog implements [host.Host]. Unlike a kubelet's, it follows no link out of the logs:
// a pod that may write there would have it read any file of the host.
func (h *Host) SystemLog(ctx context.Context, r host.SystemLogRequest) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.Services) > 0 {
		return h.logsOfServices(ctx, r), nil
	}
	if r.Path == "" || strings.HasSuffix(r.Path, "/") {
		return h.systemLogNames(r.Path)
	}
	f, size, err := h.systemLogFile(r.Path)
	if err != nil {
		return nil, err
	}
	return &systemLog{io.LimitReader(f, size), f}, nil
}

// systemLog is a file up to what its size was, so that one which grows has an end.
type systemLog struct {
	io.Reader
	io.Closer
}

// systemLogFile opens a file of the logs, with its size. It is opened with O_PATH first, so
// that a pipe or a device is not waited for.
func (h *Host) systemLogFile(path string) (*os.File, int64, error) {
	found, info, err := h.findSystemLog(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = found.Close() }()
	switch {
	case info.IsDir():
		return nil, 0, class.Errorf(class.ErrInvalid, "%w", &fs.PathError{Op: "read", Path: path, Err: unix.EISDIR})
	case !info.Mode().IsRegular():
		return nil, 0, class.Errorf(class.ErrInvalid, "read %s: %w", path, errNotRegular)
	}
	f, err := os.Open(procFile(found))
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (h *Host) findSystemLog(path string) (*os.File, fs.FileInfo, error) {
	found, err := openSubPath(host.SubPath{Volume: h.opts.LogRoot, Path: path, ReadOnly: true})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil, nil, err
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", class.ErrInvalid, err)
	}
	info, err := found.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, found.Close())
	}
	return found, info, nil
}

// systemLogNames lists a directory of the logs.
func (h *Host) systemLogNames(path string) (io.ReadCloser, error) {
	found, info, err := h.findSystemLog(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "list", Path: path, Err: unix.ENOTDIR}
	}
	dir, err := os.Open(procFile(found))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(maxSystemLogNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var names bytes.Buffer
	for _, e := range entries {
		names.WriteString(e.Name())
		if e.IsDir() {
			names.WriteByte('/')
		}
		names.WriteByte(0)
	}
	return io.NopCloser(&names), nil
}
