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
	"strings"
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
	// prints. Nil: nothing is written.
	Log io.Writer
}

// Cache holds built programs. It is safe for use by several processes.
type Cache struct {
	dir string
	log io.Writer
}

// NewCache returns the cache; it touches no file.
func NewCache(cfg CacheConfig) (*Cache, error) {
	c := &Cache{dir: cfg.Dir, log: cfg.Log}
	if c.log == nil {
		c.log = io.Discard
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

func defaultDir() (string, error) {
	root := os.Getenv(CacheEnv)
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(user, "burstlet")
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

// Build returns the path of a program and builds it first when it is missing.
// One build runs at a time, whichever process asks; a second caller waits and
// then finds the program. A build that fails or is cancelled leaves no program.
func (c *Cache) Build(ctx context.Context, t Tool) (string, error) {
	if path, err := c.Lookup(t); err == nil || !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	src, err := t.source()
	if err != nil {
		return "", err
	}
	return c.build(ctx, t, src)
}

func (c *Cache) build(ctx context.Context, t Tool, src source) (_ string, err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", t, err)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", t, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Whoever held the lock may have built it.
	if path, err := c.Lookup(t); err == nil || !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	if err := c.removeScratch(); err != nil {
		return "", fmt.Errorf("build %s: %w", t, err)
	}
	name, err := t.fileName()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, name)
	if err := c.compile(ctx, path, src); err != nil {
		return "", fmt.Errorf("build %s %s: %w", t, src.version, err)
	}
	return path, nil
}

// printf writes a progress line. Progress is a courtesy: an error of the
// writer must not fail a build.
func (c *Cache) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}
