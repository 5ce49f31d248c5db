package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// sourceTypes are the types of hostPath volumes (corev1.HostPathType): what has to
// be there, what the kubelet calls it, and what makes it.
var sourceTypes = map[string]struct {
	is   func(fs.FileMode) bool
	noun string
	make func(within, path string) error
}{
	"DirectoryOrCreate": {fs.FileMode.IsDir, "directory", makeDirectory},
	"Directory":         {fs.FileMode.IsDir, "directory", nil},
	"FileOrCreate":      {fs.FileMode.IsRegular, "file", makeFile},
	"File":              {fs.FileMode.IsRegular, "file", nil},
	"Socket":            {isSocket, "socket file", nil},
	"CharDevice":        {isCharDevice, "character device", nil},
	"BlockDevice":       {isBlockDevice, "block device", nil},
}

// checkSource checks a hostPath, or makes it (kubelet: host_path.go checkType).
func checkSource(ctx context.Context, s host.Source) error {
	if s.Type == "" {
		return nil
	}
	t, known := sourceTypes[s.Type]
	if !known {
		return fmt.Errorf("%s is an invalid volume type", s.Type)
	}
	return bounded(ctx, "check "+s.Path, func() error {
		info, err := statWithin(s.Within, s.Path)
		switch {
		case err == nil && t.is(info.Mode()):
			return nil
		case errors.Is(err, fs.ErrNotExist) && t.make != nil:
			return t.make(s.Within, s.Path)
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("hostPath type check failed: %s is not a %s: %w", s.Path, t.noun, fs.ErrNotExist)
		case err != nil:
			return fmt.Errorf("hostPath type check failed: %w", err)
		}
		return fmt.Errorf("hostPath type check failed: %s is not a %s", s.Path, t.noun)
	})
}

func makeDirectory(within, path string) error {
	if within == "" {
		return mkdirAll(path, directoryMode)
	}
	f, err := openWithin(within, path, true)
	if err != nil {
		return err
	}
	return f.Close()
}

// makeFile makes an empty file, and no directory for it.
func makeFile(within, path string) error {
	f, err := createFile(within, path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The umask took bits away.
	return errors.Join(f.Chmod(0o644), f.Close())
}

func isSocket(mode fs.FileMode) bool { return mode&fs.ModeSocket != 0 }

func isCharDevice(mode fs.FileMode) bool { return mode&fs.ModeCharDevice != 0 }

func isBlockDevice(mode fs.FileMode) bool {
	return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
}
