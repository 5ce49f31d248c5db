package streams

import (
	"context"
	"fmt"
	"io"

	"github.com/burstlet/burstlet/backend"
)

// SystemLog opens logs of the pods' host, as [backend.SystemLogs] does. Errors: Unsupported
// where the backend has no host.
func (s *Server) SystemLog(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	if s.backend.SystemLogs == nil {
		return nil, s.unlent("logs of a host")
	}
	stream, err := s.backend.SystemLogs.Open(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("open logs of the node: %w", err)
	}
	return stream, nil
}
