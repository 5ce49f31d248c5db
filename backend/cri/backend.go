package cri

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/events"
	"github.com/burstlet/burstlet/backend/cri/features"
	"github.com/burstlet/burstlet/backend/cri/guard"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/images"
	"github.com/burstlet/burstlet/backend/cri/sessions"
	"github.com/burstlet/burstlet/backend/cri/sshlink"
	"github.com/burstlet/burstlet/backend/cri/stats"
	"github.com/burstlet/burstlet/backend/cri/stopper"
	"github.com/burstlet/burstlet/backend/cri/throttle"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

const (
	// runtimeName is the scheme of container ids in the API.
	runtimeName = "containerd"
	// settle is how long the runtime may go on with a call whose caller left.
	settle = 30 * time.Second
	// pullTimeout bounds one pull; the runtime itself gives up on one without
	// progress.
	pullTimeout = 30 * time.Minute
	// relist is the poll interval: two calls that cost a millisecond each.
	relist = 2 * time.Second
)

// remote is what the parts of the backend share.
type remote struct {
	cfg       Config
	convert   convert.Converter // by that
	socket    string            // of the runtime, on its host
	transport *transport.Transport
	runtime   runtimeapi.RuntimeServiceClient
	// host does the host operations; control dials as the host does.
	host        host.Host
	leader      *guard.Leader // nil: there is no election
	control     host.Dialer
	reach       func(context.Context) error // holds the way to the host; nil: there is none to hold
	links       func() []backend.LinkFacts  // nil on this machine
	clock       clock
	features    *features.Runtime
	stopper     *stopper.Stopper
	details     *details
	cgroups     *guard.CgroupTimes
	hostLogs    *hostLogs
	throttle    *throttle.Throttle
	puller      *images.Puller
	store       *images.Store
	pullRecords images.Records
	stats       *stats.Measurer
	sessions    *sessions.Opener
	events      *events.Follower
	evictions   evictions

	factsMu sync.Mutex
	facts   *host.Facts // of the host, once known
}

