package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// ErrNotBuilt says that a program is not in the cache.
var ErrNotBuilt = errors.New("not built")

// CacheEnv names the environment variable that replaces <user cache>/burstlet.
const CacheEnv = "BURSTLET_CACHE"

// CacheConfig says where programs are kept.
type CacheConfig struct {
	// Dir holds the programs. Empty: the directory for the pinned versions
	// under CacheEnv or the user's cache directory.
	Dir string
	// Log receives a line when a build starts and ends, and what the go command
	// prints; one write at a time. Nil: nothing is written.
	Log io.Writer
}

// Cache holds built programs. It is safe for use by several processes.
type Cache struct {
	dir string
	log io.Writer
}

// NewCache returns the cache; it touches no file.
func NewCache(cfg CacheConfig) (*Cache, error) {
	c := &Cache{dir: cfg.Dir, log: io.Discard}
	if cfg.Log != nil {
		c.log = &oneByOne{to: cfg.Log}
	}
	if c.dir == "" {
		dir, err := defaultDir()
		if err != nil {
			return nil, fmt.Errorf("choose cache directory: %w", err)
		}
		c.dir = dir
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return nil, fmt.Errorf("choose cache directory: %w", err)
	}
	c.dir = dir
	return c, nil
}

// CacheRoot returns the directory of all that tests keep for the next time: that of
// CacheEnv, or one below the user's cache directory.
func CacheRoot() (string, error) {
	if root := os.Getenv(CacheEnv); root != "" {
		return root, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w", err)
	}
	return filepath.Join(user, "burstlet"), nil
}

func defaultDir() (string, error) {
	root, err := CacheRoot()
	if err != nil {
		return "", err
	}
	kubernetes, err := KubeAPIServer.Version()
	if err != nil {
		return "", err
	}
	etcd, err := Etcd.Version()
	if err != nil {
		return "", err
	}
	goVersion, _, _ := strings.Cut(runtime.Version(), " ")
	return filepath.Join(root, kubernetes+"-"+etcd+"-"+goVersion), nil
}

// Dir returns the directory that holds the programs.
func (c *Cache) Dir() string { return c.dir }

// Lookup returns the path of a built program, or an error that wraps
// ErrNotBuilt.
func (c *Cache) Lookup(t Tool) (string, error) {
	name, err := t.fileName()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look up %s in %s: %w", t, c.dir, ErrNotBuilt)
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", t, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("look up %s: %s is not an executable file", t, path)
	}
	return path, nil
}

// Build returns the path of a program and builds it first when it is missing; see
// BuildAll.
func (c *Cache) Build(ctx context.Context, t Tool) (string, error) {
	if path, err := c.Lookup(t); err == nil || !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	if err := c.BuildAll(ctx, t); err != nil {
		return "", err
	}
	return c.Lookup(t)
}

// BuildAll builds those programs that are missing, those of a module at once and two
// modules side by side. One process builds at a time, whichever asks; a second caller
// waits and then finds the programs. A build that fails or is cancelled leaves no
// program of its module.
func (c *Cache) BuildAll(ctx context.Context, tools ...Tool) error {
	missing, err := c.missing(tools)
	if err != nil || len(missing) == 0 {
		return err
	}
	return c.buildAll(ctx, missing)
}

// missing are the programs of tools that are not in the cache, with their sources.
func (c *Cache) missing(tools []Tool) ([]program, error) {
	var missing []program
	for i, t := range tools {
		_, err := c.Lookup(t)
		if err == nil || slices.Contains(tools[:i], t) {
			continue
		}
		if !errors.Is(err, ErrNotBuilt) {
			return nil, err
		}
		src, err := t.source()
		if err != nil {
			return nil, err
		}
		missing = append(missing, program{tool: t, source: src})
	}
	return missing, nil
}

func (c *Cache) buildAll(ctx context.Context, programs []program) (err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("build %s: %w", names(programs), err)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return fmt.Errorf("build %s: %w", names(programs), err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Whoever held the lock may have built some.
	var missing []program
	for _, p := range programs {
		_, err := c.Lookup(p.tool)
		if errors.Is(err, ErrNotBuilt) {
			missing = append(missing, p)
		} else if err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := c.removeScratch(); err != nil {
		return fmt.Errorf("build %s: %w", names(missing), err)
	}
	builds, ctx := errgroup.WithContext(ctx)
	for _, line := range lines(missing) {
		builds.Go(func() error {
			for _, batch := range line {
				if err := c.compile(ctx, batch); err != nil {
					return fmt.Errorf("build %s %s: %w", names(batch), batch[0].version, err)
				}
			}
			return nil
		})
	}
	return builds.Wait()
}

// oneByOne is a writer for builds that go on side by side.
type oneByOne struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneByOne) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// printf writes a progress line. Progress is a courtesy: an error of the
// writer must not fail a build.
func (c *Cache) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}
