package ecsrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// volumes makes the directories of a task's volumes and returns them by name (ECS
// developer guide, "Bind mounts": 0755 and root's).
func (r *Runner) volumes(dir string, specs []ecs.VolumeSpec) (map[string]string, error) {
	at := map[string]string{}
	for _, v := range specs {
		if v.FileSystem != "" {
			path, err := r.fileSystem(v)
			if err != nil {
				return nil, err
			}
			at[v.Name] = path
			continue
		}
		at[v.Name] = filepath.Join(dir, "volumes", v.Name)
		if err := makeDir(at[v.Name]); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make volume: %w", err)
	}
	return nil
}

// Storage counts what stands in the task's own volumes.
func (t *task) Storage(context.Context) (uint64, error) {
	var used uint64
	err := filepath.WalkDir(filepath.Join(t.dir, "volumes"), func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile, or there is no volume
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			used += uint64(s.Blocks) * blockSize
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count what is in volumes: %w", err)
	}
	return used, nil
}

// blockSize is that of stat(2)'s st_blocks.
const blockSize = 512

// fileSystem is the directory of a shared file system that a volume mounts (EFS user
// guide: the root directory is root's, 0755; a mount of a directory that is not there
// fails).
func (r *Runner) fileSystem(v ecs.VolumeSpec) (path string, err error) {
	top := filepath.Join(systemsDir(r.dir), v.FileSystem)
	if err := makeDir(top); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return "", fmt.Errorf("open file system %s: %w", v.FileSystem, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	in := filepath.Clean("/" + v.Root)
	info, err := root.Stat("." + strings.TrimSuffix(in, "/"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", fmt.Errorf("failed to invoke EFS utils commands to set up EFS volumes: stderr: mount.nfs4: mounting "+
			"%s:%s failed, reason given by server: No such file or directory",
			v.FileSystem, in)
	}
	if err != nil {
		return "", fmt.Errorf("find %s of file system %s: %w", in, v.FileSystem, err)
	}
	return filepath.Join(top, in), nil
}
