package main

import (
	"context"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/containerd/log"
)

// partOfLimit is the part of the container's memory that Go may use. The rest is for
// what Go does not count: the pages of the program, and what the kernel keeps for it.
const partOfLimit = 0.9

// limitMemory has the garbage collector run more often where memory comes near the limit
// of the process's cgroup, which is the container's resources.limits.memory; otherwise
// the kernel would kill the process at a peak. It leaves alone what $GOMEMLIMIT says.
func limitMemory(ctx context.Context, of memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(partOfLimit), memlimit.WithProvider(of))
	switch {
	case err != nil:
		log.G(ctx).WithError(err).
			Warn("cannot read the memory limit of this process; set GOMEMLIMIT if it has one (https://pkg.go.dev/runtime)")
	case limit < math.MaxInt64:
		log.G(ctx).WithField("bytes", limit).Info("memory is limited")
	}
}
