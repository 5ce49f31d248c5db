package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// What changes something asks once more when it leaves: one call of the contract makes many
// of the runtime and the host, and some wait for each other, for names or for a connection.

// permitted asks may before each operation of a host that changes something there, and
// tells the host who leads.
type permitted struct {
	host.Host
	may backend.Permit
	// leader takes the node before the first of them; nil: there is no election.
	leader *Leader
	// cgroups is told how long what is done to pods' cgroups took there.
	cgroups *CgroupTimes
}

// Host is h, guarded. The leader is nil where there is no election; cgroups is told how long
// what is done to pods' cgroups takes.
func Host(h host.Host, may backend.Permit, l *Leader, cgroups *CgroupTimes) host.Host {
	return permitted{Host: h, may: may, leader: l, cgroups: cgroups}
}

// enter is for each operation. may comes last: to take the node may take a while.
func (p permitted) enter(ctx context.Context, change string) (context.Context, error) {
	ctx, err := p.leader.lead(ctx)
	if err != nil {
		return ctx, fmt.Errorf("%s: %w", change, err)
	}
	return ctx, p.may.Ask(change)
}

// Prepare implements [host.Host].
func (p permitted) Prepare(ctx context.Context, what host.Preparation) (host.Prepared, error) {
	ctx, err := p.enter(ctx, "prepare the host")
	if err != nil {
		return host.Prepared{}, err
	}
	done, err := p.Host.Prepare(ctx, what)
	p.cgroups.note(backend.CgroupCreate, done.Cgroup)
	return done, err
}

// Discard implements [host.Host].
func (p permitted) Discard(ctx context.Context, d host.Discard) (host.Discarded, error) {
	ctx, err := p.enter(ctx, "remove files")
	if err != nil {
		return host.Discarded{}, err
	}
	done, err := p.Host.Discard(ctx, d)
	p.cgroups.note(backend.CgroupDestroy, done.Cgroup)
	return done, err
}

// Place implements [host.Host].
func (p permitted) Place(ctx context.Context, v host.Volume) error {
	ctx, err := p.enter(ctx, "place a volume")
	if err != nil {
		return err
	}
	return p.Host.Place(ctx, v)
}

// Clear implements [host.Host].
func (p permitted) Clear(ctx context.Context, pod host.PodDir) error {
	ctx, err := p.enter(ctx, "clear volumes")
	if err != nil {
		return err
	}
	return p.Host.Clear(ctx, pod)
}

// Rotate implements [host.Host].
func (p permitted) Rotate(ctx context.Context, r host.Rotation) ([]string, error) {
	ctx, err := p.enter(ctx, "rotate logs")
	if err != nil {
		return nil, err
	}
	return p.Host.Rotate(ctx, r)
}

// Sweep implements [host.Host].
func (p permitted) Sweep(ctx context.Context, s host.Sweep) error {
	ctx, err := p.enter(ctx, "remove what pods left")
	if err != nil {
		return err
	}
	return p.Host.Sweep(ctx, s)
}

// Strays implements [host.Host].
func (p permitted) Strays(ctx context.Context, pods []host.Known) ([]string, error) {
	ctx, err := p.enter(ctx, "remove what a start left")
	if err != nil {
		return nil, err
	}
	return p.Host.Strays(ctx, pods)
}

// Limit implements [host.Host].
func (p permitted) Limit(ctx context.Context, c host.Cgroup) (time.Duration, error) {
	ctx, err := p.enter(ctx, "limit a cgroup")
	if err != nil {
		return 0, err
	}
	took, err := p.Host.Limit(ctx, c)
	p.cgroups.note(backend.CgroupUpdate, took)
	return took, err
}

// Call implements [host.Host]: only calls that change something are made on the host.
func (p permitted) Call(ctx context.Context, c host.Call) ([]byte, error) {
	ctx, err := p.enter(ctx, c.Method)
	switch {
	case err == nil:
		return p.Host.Call(ctx, c)
	case errors.Is(err, backend.ErrUnavailable):
		return nil, err // the way to the host
	default:
		return nil, transport.Refusal(err)
	}
}
