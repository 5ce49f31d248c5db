package ecsrun

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// OnHost makes a runner on a host. If that is Linked, tasks are reached from the
// machine, and reach it at [remotehost.Host.Gateway].
func OnHost(ctx context.Context, host *remotehost.Host) (*Runner, error) {
	// Tasks have no route but to the host, which answers for this address itself.
	add := host.Command(ctx, "ip", "address", "replace", ecs.MetadataHost+"/32", "dev", "lo")
	if out, err := add.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("add address of metadata server: %w: %s", err, out)
	}
	listener, err := host.Listen(ctx, "tcp", ecs.MetadataHost+":80")
	if err != nil {
		return nil, fmt.Errorf("serve metadata: %w", err)
	}
	r, err := New(ctx, Config{
		Socket: host.Socket(), Dir: host.Shared(), Cgroups: host.CgroupRoot(), Proc: host.Path("/proc"), Metadata: listener,
	})
	if err != nil {
		_ = listener.Close() // what failed is said
		return nil, err
	}
	return r, nil
}
