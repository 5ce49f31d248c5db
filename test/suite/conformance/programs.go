package conformance

import (
	"context"
	"io"

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
	return collect(plane, cache.Lookup)
}

// BuildPrograms returns the programs and builds those that are missing: of the
// suite that takes 3 minutes on two cores. Progress goes to log.
func BuildPrograms(ctx context.Context, log io.Writer) (Programs, error) {
	plane, err := controlplane.BuildBinaries(ctx, "", log)
	if err != nil {
		return Programs{}, err
	}
	cache, err := binaries.NewCache(binaries.CacheConfig{Log: log})
	if err != nil {
		return Programs{}, err
	}
	return collect(plane, func(t binaries.Tool) (string, error) { return cache.Build(ctx, t) })
}

func collect(plane controlplane.Binaries, get func(binaries.Tool) (string, error)) (Programs, error) {
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
		path, err := get(want.tool)
		if err != nil {
			return Programs{}, err
		}
		*want.path = path
	}
	return p, nil
}
