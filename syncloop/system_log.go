package syncloop

import (
	"context"
	"fmt"
	"io"

	"github.com/burstlet/burstlet/backend"
)

// SystemLog opens logs of the pods' host, as [backend.SystemLogs] does. Errors: Unsupported
// where the backend has no host.
func (l *Loop) SystemLog(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	if l.cfg.Backend.SystemLogs == nil {
		return nil, l.unlent("logs of a host")
	}
	stream, err := l.cfg.Backend.SystemLogs.Open(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("open logs of the node: %w", err)
	}
	return stream, nil
}
