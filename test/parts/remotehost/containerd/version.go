package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/burstlet/burstlet/test/parts/binaries"
)

// Version is which containerd a host runs.
type Version string

// The versions. Own is the machine's, of its distribution; the others are built of
// their modules.
const (
	Own Version = ""
	V17 Version = "1.7"
	V2  Version = "2"
)

// programs are those of a version by the names under which they find each other.
func (v Version) programs() (map[string]binaries.Tool, error) {
	switch v {
	case Own:
		return nil, nil
	case V17:
		return map[string]binaries.Tool{
			"containerd": binaries.Containerd17, "containerd-shim-runc-v2": binaries.Containerd17Shim,
			"ctr": binaries.Containerd17Ctr,
		}, nil
	case V2:
		return map[string]binaries.Tool{
			"containerd": binaries.Containerd2, "containerd-shim-runc-v2": binaries.Containerd2Shim,
			"ctr": binaries.Containerd2Ctr,
		}, nil
	}
	return nil, fmt.Errorf("there is no containerd %q here: %q, %q, or none for the machine's own", v, V17, V2)
}

// RuncEnv names another runc than the machine's, for hosts with a containerd that is built:
// Debian's is older than 1.2, and cannot make user namespaces.
const RuncEnv = "BURSTLET_RUNC"

// Check refuses a version that does not exist here.
func (v Version) Check() error {
	_, err := v.programs()
	return err
}

// Install puts the programs of a version into a directory, in place of those that are
// there; none for the machine's own. What is not built is built, which log is told of. A
// running program keeps its file.
func (v Version) Install(ctx context.Context, dir string, log io.Writer) error {
	programs, err := v.programs()
	if err != nil {
		return err
	}
	cache, err := binaries.NewCache(binaries.CacheConfig{Log: log})
	if err != nil {
		return fmt.Errorf("install containerd %s: %w", v, err)
	}
	if err := cache.BuildAll(ctx, slices.Collect(maps.Values(programs))...); err != nil {
		return fmt.Errorf("install containerd %s: %w", v, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove programs of containerd: %w", err)
	}
	if len(programs) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install containerd %s: %w", v, err)
	}
	for name, tool := range programs {
		from, err := cache.Lookup(tool)
		if err == nil {
			err = install(from, filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("install containerd %s: %w", v, err)
		}
	}
	if runc := os.Getenv(RuncEnv); runc != "" {
		if err := install(runc, filepath.Join(dir, "runc")); err != nil {
			return fmt.Errorf("install the runc that %s names: %w", RuncEnv, err)
		}
	}
	return nil
}

func install(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open program: %w", err)
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("make program: %w", err)
	}
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copy program: %w", errors.Join(err, target.Close()))
	}
	if err := target.Close(); err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	return nil
}
