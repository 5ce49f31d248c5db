package backends

import (
	"context"
	"fmt"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/backend/sim/simrpc"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func simKind() Kind {
	return Kind{
		Caution:   "the backend is simulated: no container runs; choose another with --backend or backend.type",
		Place:     func(config.Backend) string { return "" },
		Away:      func(config.Backend) bool { return false },
		InProcess: func(b config.Backend) bool { return simSocket(b) == "" },
		New: func(ctx context.Context, n Node) (backend.Backend, error) {
			if simSocket(n.Config.Backend) != "" {
				return connectSim(ctx, n)
			}
			return newSim(ctx, n)
		},
		Offline:  newSim,
		Diagnose: diagnoseSim,
	}
}

// simSocket is where a "burstlet sim" listens; empty: the simulation is in this process.
func simSocket(b config.Backend) string {
	if b.Sim == nil {
		return ""
	}
	return b.Sim.Socket
}

// newSim makes a simulation in this process.
func newSim(_ context.Context, n Node) (backend.Backend, error) {
	s := n.Config.Backend.Sim
	return sim.New(
		sim.Config{Node: n.Identity, PodUnit: s != nil && s.Granularity == config.GranularityPod},
	).Backend(), nil
}

// connectSim connects to the remote of a "burstlet sim".
func connectSim(ctx context.Context, n Node) (backend.Backend, error) {
	endpoint := simSocket(n.Config.Backend)
	b, err := simrpc.Connect(ctx, simrpc.Config{
		Socket: strings.TrimPrefix(endpoint, "unix://"), Node: n.Identity, Version: n.Version, Leader: n.Leader, May: n.May,
		Check: sim.New(sim.Config{}).Backend().Check,
	})
	if err != nil {
		return backend.Backend{}, fmt.Errorf("set up the sim backend at %s: %w", endpoint, err)
	}
	return b, nil
}

func diagnoseSim(ctx context.Context, n Node) ([]backend.Finding, error) {
	const what, nothing = "backend", "is simulated: no container runs"
	found := []backend.Finding{
		backend.Doubtful(what, nothing, "choose another with backend.type for pods that are to run"),
	}
	socket := simSocket(n.Config.Backend)
	if socket == "" {
		return found, nil
	}
	if _, err := connectSim(ctx, n); err != nil {
		return append(found, backend.Bad("burstlet sim", err.Error(),
			"start burstlet sim of the same version at that socket, or leave out backend.sim.socket")), nil
	}
	return append(found, backend.Good("burstlet sim", "answers at "+socket)), nil
}
