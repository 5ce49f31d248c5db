package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/identity"
	"github.com/burstlet/burstlet/statusmgr/mirror"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/podsource/manifests"
	"github.com/burstlet/burstlet/syncloop/resolve/objectcache"
)

const (
	// probeTimeout is how long a start waits for the remote's first answer, probeAwayTimeout the
	// same for another machine: there it takes a connection, and a helper that starts.
	probeTimeout     = 3 * time.Second
	probeAwayTimeout = 6 * time.Second
	// probeRemovalTimeout is how long a removal waits for a remote on this machine: nothing
	// starts a removal again, as a Deployment does a node's process.
	probeRemovalTimeout = 30 * time.Second
	probeRetry          = 100 * time.Millisecond
	// notReadyTimeout is how long a drain waits until the API shows that the node
	// is not ready.
	notReadyTimeout = 2 * time.Second
)

// node is one virtual node, wired, for one term: while this process holds it.
type node struct {
	held     *gate.Gate
	shutdown config.Shutdown

	// away says that the remote is another machine, which may be down for now.
	away bool
	*podEngine
	objects *objectcache.Cache
	serving *identity.Serving // nil without a certificate from the cluster
	mirrors *mirror.Manager
	// manifests is nil without static pods.
	manifests *manifests.Source
	vk        *provider.Node
}

// run runs the parts until the context ends, and for as long as it then takes to
// drain. The first part to fail ends the others.
func (n *node) run(ctx context.Context) error {
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, parts := errgroup.WithContext(parts)
	g.Go(func() error {
		select {
		case <-parts.Done():
			return nil
		case <-ctx.Done():
		}
		n.drain(parts)
		stop()
		return nil
	})
	if n.backend.Run != nil {
		g.Go(func() error { return n.backend.RunFreely(parts) })
	}
	timeout := probeTimeout
	if n.away {
		timeout = probeAwayTimeout
	}
	facts, err := probe(parts, n.backend, n.away, timeout)
	if err != nil {
		if parts.Err() == nil {
			g.Go(func() error { return err })
		}
		return g.Wait()
	}
	if facts != nil {
		n.vk.Described(*facts)
	}
	n.start(parts, g)
	g.Go(func() error { return n.objects.Run(parts) })
	g.Go(func() error { return n.vk.Run(parts) })
	if n.serving != nil {
		g.Go(func() error { return n.serving.Run(parts) })
	}
	g.Go(func() error { return n.mirrors.Run(parts) })
	if n.manifests != nil {
		g.Go(func() error { return n.manifests.Run(parts) })
	}
	return g.Wait()
}

// probe makes sure that the remote answers before the node is registered, as a
// kubelet does with its runtime: a node without one is of no use to anybody. One
// that is away may just not be reached for now: then the node is there, with a
// condition that says so, and goes on when the remote is there too. It returns the answer,
// nil if there is none yet.
func probe(ctx context.Context, b backend.Backend, away bool, timeout time.Duration) (*backend.NodeFacts, error) {
	logger := log.G(ctx)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		facts, err := b.Node.Describe(ctx)
		if err == nil {
			return &facts, nil
		}
		// An answer that took too long is none.
		if !errors.Is(err, backend.ErrUnavailable) && ctx.Err() == nil {
			return nil, fmt.Errorf("reach the %s backend: %w", b.Name, err)
		}
		if pause.For(ctx, probeRetry) == nil {
			continue
		}
		if away {
			logger.WithError(err).Warn("the remote cannot be reached yet; the node starts without it")
			return nil, nil
		}
		return nil, fmt.Errorf("reach the %s backend: %w", b.Name, err)
	}
}

// drains is true where the pods are to end with the process: it was told to, and
// no other process has the node by now.
func (n *node) drains() bool {
	return n.shutdown.Mode == config.ShutdownDrain && n.held.Open()
}

// drain ends the pods as a kubelet does whose host goes down.
func (n *node) drain(ctx context.Context) {
	if !n.drains() {
		return
	}
	soon, cancel := context.WithTimeout(ctx, notReadyTimeout)
	defer cancel()
	n.vk.ShutDown(soon)
	n.engine.Shutdown(
		ctx, syncloop.ShutdownGraces(n.shutdown.GracePeriod.Duration, n.shutdown.GracePeriodCriticalPods.Duration),
	)
}

// flush writes the statuses that are left, unless another process has the node,
// which writes them now.
func (n *node) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.shutdown.FlushTimeout.Duration)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-n.held.Closed():
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	select {
	case <-n.held.Closed():
		return nil
	default:
	}
	err := n.status.Flush(ctx)
	select {
	case <-n.held.Closed():
		return nil
	default:
	}
	if err != nil {
		return fmt.Errorf("write the last statuses: %w", err)
	}
	return nil
}
