package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// ReadWithin implements [host.Host]. The file is opened with O_PATH first, so that a pipe
// or a device that stands there is not waited for.
func (h *Host) ReadWithin(ctx context.Context, f host.FileWithin) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := openSubPath(host.SubPath{Volume: f.Dir, Path: f.Path, ReadOnly: true})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", class.ErrInvalid, err)
	}
	data, err := readOpened(found, f.Limit)
	if err = errors.Join(err, found.Close()); err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", f.Path, f.Dir, err)
	}
	return data, nil
}

// readOpened reads a file that was opened with O_PATH.
func readOpened(found *os.File, limit int64) ([]byte, error) {
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %w", class.ErrInvalid, errNotRegular)
	}
	file, err := os.Open(procFile(found))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if int64(len(data)) > limit && err == nil {
		data, err = nil, fmt.Errorf("%w: larger than %d bytes", class.ErrInvalid, limit)
	}
	return data, errors.Join(err, file.Close())
}
