package sim

import (
	"context"
	"runtime"
	"slices"

	"github.com/burstlet/burstlet/backend"
)

// nodeView lends backend.Node.
type nodeView struct{ *view }

// Describe returns the configured capacity.
func (v nodeView) Describe(ctx context.Context) (backend.NodeFacts, error) {
	if err := v.request(ctx, "describe node"); err != nil {
		return backend.NodeFacts{}, err
	}
	if err := v.reply(ctx, "describe node"); err != nil {
		return backend.NodeFacts{}, err
	}
	return backend.NodeFacts{
		Capacity:       v.cfg.Capacity.DeepCopy(),
		HostIPs:        slices.Clone(v.cfg.HostIPs),
		OS:             "linux",
		Arch:           runtime.GOARCH,
		Kernel:         "simulated",
		OSImage:        "simulated: no container runs",
		RuntimeVersion: "sim://1",
		NetworkReady:   true,

		SupplementalGroupsPolicy: true,
	}, nil
}