// New makes a backend for the container runtime on a local socket, or on a host
// reached over SSH. Nothing is connected before its Run runs.
//
// may is asked of each call and each operation that changes something there, at the moment
// it is sent; nil permits none.
func New(cfg Config, may backend.Permit) (*backend.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	if !cfg.Remote() {
		here := newResidentHost(cfg.WithDefaults().PodsDir)
		r, err := newRemote(cfg, access{host: here, control: localDialer{}, streams: localDialer{}, run: here.run, may: may})
		if err != nil {
			return nil, err
		}
		return r.backend(), nil
	}
	linkConfig, err := Link(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	link, err := sshlink.New(linkConfig)
	if err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	r, err := newRemote(cfg, access{
		host: link.Host(), control: link.Control(), streams: link.Streams(), run: link.Run, links: link.Facts,
		session: link.Session, may: may,
	})
	if err != nil {
		return nil, err
	}
	return r.backend(), nil
}

// access is how the host is reached.
type access struct {
	host             host.Host
	control, streams host.Dialer
	// run holds what the host is reached by, until its context ends; nil: nothing.
	run func(context.Context) error
	// links are the connections to the host, nil for this machine.
	links func() []backend.LinkFacts
	// session is closed when the helper ends that does the host's operations now; nil for
	// this machine.
	session func(context.Context) (<-chan struct{}, error)
	may     backend.Permit
}

func newRemote(cfg Config, a access) (*remote, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	cfg = cfg.WithDefaults()
	socket := cfg.RuntimeSocket
	if !cfg.Remote() {
		socket, _ = cfg.Socket() // validated
	}
	known := newDetails()
	led := guard.NewLeader(cfg, a.host, a.may)
	cgroups := &guard.CgroupTimes{}
	a.host = guard.Host(a.host, a.may, led, cgroups)
	onHost := transport.HostCaller{Host: a.host, Socket: socket, PodOf: known.Owner}
	t := transport.New(cfg.Endpoint, transport.DialSocket(a.control, socket), onHost, a.may)
	slow := throttle.New()
	r := &remote{
		cfg:       cfg,
		convert:   convert.New(cfg),
		socket:    socket,
		transport: t,
		runtime:   runtimeapi.NewRuntimeServiceClient(t),
		host:      a.host,
		leader:    led,
		control:   a.control,
		throttle:  slow,
		reach:     a.run,
		links:     a.links,
		details:   known,
		cgroups:   cgroups,
		hostLogs:  newHostLogs(),
		evictions: evictions{session: a.session},
	}
	r.features = features.New(r.runtime, r.host, cfg.CgroupDriver)
	r.puller = images.NewPuller(runtimeapi.NewImageServiceClient(t))
	r.store = images.NewStore(r.puller, r.runtime, r.host, r.features, cfg.PodsDir)
	r.pullRecords = images.NewRecords(r.host, cfg.PodsDir, cfg.NodeIdentity)
	r.stats = stats.New(stats.Sources{
		Config: cfg, Runtime: r.runtime, Host: r.host, Convert: r.convert, Ours: r.clock.ours,
		Attempts: r.attempts, Status: r.startedContainer, MemoryLimit: known.memoryLimit,
		ImageMount: r.store.Mount, CgroupDriver: r.features.CgroupDriver,
	})
	r.sessions = sessions.New(sessions.Sources{
		Runtime: r.runtime, Streams: slow.Dialer(a.streams),
		Container: r.findContainer, Status: r.askContainer, Sandboxes: r.listSandboxes,
	})
	r.events = events.New(events.Sources{
		Node: cfg.NodeIdentity, Runtime: r.runtime, Transport: t, Known: known, Status: r.askContainer,
	})
	r.stopper = stopper.New(runtimeStops{r.runtime})
	return r, nil
}

func (r *remote) backend() *backend.Backend {
	var confirm func(context.Context) error
	if r.leader != nil {
		confirm = r.leader.Confirm
	}
	var hostShutdown backend.Shutdown
	if r.cfg.ShutdownDelay > 0 {
		hostShutdown = shutdown{r}
	}
	return &backend.Backend{
		Confirm:    confirm,
		Name:       "cri",
		Run:        r.run,
		Links:      r.links,
		CgroupsTo:  r.cgroups.Tell,
		Sweep:      r.sweepAll,
		Pods:       pods{r},
		Containers: containers{r},
		Resize:     resizer{r},
		Files:      files{r},
		Images:     r.puller,
		Store:      r.store,

		PullRecords: r.pullRecords,

		Events:  r.events,
		Exec:    r.sessions,
		Attach:  r.sessions,
		Forward: r.sessions,
		Logs:    logs{r},
		Dial:    dialer{r},
		Stats:   r.stats,
		Signals: r.stats,

		Shutdown:   hostShutdown,
		Checkpoint: checkpoints{r},
		SystemLogs: systemLogs{r},
		SystemOOMs: systemOOMs{r},

		Node:  node{r},
		Check: backend.CheckFunc(r.check),
		Limits: backend.Limits{
			Runtime: runtimeName,
			Settle:  settle,
			Call:    transport.CallTimeout,
			Pull:    pullTimeout,
			Relist:  relist,
		},
	}
}

// run holds the connections and the open stop calls, and keeps logs in bounds. It
// runs once: a backend that has ended stays ended.
func (r *remote) run(ctx context.Context, may backend.Permit) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.stopper.Run(ctx, may) })
	g.Go(func() error { return r.transport.Run(ctx) })
	g.Go(func() error { return r.maintainLogs(ctx, may) })
	g.Go(func() error { return r.leader.Run(ctx) })
	if r.reach != nil {
		g.Go(func() error { return r.reach(ctx) })
	}
	return g.Wait()
}
