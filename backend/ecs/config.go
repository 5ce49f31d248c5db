package ecs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/logs"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	"github.com/burstlet/burstlet/backend/ecs/session"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/backend/ecs/taskevents"
)

// Config is a node's configuration, and what only programs say.
type Config struct {
	ecsconfig.Config
	// Images says what images say of themselves; nil asks their registries.
	Images images.Configs
	// KnownImages is what registries said already, which nodes of a process may share; nil:
	// nothing.
	KnownImages *images.Known
	// Capacity is what the node offers, for example the account's vCPU quota.
	// Missing resources are taken from the node's configuration.
	Capacity corev1.ResourceList
	// AccessKeyID and SecretAccessKey are for a test server, never for AWS: with
	// AWS the SDK finds credentials itself (environment, files, role).
	AccessKeyID, SecretAccessKey string
	// HTTPClient sends the requests; nil is the SDK's own.
	HTTPClient *http.Client
	// May is asked of each request that changes something, at the moment it is sent:
	// calls wait for rates and are retried long after they began.
	May backend.Permit
}

// Validate reports every field that is wrong, by name.
func (c Config) Validate() error {
	err := c.Config.Validate()
	if (c.AccessKeyID != "" || c.SecretAccessKey != "") && c.Endpoint == "" {
		err = errors.Join(err, errors.New("accessKeyID: is only for a test server with endpoint; for AWS use its "+
			"environment variables, files or roles"))
	}
	return err
}

// clients is what of the configuration says where AWS is, and as whom it is asked.
func (c Config) clients() clients.Config {
	return clients.Config{
		Region: c.Region, Endpoint: c.Endpoint, HTTPClient: c.HTTPClient,
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, May: c.May,
	}
}

// payloads is where the payloads of single pods go.
func (c Config) payloads() payload.Place {
	return payload.Place{Bucket: c.PayloadBucket, KeyPrefix: c.PayloadKeyPrefix()}
}

// Bounds of one call, retries and all, and of a task's end.
const (
	callLimit = time.Minute
	// maxGrace is the longest stopTimeout (ECS API, ContainerDefinition).
	maxGrace = 120 * time.Second
	// relist is how often the engine asks; what is read then, package task says.
	relist = time.Second
)

// New makes the backend. It reads credentials and calls nothing.
func New(ctx context.Context, cfg Config) (backend.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	cfg.Config = cfg.WithDefaults()
	cls, err := clients.New(ctx, cfg.clients())
	if err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	r := newRemote(cls.ECS, cfg.Cluster)
	store := payload.New(cls.Secrets, cls.Objects, cfg.payloads(), cfg.NodeIdentity)
	p := newPods(cfg, r, store, cfg.EventQueueURL != "")
	known, err := imagesOf(ctx, cfg, cls.ECR)
	if err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	p.images = known
	b := backend.Backend{
		Name:  "ecs",
		Costs: func() []backend.CostFacts { return p.meter.Facts(time.Now()) },
		Calls: cls.Calls,
		Queues: func() []backend.QueueFacts {
			return []backend.QueueFacts{{Call: "RunTask", Waiting: r.buckets.runTask.Waiting()}}
		},
		Pods:  p,
		Node:  node{cfg: cfg, remote: r, meter: p.meter},
		Check: taskdef.Checker(cfg.Config),
		Limits: backend.Limits{
			Runtime: "ecs", MaxGrace: maxGrace, Settle: cfg.Settle, Call: callLimit, Relist: relist, Once: true, Tries: true,
			Supervised: cfg.TaskImage != "", EphemeralVolumes: true,
		},
	}
	if cfg.TaskImage != "" {
		b.Refresh = refresher{p}
	}
	access := session.New(ctx, cfg.sessions(r, cls), nodeTasks{p})
	p.supervisors = access
	collector := newCollector(cfg, p, cls.ECS, store)
	tasks := []func(context.Context) error{access.Run, known.Run}
	b.Sweep = newCollector(cfg, p, cls.ECS, store).sweep
	if cfg.LogGroup != "" {
		l := logs.New(cls.Logs, cfg.Region, cfg.LogGroup, p.known, nodeTasks{p})
		b.Logs, tasks = l, append(tasks, l.Run)
	}
	access.Lend(&b)
	b.Run = func(ctx context.Context, may backend.Permit) error {
		collect := func(ctx context.Context) error { return collector.Run(ctx, may) }
		unwanted := func(ctx context.Context) error { return p.endUnwanted(ctx, may) }
		err := together(ctx, append([]func(context.Context) error{collect, unwanted}, tasks...))
		closePayloads(ctx, store)
		return err
	}
	if cfg.EventQueueURL != "" {
		b.Events = taskevents.New(cls.Queue, cfg.EventQueueURL, p.startedBy, p.known)
	}
	return b, nil
}

// closeLimit bounds the last word of a process.
const closeLimit = 5 * time.Second

// closePayloads notes what the process leaves, once its context has ended.
func closePayloads(ctx context.Context, store *payload.Store) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if err := store.Close(ctx); err != nil {
		log.G(ctx).WithError(err).Warn(
			"AWS could not be told that this process ends well; a removal of the node waits some minutes for it",
		)
	}
}

// imagesOf looks up images once for many pods.
func imagesOf(ctx context.Context, cfg Config, login images.ECRAPI) (*images.Cache, error) {
	if cfg.Images != nil {
		return images.NewCache(ctx, cfg.Images), nil
	}
	r, err := images.NewRegistries(cfg.RegistryMirrors, login, cfg.KnownImages)
	if err != nil {
		return nil, err
	}
	return images.NewCache(ctx, r), nil
}

// together runs what the backend does by itself until the context ends or one fails.
func together(ctx context.Context, tasks []func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		g.Go(func() error { return task(ctx) })
	}
	return g.Wait()
}
