package local

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// directoryMode is that of directories that a hostPath volume makes.
const directoryMode = 0o755

// openWithin opens a path of the host that must be below another one. It opens it step by
// step, like a path in a volume, so that a process that may write there cannot redirect it.
// With create it makes missing directories. Errors: fs.ErrPermission for a path that leads
// out.
func openWithin(within, path string, create bool) (*os.File, error) {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(within, "/")+"/")
	if path == within {
		rest, below = ".", true
	}
	if !below || backsteps(rest) {
		return nil, fmt.Errorf("open %s within %s: it is not below: %w", path, within, fs.ErrPermission)
	}
	s := host.SubPath{Volume: within, Path: rest, ReadOnly: !create}
	base, err := openVolume(s)
	if err != nil {
		return nil, err
	}
	w := &subPathWalk{subPath: s, volume: base.Name(), stack: []*os.File{base}, rest: split(rest), mode: directoryMode}
	f, err := w.open()
	if err != nil {
		return nil, fmt.Errorf("open %s within %s: %w", path, within, err)
	}
	return f, nil
}

// statWithin is os.Stat of a path that has to be below another one, if one is given.
func statWithin(within, path string) (fs.FileInfo, error) {
	if within == "" {
		return os.Stat(path)
	}
	f, err := openWithin(within, path, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return f.Stat()
}

// createFile makes a file that is not there, in a directory that is.
func createFile(within, path string) (*os.File, error) {
	const flags, mode = os.O_RDONLY | os.O_CREATE | os.O_EXCL, 0o644
	if within == "" {
		return os.OpenFile(path, flags, mode)
	}
	dir, err := openWithin(within, filepath.Dir(path), false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // it is there, whatever becomes of the file
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
