package cri

import (
	"context"
	"io"
	"net"
)

// host is what the pods' host must do that CRI cannot. Paths are absolute and
// the host's own. The local implementation is [localHost]; the same list over a
// remote shell makes the host remote.
type host interface {
	// MkdirAll makes a directory with its parents; it may be there already.
	MkdirAll(ctx context.Context, path string) error
	// RemoveAll removes a file, link or tree; it may be gone already.
	RemoveAll(ctx context.Context, path string) error
	// Symlink makes link point to target; a link that does so already is fine,
	// another one is replaced.
	Symlink(ctx context.Context, target, link string) error
	// MakeShared makes an empty file that every user may write to, in a directory
	// that only root can enter; it may be there already, with whatever is in it.
	MakeShared(ctx context.Context, path string) error
	// ReadFile reads a small file. Errors: fs.ErrNotExist.
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// Open opens a file to read. Errors: fs.ErrNotExist.
	Open(ctx context.Context, path string) (file, error)
	// Watch tells of writes to a file until the watch is closed.
	Watch(ctx context.Context, path string) (watch, error)
	// RemoveCgroup removes the pod cgroup that the runtime made, in every
	// hierarchy, with the empty ones below. parent is a sandbox's cgroup parent.
	RemoveCgroup(ctx context.Context, parent string) error
	// Addresses are the host's own, that of its default route first.
	Addresses(ctx context.Context) ([]string, error)
	// Dial opens a TCP connection from the host. Errors: the connection's own.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// Arch is the host's architecture, a GOARCH word.
	Arch(ctx context.Context) (string, error)
}

// file is an open file of the host.
type file interface {
	io.ReadSeekCloser
	io.ReaderAt
}

// watch tells that a file was written to since it was last asked. A hint may
// be repeated, and one may stand for many writes.
type watch interface {
	Changed() <-chan struct{}
	Close() error
}
