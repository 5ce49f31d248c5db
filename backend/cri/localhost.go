package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// localHost does the host operations on this machine.
type localHost struct {
	// cgroupRoot is where cgroups are mounted: /sys/fs/cgroup.
	cgroupRoot string
}

func (localHost) MkdirAll(_ context.Context, path string) error { return os.MkdirAll(path, 0o755) }

func (localHost) RemoveAll(_ context.Context, path string) error { return os.RemoveAll(path) }

func (localHost) Symlink(_ context.Context, target, link string) error {
	err := os.Symlink(target, link)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	if err := os.Remove(link); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

func (localHost) MakeShared(_ context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	// The umask took bits away.
	return errors.Join(f.Chmod(0o666), f.Close())
}

func (localHost) ReadFile(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }

func (localHost) Open(_ context.Context, path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// RemoveCgroup takes parents of the cgroupfs driver; systemd removes its slices
// by itself once they are empty.
func (h localHost) RemoveCgroup(_ context.Context, parent string) error {
	if !strings.HasPrefix(parent, "/") || filepath.Clean(parent) != parent || strings.Count(parent, "/") < 2 {
		return nil
	}
	// Version 2 and 1: one hierarchy at the root, or one per controller below.
	dirs, err := filepath.Glob(filepath.Join(h.cgroupRoot, "*", globEscape(parent)))
	if err != nil {
		return fmt.Errorf("find cgroup %s: %w", parent, err)
	}
	for _, dir := range append(dirs, filepath.Join(h.cgroupRoot, parent)) {
		if err := removeEmptyDirs(dir); err != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// removeEmptyDirs removes a directory and those below it, deepest first. The
// files of a cgroup are the kernel's and go with their directory.
func removeEmptyDirs(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := syscall.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (localHost) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func (localHost) Arch(context.Context) (string, error) { return runtime.GOARCH, nil }

// Addresses are those of the interface with the default route, else of every
// interface that is up, without loopback and link-local ones.
func (h localHost) Addresses(ctx context.Context) ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	primary := h.defaultInterface(ctx)
	var out []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		if primary != "" && i.Name != primary {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		out = append(out, globals(addrs)...)
	}
	return out, nil
}

// defaultInterface is the interface of the default route, or "".
func (h localHost) defaultInterface(ctx context.Context) string {
	table, err := h.ReadFile(ctx, "/proc/net/route")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(table)) {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask
		if f := strings.Fields(line); len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

func globals(addrs []net.Addr) []string {
	var out []string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() {
			out = append(out, prefix.Addr().String())
		}
	}
	return out
}

// Watch uses inotify on the file itself.
func (localHost) Watch(_ context.Context, path string) (watch, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	if err := w.Add(path); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), w.Close())
	}
	lw := &localWatch{watcher: w, changed: make(chan struct{}, 1), done: make(chan struct{})}
	go lw.forward()
	return lw, nil
}

type localWatch struct {
	watcher *fsnotify.Watcher
	changed chan struct{}
	done    chan struct{}
}

// forward turns events into hints, of which one can wait, until Close.
func (w *localWatch) forward() {
	defer close(w.done)
	for {
		select {
		case _, ok := <-w.watcher.Events:
			if !ok {
				return
			}
		case _, ok := <-w.watcher.Errors:
			// An overflow of the queue is a reason to look, too.
			if !ok {
				return
			}
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (w *localWatch) Changed() <-chan struct{} { return w.changed }

func (w *localWatch) Close() error {
	err := w.watcher.Close()
	<-w.done
	return err
}
