package local

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	// maxUnsized bounds what is read of a file that does not have a size, as
	// those of /proc.
	maxUnsized = 64 << 20
	readBlock  = 64 << 10
)

// ReadFile implements [host.Host].
func (h *Host) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	var out []byte
	if size := info.Size(); size > 0 {
		limit = min(max(limit, 0), size)
		out, err = io.ReadAll(io.NewSectionReader(f, size-limit, limit))
	} else {
		out, err = readEnd(f, max(limit, 0))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

// readEnd returns the last limit bytes of what there is to read.
func readEnd(r io.Reader, limit int64) ([]byte, error) {
	var out []byte
	block := make([]byte, readBlock)
	r = io.LimitReader(r, maxUnsized)
	for {
		n, err := r.Read(block)
		out = append(out, block[:n]...)
		if over := int64(len(out)) - limit; over > 0 && (over > readBlock || err != nil) {
			out = append(out[:0], out[over:]...)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
