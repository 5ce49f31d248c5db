package controlplane

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/test/parts/binaries"
)

// KubectlEnv names the environment variable that says which kubectl to use.
const KubectlEnv = "BURSTLET_KUBECTL"

// KubernetesEnv names the environment variable that says which minor version of Kubernetes
// clusters have, such as 1.34; unset: that of all other programs. Only the API server is of
// that version, for nodes meet nothing else of a cluster.
const KubernetesEnv = "BURSTLET_KUBERNETES"

// kubectlTrial bounds the check that a kubectl of this machine runs.
const kubectlTrial = time.Minute

// Binaries are the paths of the programs.
type Binaries struct {
	Etcd, APIServer, ControllerManager, Scheduler string
	// Kubectl is the one named by KubectlEnv, else one built like the others. One in
	// PATH may be of any version: 1.32 tells of messages before its streams exist.
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
// takes minutes on two cores from cold. Progress goes to log. An empty cacheDir
// means the default one.
func BuildBinaries(ctx context.Context, cacheDir string, log io.Writer) (Binaries, error) {
	cache, err := binaries.NewCache(binaries.CacheConfig{Dir: cacheDir, Log: log})
	if err != nil {
		return Binaries{}, err
	}
	tools, err := Tools()
	if err != nil {
		return Binaries{}, err
	}
	if err := cache.BuildAll(ctx, tools...); err != nil {
		return Binaries{}, err
	}
	return collect(ctx, cache.Lookup)
}

// Tools are the programs of a control plane that are built: all, but a kubectl where
// one is named. The API server is that of KubernetesEnv.
func Tools() ([]binaries.Tool, error) {
	server, err := APIServer(os.Getenv(KubernetesEnv))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KubernetesEnv, err)
	}
	tools := []binaries.Tool{binaries.Etcd, server, binaries.KubeControllerManager, binaries.KubeScheduler}
	if os.Getenv(KubectlEnv) == "" {
		tools = append(tools, binaries.Kubectl)
	}
	return tools, nil
}

// APIServer is that of a minor version of Kubernetes, such as 1.34. "" is the version of
// all other programs, which can be named too.
func APIServer(minor string) (binaries.Tool, error) {
	ours, err := binaries.KubeAPIServer.Version()
	if err != nil {
		return "", err
	}
	if minor == "" || strings.HasPrefix(ours, "v"+minor+".") {
		return binaries.KubeAPIServer, nil
	}
	others := binaries.OtherKubernetes()
	if tool, known := others[minor]; known {
		return tool, nil
	}
	return "", fmt.Errorf("no API server %q: want the minor version of %s, or one of %s",
		minor, ours, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
}

func collect(ctx context.Context, get func(binaries.Tool) (string, error)) (Binaries, error) {
	server, err := APIServer(os.Getenv(KubernetesEnv))
	if err != nil {
		return Binaries{}, fmt.Errorf("%s: %w", KubernetesEnv, err)
	}
	var b Binaries
	for _, want := range []struct {
		tool binaries.Tool
		path *string
	}{
		{binaries.Etcd, &b.Etcd},
		{server, &b.APIServer},
		{binaries.KubeControllerManager, &b.ControllerManager},
		{binaries.KubeScheduler, &b.Scheduler},
	} {
		path, err := get(want.tool)
		if err != nil {
			return Binaries{}, err
		}
		*want.path = path
	}
	if path := os.Getenv(KubectlEnv); path != "" {
		if err := tryKubectl(ctx, path); err != nil {
			return Binaries{}, fmt.Errorf("use kubectl named by %s: %w", KubectlEnv, err)
		}
		b.Kubectl = path
		return b, nil
	}
	b.Kubectl, err = get(binaries.Kubectl)
	return b, err
}

func tryKubectl(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, kubectlTrial)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, "version", "--client").CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", path, err, out)
	}
	return nil
}
