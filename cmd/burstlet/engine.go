package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/statusmgr"
	"github.com/burstlet/burstlet/statusmgr/mirror"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/podsource"
)

// podEngine is a node's engine with what feeds it and what it writes to. It is made in
// one way for a node that runs and for one that is removed.
type podEngine struct {
	backend backend.Backend
	pods    cache.SharedIndexInformer
	static  *podsource.Static
	source  *podsource.Source
	events  *eventSink
	status  *statusmgr.Manager
	engine  *syncloop.Loop
}

// engineConfig is what a podEngine is made with.
type engineConfig struct {
	cfg    config.Configuration
	client kubernetes.Interface
	// events is the client that Events are sent with.
	events kubernetes.Interface
	remote backend.Backend
	host   *hostMemory
	// current returns the node as it is now.
	current func() provider.Current
	// registerer takes the metrics of statuses; nil registers them nowhere.
	registerer prometheus.Registerer
	// engine holds what only some engines have, and what pods refer to; the rest is
	// filled in.
	engine syncloop.Config
}

func newPodEngine(c engineConfig) (*podEngine, error) {
	pods, err := provider.NewPodInformer(c.client, c.cfg.Node.Name)
	if err != nil {
		return nil, err
	}
	static := podsource.NewStatic(pods.GetStore())
	e := &podEngine{
		backend: c.remote, pods: pods, static: static, source: podsource.New(static, pods.HasSynced),
		events: newEventSink(c.events, c.cfg.Node.Name),
	}
	var status *mirror.Status
	e.status = statusmgr.New(statusmgr.Config{
		Client: c.client.CoreV1(),
		Safety: statusmgr.SafetyFunc(func(uid types.UID) bool {
			return e.engine.CouldHaveRunningContainers(status.StaticOf(uid))
		}),
		Registerer: c.registerer,
	})
	status = mirror.NewStatus(e.status, static)
	node, err := engineNode(c.cfg, c.remote, c.current)
	if err != nil {
		return nil, err
	}
	loop := c.engine
	loop.Backend, loop.Source, loop.Status, loop.Events = c.remote, e.source, status, e.events
	loop.Node, loop.HostIPs, loop.Pulls = node, c.host.IPs, c.cfg.Pods.MaxParallelImagePulls
	if e.engine, err = syncloop.New(loop); err != nil {
		return nil, fmt.Errorf("make the engine: %w", err)
	}
	return e, nil
}

// start runs the engine and what it writes to in a group. The caller runs the informer
// that feeds it, and the backend.
func (e *podEngine) start(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return e.events.Run(ctx) })
	g.Go(func() error { return e.status.Run(ctx) })
	g.Go(func() error { return e.engine.Run(ctx) })
}
