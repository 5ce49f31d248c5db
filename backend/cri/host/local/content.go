package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// A volume with contents looks as the kubelet's (AtomicWriter), because programs
// watch for just that:
//
//	..2026_11_21_10_00_00.123/  the contents
//	..data -> ..2026_11_21_10_00_00.123
//	name -> ..data/name         for each first part of a path
//
// New contents are written beside the old ones, and one rename swaps them.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	dataDirs    = "..2006_01_02_15_04_05."
)

// Limits of paths (kubelet: atomic_writer.go).
const (
	maxFileName = 255
	maxPath     = 4096
)

// contentWriter writes the contents of one volume. Its root is never left.
type contentWriter struct{ root *os.Root }

func openContents(dir string) (*contentWriter, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &contentWriter{root: root}, nil
}

// write swaps in files; owned is called before, when they are all there. With an
// error before the swap the former contents stay as they were.
func (w *contentWriter) write(files []host.File, owned func() error) (data string, err error) {
	files, err = cleanFiles(files)
	if err != nil {
		return "", err
	}
	old, err := w.root.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// What a crash left takes up room.
	if err := w.removeData(old); err != nil {
		return "", err
	}
	data = time.Now().UTC().Format(dataDirs) + strconv.FormatUint(uint64(rand.Uint32()), 10)
	if err := w.swap(data, files, owned); err != nil {
		return "", errors.Join(err, w.root.RemoveAll(data), ignoreMissing(w.root.Remove(newDataLink)))
	}
	if err := w.show(files); err != nil {
		return "", err
	}
	if err := w.hide(files); err != nil {
		return "", err
	}
	return data, w.removeData(data)
}

// swap writes a new directory and makes it the contents.
func (w *contentWriter) swap(data string, files []host.File, owned func() error) error {
	if err := w.mkdir(data); err != nil {
		return err
	}
	for _, f := range files {
		if err := w.writeFile(data, f); err != nil {
			return err
		}
	}
	if err := owned(); err != nil {
		return err
	}
	if err := w.root.Symlink(data, newDataLink); err != nil {
		return err
	}
	return w.root.Rename(newDataLink, dataLink)
}

// mkdir makes a directory that everyone may enter, whatever the umask.
func (w *contentWriter) mkdir(name string) error {
	if err := w.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return w.root.Chmod(name, 0o755)
}

func (w *contentWriter) writeFile(data string, file host.File) error {
	dir := data
	parent, base := path.Split(file.Path)
	for _, part := range strings.FieldsFunc(parent, func(r rune) bool { return r == '/' }) {
		dir = path.Join(dir, part)
		if err := w.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := w.root.OpenFile(path.Join(dir, base), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	if err == nil {
		err = f.Chmod(os.FileMode(file.Mode) & os.ModePerm)
	}
	if err == nil && file.UID != nil {
		err = f.Chown(int(*file.UID), -1)
	}
	return errors.Join(err, f.Close())
}

// show makes the links that users see.
func (w *contentWriter) show(files []host.File) error {
	for _, f := range files {
		name := firstPart(f.Path)
		want := path.Join(dataLink, name)
		if now, err := w.root.Readlink(name); err == nil && now == want {
			continue
		}
		// A directory made for a nested mount is not ours to replace; as at the
		// kubelet it hides the file.
		if info, err := w.root.Lstat(name); err == nil && info.IsDir() {
			continue
		}
		if err := ignoreMissing(w.root.Remove(name)); err != nil {
			return err
		}
		if err := w.root.Symlink(want, name); err != nil {
			return err
		}
		if f.UID == nil {
			continue
		}
		if err := w.root.Lchown(name, int(*f.UID), -1); err != nil {
			return err
		}
	}
	return nil
}

// hide removes the links to what the contents have no more.
func (w *contentWriter) hide(files []host.File) error {
	wanted := make(map[string]bool, len(files))
	for _, f := range files {
		wanted[firstPart(f.Path)] = true
	}
	names, err := w.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if wanted[name] || strings.HasPrefix(name, "..") {
			continue
		}
		if target, err := w.root.Readlink(name); err != nil || target != path.Join(dataLink, name) {
			continue
		}
		if err := ignoreMissing(w.root.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// removeData removes contents other than those named, with what a crash left.
func (w *contentWriter) removeData(keep string) error {
	names, err := w.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "..") || name == dataLink || name == keep {
			continue
		}
		if err := w.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *contentWriter) names() ([]string, error) {
	dir, err := w.root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	return names, errors.Join(err, dir.Close())
}

// cleanFiles checks and cleans the paths; of two on one path the later counts.
func cleanFiles(files []host.File) ([]host.File, error) {
	clean := make([]host.File, 0, len(files))
	at := make(map[string]int, len(files))
	for _, f := range files {
		if err := checkContentPath(f.Path); err != nil {
			return nil, err
		}
		f.Path = path.Clean(f.Path)
		if i, twice := at[f.Path]; twice {
			clean[i] = f
			continue
		}
		at[f.Path] = len(clean)
		clean = append(clean, f)
	}
	return clean, nil
}

// checkContentPath has the kubelet's words (validatePath).
func checkContentPath(p string) error {
	switch {
	case p == "" || path.Clean(p) == ".":
		return fmt.Errorf("invalid path: must not be empty: %q", p)
	case path.IsAbs(p):
		return fmt.Errorf("invalid path: must be relative path: %s", p)
	case len(p) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	case backsteps(p):
		return fmt.Errorf("invalid path: must not contain '..': %s", p)
	case strings.HasPrefix(path.Clean(p), ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", p)
	}
	for item := range strings.SplitSeq(p, "/") {
		if len(item) > maxFileName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxFileName)
		}
	}
	return nil
}

// backsteps is true for a path with an element "..".
func backsteps(p string) bool {
	for item := range strings.SplitSeq(filepath.ToSlash(p), "/") {
		if item == ".." {
			return true
		}
	}
	return false
}

func firstPart(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// WriteContents makes files the contents of a directory that is there, as those of
// a volume: one rename swaps them in, for every reader. A group, where there is
// one, may read all of it, before that (kubelet: fsGroup). It is for those who have
// volumes but no directory of a pod.
func WriteContents(ctx context.Context, dir string, files []host.File, group *int64) error {
	w, err := openContents(dir)
	if err != nil {
		return err
	}
	_, err = w.write(files, func() error {
		if group == nil {
			return nil
		}
		return setOwnership(ctx, dir, ownership{group: int(*group), readOnly: true})
	})
	return errors.Join(err, w.root.Close())
}
