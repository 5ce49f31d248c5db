package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/kubeletapi"
	"github.com/burstlet/burstlet/statusmgr"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve/objectcache"
)

// The bounds of the checks at the start.
const (
	identityTimeout = 20 * time.Second
	probeTimeout    = 3 * time.Second
	probeRetry      = 100 * time.Millisecond
)

// node is one virtual node, wired.
type node struct {
	backend backend.Backend
	engine  *syncloop.Loop
	status  *statusmgr.Manager
	events  *eventSink
	objects *objectcache.Cache
	vk      *provider.Node
}

// runNode runs a node until the context ends, then writes the statuses that are
// left. Its pods stay on the remote.
func runNode(ctx context.Context, cfg config.Configuration) error {
	n, err := wire(ctx, cfg)
	if err != nil {
		return err
	}
	greet(ctx, cfg)
	err = n.run(ctx)
	flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Shutdown.FlushTimeout.Duration)
	defer cancel()
	if flushErr := n.status.Flush(flushCtx); flushErr != nil {
		err = errors.Join(err, fmt.Errorf("write the last statuses: %w", flushErr))
	}
	if err == nil {
		log.G(ctx).WithField("node", cfg.Node.Name).Info("node stopped, its pods stay on the remote")
	}
	return err
}

// run runs the parts. The first to fail ends the others.
func (n *node) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if n.backend.Run != nil {
		g.Go(func() error { return n.backend.Run(ctx) })
	}
	if err := probe(ctx, n.backend); err != nil && ctx.Err() == nil {
		g.Go(func() error { return err })
		return g.Wait()
	}
	g.Go(func() error { return n.events.Run(ctx) })
	g.Go(func() error { return n.status.Run(ctx) })
	g.Go(func() error { return n.objects.Run(ctx) })
	g.Go(func() error { return n.engine.Run(ctx) })
	g.Go(func() error { return n.vk.Run(ctx) })
	return g.Wait()
}

// probe makes sure that the remote answers before the node is registered, as a
// kubelet does with its runtime: a node without one is of no use to anybody.
func probe(ctx context.Context, b backend.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		_, err := b.Node.Describe(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, backend.ErrUnavailable) {
			return fmt.Errorf("reach the %s backend: %w", b.Name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reach the %s backend: %w", b.Name, err)
		case <-time.After(probeRetry):
		}
	}
}

// wire makes the parts and introduces them to each other.
func wire(ctx context.Context, cfg config.Configuration) (*node, error) {
	rest, err := clientConfig(cfg)
	if err != nil {
		return nil, err
	}
	// Open for ever: without leader election this process always holds its node.
	held := gate.Always()
	rest.Wrap(held.Transport)
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	identity, err := nodeIdentity(ctx, client, cfg, rest.Host)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(ctx, cfg, identity)
	if err != nil {
		return nil, err
	}
	host := &hostMemory{Node: b.Node}
	b.Node = host
	b = held.Wrap(b)

	pods, err := provider.NewPodInformer(client, cfg.Node.Name)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	source := podsource.New(pods.GetStore(), pods.HasSynced)
	n := &node{backend: b, events: newEventSink(client, cfg.Node.Name)}
	n.status = statusmgr.New(statusmgr.Config{
		Client:     client.CoreV1(),
		Safety:     statusmgr.SafetyFunc(func(uid types.UID) bool { return n.engine.CouldHaveRunningContainers(uid) }),
		Registerer: registry,
	})
	n.objects = objectcache.New(objectcache.Config{
		Client: client, Node: cfg.Node.Name, Changed: func(uid types.UID) { n.engine.Poke(uid) },
	})
	view, err := nodeView(cfg, b, func() provider.Current { return n.vk.Current() })
	if err != nil {
		return nil, err
	}
	n.engine, err = syncloop.New(syncloop.Config{
		Backend: b, Source: source, Status: n.status, Events: n.events, Objects: n.objects, Node: view,
		HostIPs: host.IPs, Pulls: cfg.Pods.MaxParallelImagePulls, Metrics: syncloop.NewMetrics(registry),
		ProbeMetrics: prober.NewMetrics(registry),
	})
	if err != nil {
		return nil, fmt.Errorf("make the engine: %w", err)
	}
	n.vk, err = provider.New(provider.Config{
		NodeName: cfg.Node.Name, Client: client, Server: rest.Host, Pods: pods,
		Touch: source.Touch, Synced: source.TouchAll, Engine: n.engine, Backend: b,
		Node: nodeOptions(cfg), API: apiOptions(cfg.KubeletAPI), Registerer: registry, Gatherer: registry,
	})
	return n, err
}

func nodeOptions(cfg config.Configuration) provider.NodeOptions {
	o := provider.NodeOptions{
		Labels: cfg.Node.Labels, Annotations: cfg.Node.Annotations, Taints: cfg.Node.Taints,
		Capacity: cfg.Node.Capacity.ResourceList(), InternalIP: cfg.Node.InternalIP,
		Version: provider.KubeletVersion(programVersion()),
	}
	if pods := cfg.Node.Capacity.Pods; pods != nil {
		o.MaxPods = pods.Value()
	}
	return o
}

// apiOptions are those of the kubelet API; nil, so that it is not served, where
// there is no serving certificate.
func apiOptions(cfg config.KubeletAPI) *kubeletapi.Options {
	if cfg.CertFile == "" && cfg.KeyFile == "" && !cfg.SelfSigned {
		return nil
	}
	return &kubeletapi.Options{
		Address:  net.JoinHostPort(cfg.Address, strconv.Itoa(cfg.Port)),
		CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, SelfSigned: cfg.SelfSigned, ClientCAFile: cfg.ClientCAFile,
	}
}

// greet says what a user must know who looks at nothing else.
func greet(ctx context.Context, cfg config.Configuration) {
	entry := log.G(ctx).WithFields(log.Fields{"node": cfg.Node.Name, "backend": cfg.Backend.Type})
	if cfg.Backend.Type == config.BackendSim {
		entry.Warn("the backend is simulated: no container runs; choose another with --backend or backend.type")
	}
	switch api := cfg.KubeletAPI; {
	case apiOptions(api) == nil:
		entry.Warn("no serving certificate: the kubelet API is off and kubectl logs does not work; " +
			"set kubeletAPI.certFile and kubeletAPI.keyFile, or kubeletAPI.selfSigned")
	case api.SelfSigned:
		entry.Info("the kubelet API has a self-signed certificate, which the API server must not verify")
	}
	entry.WithField("version", programVersion()).Info("starting the node")
}

// hostMemory remembers the addresses that the remote last gave for its host.
type hostMemory struct {
	backend.Node
	ips atomic.Pointer[[]string]
}

// Describe asks the remote and remembers.
func (h *hostMemory) Describe(ctx context.Context) (backend.NodeFacts, error) {
	facts, err := h.Node.Describe(ctx)
	if err == nil {
		h.ips.Store(&facts.HostIPs)
	}
	return facts, err
}

// IPs are the last known addresses, primary first.
func (h *hostMemory) IPs() []string {
	if ips := h.ips.Load(); ips != nil {
		return *ips
	}
	return nil
}
