package intask

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxShared bounds a file of /etc that is rewritten (kubelet: maxResolvConfLength).
const maxShared = 10 << 20

// rewrite changes a file in its place: /etc/hosts and /etc/resolv.conf are mounts,
// which no other file can replace, and may be the same ones in each container of a
// task. So one supervisor at a time changes them, and a reader never finds them
// empty.
func rewrite(path string, change func(old []byte) ([]byte, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := rewriteOpen(f, change); err != nil {
		return fmt.Errorf("rewrite %s: %w", path, errors.Join(err, f.Close()))
	}
	return f.Close()
}

// rewriteOpen holds a lock that ends with the file.
func rewriteOpen(f *os.File, change func(old []byte) ([]byte, error)) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return os.NewSyscallError("flock", err)
	}
	old, err := io.ReadAll(io.LimitReader(f, maxShared))
	if err != nil {
		return err
	}
	text, err := change(old)
	if err != nil || bytes.Equal(old, text) {
		return err
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}
