package ecs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/logs"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	"github.com/burstlet/burstlet/backend/ecs/session"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Config says where and as what tasks run.
type Config struct {
	// Region is the AWS region. Required.
	Region string
	// Cluster is the name or ARN of the ECS cluster. Required.
	Cluster string
	// Subnets are the ids of 1 to 16 subnets of one VPC for the tasks. Required.
	Subnets []string
	// SecurityGroups are the ids of up to 5 groups; none is the VPC's default.
	SecurityGroups []string
	// AssignPublicIP gives each task a public address (public subnets need it to
	// pull images).
	AssignPublicIP bool
	// ExecutionRoleARN is the role that pulls from private ECR and writes logs.
	ExecutionRoleARN string
	// TaskRoleARN is the role that the containers have.
	TaskRoleARN string
	// NodeIdentity is unique to the node among all that use the cluster, such as
	// "<cluster UID>/<node name>". Required, and never changed: tasks are found by it.
	NodeIdentity string
	// CPUArchitecture is X86_64 (also if empty) or ARM64.
	CPUArchitecture string
	// LogGroup is the CloudWatch group for the containers' output; empty: none.
	// It needs ExecutionRoleARN.
	LogGroup string
	// LogOptions are options of the awslogs driver over burstlet's own, such as
	// mode: blocking.
	LogOptions map[string]string
	// TaskImage is the image with burstlet-task, which supervises the containers of all
	// pods: probes, hooks, files of volumes, users and groups, sessions. Empty: pods that
	// need it are refused.
	TaskImage string
	// ClusterDNS are the cluster's name servers, where tasks can reach them: pods with
	// dnsPolicy ClusterFirst ask them. Empty: such pods ask the VPC's resolver.
	ClusterDNS []string
	// ClusterDomain is the cluster's, "cluster.local", for names of pods and searches.
	ClusterDomain string
	// Images says what images say of themselves; nil asks their registries.
	Images images.Configs
	// RegistryMirrors are endpoints to ask in the place of registries, by the registry's
	// host as images name it: "https://host[:port]", or http for one that may be. Logins
	// of pods are sent to them.
	RegistryMirrors map[string]string
	// Refresh is how often a task looks for files that changed, 5 s or more; zero is 5
	// minutes. Pods with tokens of short lives look more often.
	Refresh time.Duration
	// SessionStats measures what pods use through a session in each task, which stays
	// open. It needs what exec needs.
	SessionStats bool
	// CapacityTypes are what pods are tried on, in order: [CapacityOnDemand] (also
	// if empty) and [CapacitySpot], which the cluster must have FARGATE_SPOT for.
	CapacityTypes []string
	// PlatformVersion is Fargate's, 1.4.0 or newer; empty is LATEST.
	PlatformVersion string
	// EphemeralStorageGiB is each task's, at least: 21 to 200; 0 is Fargate's 20.
	EphemeralStorageGiB int32
	// EBS is how volumes are made for single pods; the zero value: not at all.
	EBS taskdef.EBS
	// Rates are the prices by which sizes are chosen and shown; the zero value is
	// [fargate.PublishedRates].
	Rates fargate.Rates
	// EventQueueURL is the SQS queue of this node with its tasks' state changes (see
	// events.go); empty: tasks are polled alone.
	EventQueueURL string
	// UnusedAfter is how long definitions and shared secrets that no task uses are
	// kept for the next pod of their shape; zero is a day.
	UnusedAfter time.Duration
	// Capacity is what the node offers, for example the account's vCPU quota.
	// Missing resources are taken from the node's configuration.
	Capacity corev1.ResourceList
	// Settle is how long a task may take to show in listings; zero is 5 minutes,
	// the longest wait that AWS advises.
	Settle time.Duration

	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string
	// AccessKeyID and SecretAccessKey are for such a server, never for AWS: with
	// AWS the SDK finds credentials itself (environment, files, role).
	AccessKeyID, SecretAccessKey string
	// HTTPClient sends the requests; nil is the SDK's own.
	HTTPClient *http.Client
}

// Limits and defaults (ECS API, RunTask: the advice on eventual consistency).
const (
	defaultSettle = 5 * time.Minute
	defaultUnused = 24 * time.Hour
	minUnused     = time.Hour
)

var (
	regionPattern = regexp.MustCompile(`^[a-z0-9-]+$`)
	queuePattern  = regexp.MustCompile(`^https?://[^/]+/.+$`)
)

