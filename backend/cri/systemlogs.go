package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// systemLogs implements [backend.SystemLogs].
type systemLogs struct{ *remote }

// Open has the host read its own logs.
func (s systemLogs) Open(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	stream, err := s.host.SystemLog(ctx, host.SystemLogRequest{
		Path: q.Path, Services: q.Services, Since: s.clock.theirs(q.Since), Until: s.clock.theirs(q.Until),
		TailLines: q.TailLines, Boot: q.Boot, Pattern: q.Pattern,
	})
	switch {
	case isNotExist(err), errors.Is(err, syscall.ENOTDIR): // part of the path is a file
		return nil, backend.Errorf(backend.ErrNotFound, "read log %q of the host: %w", q.Path, err)
	case err != nil:
		return nil, fmt.Errorf("read log %q of the host: %w", q.Path, err)
	}
	return stream, nil
}
