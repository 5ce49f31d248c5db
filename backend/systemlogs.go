package backend

import (
	"context"
	"io"
	"time"
)

// SystemLogs reads what the pods' host itself logs (kubelet: /logs/). It is nil where pods
// share no host.
type SystemLogs interface {
	// Open streams a file, the names in a directory, or what services logged. The reader
	// ends with the context. Errors, of files alone: NotFound; Invalid for what is no file,
	// or elsewhere, and with syscall.EISDIR for a directory that was not asked for as one.
	Open(ctx context.Context, q SystemLogQuery) (io.ReadCloser, error)
}

// SystemLogQuery asks for a path or for services.
type SystemLogQuery struct {
	// Path is below the host's /var/log. With a slash at its end, or empty, it is that of a
	// directory: its names are streamed, each with a NUL at its end, those of directories
	// with a slash before.
	Path string
	// Services are those whose logs are wanted, by the names of their units, or of their
	// files where they have no unit; nil: a path is. What cannot be had of them is told in
	// the text.
	Services []string
	// Since and Until bound the time; zero is no bound.
	Since, Until time.Time
	// TailLines is the number of lines from the end, Boot that of the boot, 0 or less; nil
	// is not given.
	TailLines, Boot *int
	// Pattern is a regular expression that lines match (PCRE2).
	Pattern string
}
