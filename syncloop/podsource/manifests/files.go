package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	sourceFile = "file"
	sourceHTTP = "http"
	// maxManifest bounds what is read of a file or URL (kubelet: maxConfigLength).
	maxManifest = 10 << 20
	// maxFiles bounds a directory: a node has room for no more pods.
	maxFiles = 1000
)

// file is one that may hold a manifest.
type file struct {
	path string
	// stamp changes with its contents.
	stamp string
}

// list returns the files of a path: itself, or those directly in it, but hidden ones and
// what is no regular file (kubelet: sourceFile). A path that is not there has none.
func list(path string) ([]file, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		return []file{{path, stamp(info)}}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("%s is neither a directory nor a regular file", path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries { // in the order of their names
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		at := filepath.Join(path, e.Name())
		info, err := os.Stat(at) // follows links, as a kubelet does
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, file{at, stamp(info)})
		}
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%s has %d files, at most %d are possible", path, len(files), maxFiles)
	}
	return files, nil
}

func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// read reads a manifest. It never waits for a FIFO that took the file's place.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", path), err)
	}
	return readAtMost(f, path)
}

func readAtMost(r io.Reader, place string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("%s has more than %d bytes", place, maxManifest)
	}
	return data, err
}

// fromFiles reads the pods of files. Of two with the same name or UID the first file's stays.
func fromFiles(files []file, node string) (pods []*corev1.Pod, err error) {
	var errs []error
	for _, f := range files {
		data, err := read(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went a moment ago
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read manifest: %w", err))
			continue
		}
		found, err := decode(data, origin{sourceFile, f.path, node})
		errs = append(errs, err)
		for _, pod := range found {
			if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return same(p, pod) }) {
				errs = append(errs, fmt.Errorf(
					"manifest %s: another file has pod %s/%s, or its UID %s, too", f.path, pod.Namespace, pod.Name, pod.UID,
				))
				continue
			}
			pods = append(pods, pod)
		}
	}
	return pods, errors.Join(errs...)
}