// Validate reports every field that is wrong, by name.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(field+": "+format, args...))
	}
	if !regionPattern.MatchString(c.Region) {
		bad("region", "must be an AWS region such as eu-central-1, not %q", c.Region)
	}
	if c.Cluster == "" {
		bad("cluster", "is required")
	}
	if c.NodeIdentity == "" {
		bad("nodeIdentity", "is required")
	}
	c.tasks().Validate(bad)
	if _, err := images.ParseMirrors(c.RegistryMirrors); err != nil {
		bad("registryMirrors", "%w", err)
	}
	if c.Settle < 0 {
		bad("settle", "must not be negative")
	}
	if c.UnusedAfter != 0 && c.UnusedAfter < minUnused {
		bad("unusedAfter", "must be at least %s, for definitions are registered once a second at most", minUnused)
	}
	if c.EventQueueURL != "" && !queuePattern.MatchString(c.EventQueueURL) {
		bad("eventQueueURL", "must be the URL of an SQS queue, not %q", c.EventQueueURL)
	}
	if (c.AccessKeyID != "" || c.SecretAccessKey != "") && c.Endpoint == "" {
		bad("accessKeyID", "is only for a test server with endpoint; for AWS use its environment variables, files or roles")
	}
	return errors.Join(errs...)
}

// clients is what of the configuration says where AWS is, and as whom it is asked.
func (c Config) clients() clients.Config {
	return clients.Config{
		Region: c.Region, Endpoint: c.Endpoint, HTTPClient: c.HTTPClient,
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
	}
}

// tasks is what of the configuration decides what tasks are.
func (c Config) tasks() taskdef.Config {
	return taskdef.Config{
		Region: c.Region, Cluster: c.Cluster, NodeIdentity: c.NodeIdentity,
		Subnets: c.Subnets, SecurityGroups: c.SecurityGroups, AssignPublicIP: c.AssignPublicIP,
		ExecutionRoleARN: c.ExecutionRoleARN, TaskRoleARN: c.TaskRoleARN, CPUArchitecture: c.CPUArchitecture,
		CapacityTypes: c.CapacityTypes, PlatformVersion: c.PlatformVersion,
		EphemeralStorageGiB: c.EphemeralStorageGiB, EBS: c.EBS, Rates: c.Rates,
		LogGroup: c.LogGroup, LogOptions: c.LogOptions, TaskImage: c.TaskImage, Refresh: c.Refresh,
		ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain, Endpoint: c.Endpoint,
	}
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
	if cfg.CPUArchitecture == "" {
		cfg.CPUArchitecture = fargate.X86
	}
	if cfg.Settle == 0 {
		cfg.Settle = defaultSettle
	}
	cfg.Rates = cfg.Rates.OrPublished()
	if cfg.UnusedAfter == 0 {
		cfg.UnusedAfter = defaultUnused
	}
	cls, err := clients.New(ctx, cfg.clients())
	if err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	r := newRemote(cls.ECS, cfg.Cluster)
	store := payload.New(cls.Secrets, cfg.NodeIdentity)
	p := newPods(cfg, r, store, cfg.EventQueueURL != "")
	known, err := imagesOf(ctx, cfg, cls.ECR)
	if err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	p.images = known
	b := backend.Backend{
		Name:  "ecs",
		Costs: func() []backend.CostFacts { return p.meter.usage(time.Now()) },
		Calls: cls.Calls,
		Queues: func() []backend.QueueFacts {
			return []backend.QueueFacts{{Call: "RunTask", Waiting: r.buckets.runTask.Waiting()}}
		},
		Pods:  p,
		Node:  node{cfg: cfg, remote: r, meter: p.meter},
		Check: taskdef.Checker(cfg.tasks()),
		Limits: backend.Limits{
			Runtime: "ecs", MaxGrace: maxGrace, Settle: cfg.Settle, Call: callLimit, Relist: relist, Once: true, Tries: true,
			Supervised: cfg.TaskImage != "", EphemeralVolumes: true,
		},
	}
	if cfg.TaskImage != "" {
		b.Refresh = refresher{p}
	}
	access := session.New(ctx, cfg.sessions(r, cls), nodeTasks{p})
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
		return together(ctx, append([]func(context.Context) error{collect}, tasks...))
	}
	if cfg.EventQueueURL != "" {
		b.Events = hinting{inner: newEvents(cls.Queue, cfg.EventQueueURL, p.startedBy), known: p.known}
	}
	return b, nil
}

// imagesOf looks up images once for many pods.
func imagesOf(ctx context.Context, cfg Config, login images.ECRAPI) (*images.Cache, error) {
	if cfg.Images != nil {
		return images.NewCache(ctx, cfg.Images), nil
	}
	r, err := images.NewRegistries(cfg.RegistryMirrors, login)
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
