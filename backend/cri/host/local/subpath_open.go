package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// openSubPath opens a path within a volume, with O_PATH: what is there is neither
// read nor waited for.
func openSubPath(s host.SubPath) (*os.File, error) {
	if filepath.IsAbs(s.Path) {
		return nil, fmt.Errorf("error SubPath `%s` must not be an absolute path: %w", s.Path, fs.ErrInvalid)
	}
	if backsteps(s.Path) {
		return nil, fmt.Errorf("unable to provision SubPath `%s`: must not contain '..': %w", s.Path, fs.ErrInvalid)
	}
	base, err := openVolume(s)
	if err != nil {
		return nil, err
	}
	w := &subPathWalk{subPath: s, volume: base.Name(), stack: []*os.File{base}, rest: split(s.Path)}
	return w.open()
}

// openVolume opens the directory of a volume. Its name is the path without links.
func openVolume(s host.SubPath) (*os.File, error) {
	if s.Within != "" {
		return openWithin(s.Within, s.Volume, !s.ReadOnly)
	}
	volume, err := filepath.EvalSymlinks(s.Volume)
	if err != nil {
		return nil, fmt.Errorf("error resolving symlinks in %q: %w", s.Volume, err)
	}
	base, err := os.OpenFile(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open directory %s: %w", volume, err)
	}
	return base, nil
}

// open returns what the path leads to and closes all else.
func (w *subPathWalk) open() (*os.File, error) {
	opened, err := w.walk()
	for _, f := range w.stack {
		if f != opened {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil && opened != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, err
}

// subPathWalk goes down a volume one step at a time. The directories that it came
// through stay open, so that ".." in a link leads back the way it came, wherever
// they are by now.
type subPathWalk struct {
	subPath host.SubPath
	// volume is the path of the volume, without links.
	volume string
	stack  []*os.File
	rest   []string
	links  int
	// mode is that of directories that are made; 0 is the volume's own.
	mode uint32
}

// walk returns the last one opened.
func (w *subPathWalk) walk() (*os.File, error) {
	for len(w.rest) > 0 {
		step := w.rest[0]
		w.rest = w.rest[1:]
		if step == ".." {
			if err := w.back(); err != nil {
				return nil, err
			}
			continue
		}
		next, err := w.step(step)
		if err != nil {
			return nil, err
		}
		info, err := next.Stat()
		if err != nil {
			return nil, errors.Join(err, next.Close())
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			w.stack = append(w.stack, next)
			continue
		}
		if err := errors.Join(w.follow(next), next.Close()); err != nil {
			return nil, err
		}
	}
	return w.top(), nil
}

func (w *subPathWalk) top() *os.File { return w.stack[len(w.stack)-1] }

// back takes the last step back, but not out of the volume.
func (w *subPathWalk) back() error {
	if len(w.stack) == 1 {
		return w.outside(filepath.Join(append([]string{w.volume, ".."}, w.rest...)...))
	}
	last := w.top()
	w.stack = w.stack[:len(w.stack)-1]
	return last.Close()
}

func (w *subPathWalk) outside(path string) error {
	return fmt.Errorf("subpath %q not within volume path %q: %w", path, w.volume, fs.ErrPermission)
}

// follow puts what a link says before the rest of the path.
func (w *subPathWalk) follow(link *os.File) error {
	if w.links++; w.links > maxLinks {
		return fmt.Errorf("cannot open %s: %w", link.Name(), unix.ELOOP)
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", target)
	if err != nil {
		return fmt.Errorf("error resolving symlinks in %q: %w", link.Name(), err)
	}
	to := string(target[:n])
	if filepath.IsAbs(to) {
		// It is the host's path, as at the kubelet, and may lead back into the volume.
		base := slices.IndexFunc([]string{w.volume, filepath.Clean(w.subPath.Volume)}, func(b string) bool {
			return within(filepath.Clean(to), b)
		})
		if base < 0 || backsteps(to) {
			return w.outside(filepath.Join(append([]string{to}, w.rest...)...))
		}
		to = strings.TrimPrefix(filepath.Clean(to), []string{w.volume, filepath.Clean(w.subPath.Volume)}[base])
		for len(w.stack) > 1 {
			if err := w.back(); err != nil {
				return err
			}
		}
	}
	w.rest = append(split(to), w.rest...)
	return nil
}

// step opens the next step, and makes it where it is missing.
func (w *subPathWalk) step(step string) (*os.File, error) {
	path := filepath.Join(w.top().Name(), step)
	dir := int(w.top().Fd())
	fd, err := openat(dir, step, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) && !w.subPath.ReadOnly {
		return w.mkdir(step, path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mkdir makes the next step with the mode of the volume's directory (kubelet:
// GetMode, SafeMakeDir). What a pod puts in its place is opened only if it is a
// directory, and is then the pod's own.
func (w *subPathWalk) mkdir(step, path string) (*os.File, error) {
	var volume unix.Stat_t
	if err := unix.Fstat(int(w.stack[0].Fd()), &volume); err != nil {
		return nil, fmt.Errorf("error running fstat on %s with %w", w.volume, err)
	}
	mode := cmp.Or(w.mode, volume.Mode&0o7777)
	dir := int(w.top().Fd())
	made := unix.Mkdirat(dir, step, mode&0o777)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, fmt.Errorf("cannot create directory %s: %w", path, made)
	}
	fd, err := openat(dir, step, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if made == nil {
		if err := unix.Fchmod(fd, mode); err != nil {
			return nil, errors.Join(fmt.Errorf("chmod %q failed: %w", path, err), f.Close())
		}
	}
	return f, nil
}

// split takes a path apart; "." and empty parts mean nothing.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(p string) bool { return p == "" || p == "." })
}
