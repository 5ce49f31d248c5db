package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/burstlet/burstlet/test/binaries"
)

// KubectlEnv names the environment variable that says which kubectl to use.
const KubectlEnv = "BURSTLET_KUBECTL"

// kubectlTrial bounds the check that an installed kubectl runs.
const kubectlTrial = 10 * time.Second

// Binaries are the paths of the programs.
type Binaries struct {
	Etcd, APIServer, ControllerManager, Scheduler string
	// Kubectl is the one named by KubectlEnv, else the one in PATH if it runs,
	// else one built like the others.
	Kubectl string
}

// FindBinaries returns the programs in the cache. When one is missing the error
// wraps binaries.ErrNotBuilt. An empty cacheDir means the default one.
func FindBinaries(ctx context.Context, cacheDir string) (Binaries, error) {
	cache, err := binaries.NewCache(binaries.CacheConfig{Dir: cacheDir})
	if err != nil {
		return Binaries{}, err
	}
	return collect(ctx, cache.Lookup)
}

// BuildBinaries returns the programs and builds those that are missing, which
// takes about 4 minutes on two cores from cold. Progress goes to log. An empty
// cacheDir means the default one.
func BuildBinaries(ctx context.Context, cacheDir string, log io.Writer) (Binaries, error) {
	cache, err := binaries.NewCache(binaries.CacheConfig{Dir: cacheDir, Log: log})
	if err != nil {
		return Binaries{}, err
	}
	return collect(ctx, func(t binaries.Tool) (string, error) { return cache.Build(ctx, t) })
}

func collect(ctx context.Context, get func(binaries.Tool) (string, error)) (Binaries, error) {
	var b Binaries
	for _, want := range []struct {
		tool binaries.Tool
		path *string
	}{
		{binaries.Etcd, &b.Etcd},
		{binaries.KubeAPIServer, &b.APIServer},
		{binaries.KubeControllerManager, &b.ControllerManager},
		{binaries.KubeScheduler, &b.Scheduler},
	} {
		path, err := get(want.tool)
		if err != nil {
			return Binaries{}, err
		}
		*want.path = path
	}
	var err error
	if b.Kubectl, err = installedKubectl(ctx); err != nil {
		return Binaries{}, err
	}
	if b.Kubectl == "" {
		b.Kubectl, err = get(binaries.Kubectl)
	}
	return b, err
}

// installedKubectl returns a kubectl of this machine that runs, or "".
func installedKubectl(ctx context.Context) (string, error) {
	if path := os.Getenv(KubectlEnv); path != "" {
		if err := tryKubectl(ctx, path); err != nil {
			return "", fmt.Errorf("use kubectl named by %s: %w", KubectlEnv, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("kubectl")
	if errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for kubectl: %w", err)
	}
	if tryKubectl(ctx, path) != nil {
		// One that does not run is as good as none: ours is built instead.
		return "", ctx.Err()
	}
	return path, nil
}

func tryKubectl(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, kubectlTrial)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, "version", "--client").CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", path, err, out)
	}
	return nil
}
