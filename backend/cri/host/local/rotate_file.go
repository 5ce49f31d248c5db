package local

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file to a name that nothing has. Errors: fs.ErrExist.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system that cannot: a link fails where there is something.
		if err = unix.Link(from, to); err == nil {
			err = unix.Unlink(from)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// compress puts a compressed file in the place of a rotated one.
func compress(ctx context.Context, file string) (err error) {
	in, info, err := openRegular(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	tmp := file + tmpSuffix
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = errors.Join(writeCompressed(ctx, out, in), out.Close())
	if err == nil {
		err = os.Rename(tmp, file+compressedSuffix)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compress %s: %w", file, err), os.Remove(tmp))
	}
	return os.Remove(file)
}

func writeCompressed(ctx context.Context, out *os.File, in io.Reader) error {
	w := gzip.NewWriter(out)
	if _, err := io.Copy(w, contextReader{ctx.Err, in}); err != nil {
		return err
	}
	return w.Close()
}

// contextReader ends with a context.
type contextReader struct {
	ended func() error
	r     io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ended(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
