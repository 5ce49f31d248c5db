package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/backend/metered"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/identity"
	"github.com/burstlet/burstlet/provider/kubeletapi"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve/objectcache"
)

const (
	// The kubelet's eventRecordQPS and eventBurst.
	eventQPS   = 50
	eventBurst = 100
	// unlimited is the QPS of a client that never waits for itself.
	unlimited = -1
)

// materials are what a node's parts are made with.
type materials struct {
	cfg    config.Configuration
	server string // URL of the API server
	// identity is what the node's pods are told by on the remote.
	identity string
	holder   provider.Holder
	client   kubernetes.Interface
	// heartbeats is a client without a limit, as a kubelet's is: however much else there
	// is to ask, the node's lease and status wait for nothing.
	heartbeats kubernetes.Interface
	// reviews is the access with which callers of the kubelet API are reviewed.
	reviews *rest.Config
	// events is a client with a rate of its own, so that a burst of Events keeps
	// no status waiting.
	events kubernetes.Interface
	// beneath is a client of the one who impersonates the node, or in whose pod it runs; nil:
	// there is none.
	beneath kubernetes.Interface
	remote  backend.Backend
	host    *hostMemory
	// registry has the metrics of this term, gatherer those of the process too;
	// probes those of the pods' probes, which are scraped apart.
	registry, probes *prometheus.Registry
	gatherer         prometheus.Gatherer
	// running is called when the node takes pods.
	running func()
}

// wire makes the parts of a node for one term and introduces them to each other.
// Every change that they make in the API or on the remote passes the gate.
func (r *nodeRunner) wire(ctx context.Context, cred *credential, held *gate.Gate) (*node, error) {
	server := cred.config()
	server.Wrap(held.Transport)
	m, err := clients(server)
	if err != nil {
		return nil, err
	}
	id, err := access.NodeIdentity(ctx, m.client, r.cfg, server.Host)
	if err != nil {
		return nil, err
	}
	b, err := r.remote(ctx, id, held.Permit)
	if err != nil {
		return nil, err
	}
	if b.Confirm != nil {
		held.Ask(b.Confirm)
	}
	host := &hostMemory{Node: b.Node}
	b.Node = host
	registry := prometheus.NewRegistry()
	calls, err := metered.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	if m.beneath, err = clientBeneath(cred, held); err != nil {
		return nil, err
	}
	r.state.Show(prometheus.Gatherers{cred.registry, registry})
	n := &node{held: held, shutdown: r.cfg.Shutdown, away: backends.Away(r.cfg.Backend)}
	m.identity, m.holder = id, r.holder()
	m.cfg, m.remote, m.host = r.cfg, held.Wrap(metered.Wrap(b, calls)), host
	m.registry, m.probes = registry, prometheus.NewRegistry()
	m.gatherer = prometheus.Gatherers{r.process, cred.registry, registry}
	m.running = func() { r.state.Set(health.Running, nil) }
	return n, n.assemble(ctx, m)
}

// clients returns the clients of an access to the API server. Each has a limit of its
// own, so that none keeps the others waiting.
func clients(server *rest.Config) (materials, error) {
	m := materials{server: server.Host, reviews: server}
	for _, c := range []struct {
		of    *kubernetes.Interface
		qps   float32
		burst int
	}{{&m.client, server.QPS, server.Burst}, {&m.heartbeats, unlimited, 0}, {&m.events, eventQPS, eventBurst}} {
		limited := rest.CopyConfig(server)
		limited.QPS, limited.Burst = c.qps, c.burst
		client, err := kubernetes.NewForConfig(limited)
		if err != nil {
			return materials{}, fmt.Errorf("make a client for the API server: %w", err)
		}
		*c.of = client
	}
	return m, nil
}

// clientBeneath returns a client for what a node may not read; nil: there is none.
func clientBeneath(cred *credential, held *gate.Gate) (kubernetes.Interface, error) {
	own := cred.beneath()
	if own == nil {
		return nil, nil
	}
	own.Wrap(held.Transport)
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	return client, nil
}

// assemble makes the parts.
func (n *node) assemble(ctx context.Context, m materials) error {
	n.objects = objectcache.New(objectcache.Config{
		Client: m.client, Node: m.cfg.Node.Name, Changed: func(uid types.UID) { n.engine.Poke(uid) },
		EphemeralVolumes: m.remote.Limits.EphemeralVolumes,
	})
	logins, err := nodeLogins(m.cfg.Images, m.client)
	if err != nil {
		return err
	}
	n.podEngine, err = newPodEngine(engineConfig{
		cfg: m.cfg, client: m.client, events: m.events, remote: m.remote, host: m.host, registerer: m.registry,
		current: func() provider.Current { return n.vk.Current() },
		engine: syncloop.Config{
			Objects: n.objects, NodeLogins: logins, ImageGC: imageGC(m.cfg.Images), Eviction: m.cfg.Eviction.Policy(),
			Metrics:  metrics.New(m.registry),
			Shutdown: hostShutdown(m.cfg.Backend), ShuttingDown: func(begun bool) { n.vk.SetShuttingDown(begun) },
			ProbeMetrics: prober.NewMetrics(m.probes), VirtualKubeletEvents: m.cfg.Compatibility.VirtualKubeletEvents,
			NodeEvent: func(kind, reason, message string) {
				n.events.about(provider.NodeReference(m.cfg.Node.Name), kind, reason, message)
			},
		},
	})
	if err != nil {
		return err
	}
	n.assembleStatic(m)
	api, err := n.apiOptions(ctx, m)
	if err != nil {
		return err
	}
	n.vk, err = provider.New(provider.Config{
		NodeName: m.cfg.Node.Name, Client: m.client, Heartbeats: m.heartbeats, Server: m.server, Pods: n.pods,
		Enqueue: n.enqueue, Synced: func() { n.source.EnqueueAll(); m.running() }, Engine: n.engine,
		Pressure: n.engine.Pressure, Backend: m.remote,
		Node: nodeOptions(m.cfg, m.identity), API: api, Event: n.events.about, Registerer: m.registry,
		Gatherer: m.gatherer,
		Probes:   m.probes, ConfigZ: kubeletConfig(m.cfg), FlagZ: config.Flags(m.cfg),
		Holder: m.holder, YieldToOther: m.cfg.Node.OnOtherProcess == config.OtherProcessStop,
	})
	return err
}

// apiOptions are those of the kubelet API, with the certificate that the cluster
// issues where one is wanted.
func (n *node) apiOptions(ctx context.Context, m materials) (*kubeletapi.Options, error) {
	api := apiOptions(m.cfg.KubeletAPI)
	if api == nil {
		return nil, nil
	}
	api.ClientCAReader, api.Reviews = m.beneath, m.reviews
	if !m.cfg.KubeletAPI.ServerTLSBootstrap {
		return api, nil
	}
	var err error
	n.serving, err = identity.NewServing(ctx, identity.ServingConfig{
		NodeName: m.cfg.Node.Name, Client: m.client, SignerName: m.cfg.KubeletAPI.SignerName,
		Addresses:     func() []corev1.NodeAddress { return n.vk.Addresses() },
		CertDirectory: m.cfg.CertDirectory, Registerer: m.registry,
	})
	if err != nil {
		return nil, err
	}
	api.Certificate = n.serving.Certificate
	return api, nil
}
