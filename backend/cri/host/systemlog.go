package host

import "time"

// SystemLogRequest asks for logs of the host: see backend.SystemLogQuery. Since and Until
// are the host's time.
type SystemLogRequest struct {
	Path            string
	Services        []string
	Since, Until    time.Time
	TailLines, Boot *int
	Pattern         string
}
