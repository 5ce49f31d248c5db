package conformance

import (
	"context"
	"io"
	"slices"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// Programs are the paths of what a run needs beside burstlet.
type Programs struct {
	Plane controlplane.Binaries
	// E2E is the suite, Ginkgo runs it in parallel; images hold the others.
	E2E, Ginkgo, Agnhost, NoNewPrivs string
}

// FindPrograms returns the programs in the cache. When one is missing the error
// wraps binaries.ErrNotBuilt.
func FindPrograms(ctx context.Context) (Programs, error) {
	plane, err := controlplane.FindBinaries(ctx, "")
	if err != nil {
		return Programs{}, err
	}
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		return Programs{}, err
	}
	p := Programs{Plane: plane}
	for _, want := range []struct {
		tool binaries.Tool
		path *string
	}{
		{binaries.Ginkgo, &p.Ginkgo},
		{binaries.Agnhost, &p.Agnhost},
		{binaries.NoNewPrivs, &p.NoNewPrivs},
		{binaries.E2E, &p.E2E},
	} {
		path, err := cache.Lookup(want.tool)
		if err != nil {
			return Programs{}, err
		}
		*want.path = path
	}
	return p, nil
}

// BuildKubelet builds a kubelet where it is missing, and returns its path.
func BuildKubelet(ctx context.Context, log io.Writer) (string, error) {
	cache, err := binaries.NewCache(binaries.CacheConfig{Log: log})
	if err != nil {
		return "", err
	}
	return cache.Build(ctx, binaries.Kubelet)
}

// BuildPrograms builds the programs that are missing, side by side: of the suite that
// takes 3 minutes on two cores. Progress goes to log.
func BuildPrograms(ctx context.Context, log io.Writer) (Programs, error) {
	cache, err := binaries.NewCache(binaries.CacheConfig{Log: log})
	if err != nil {
		return Programs{}, err
	}
	suite := []binaries.Tool{binaries.Ginkgo, binaries.Agnhost, binaries.NoNewPrivs, binaries.E2E}
	tools, err := controlplane.Tools()
	if err != nil {
		return Programs{}, err
	}
	if err := cache.BuildAll(ctx, slices.Concat(tools, suite)...); err != nil {
		return Programs{}, err
	}
	return FindPrograms(ctx)
}
