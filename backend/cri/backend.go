package cri

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
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
	transport *transport
	runtime   runtimeapi.RuntimeServiceClient
	images    runtimeapi.ImageServiceClient
	host      host
	stopper   *stopper
	details   *details

	driverMu sync.Mutex
	driver   string // of cgroups, once known

	memoryMu sync.Mutex
	memory   int64 // of the host in bytes, once known
}

// New makes a backend for the container runtime on a local socket. Nothing is
// connected before its Run runs.
func New(cfg Config) (*backend.Backend, error) {
	r, err := newRemote(cfg, localHost{cgroupRoot: "/sys/fs/cgroup"})
	if err != nil {
		return nil, err
	}
	return r.backend(), nil
}

func newRemote(cfg Config, h host) (*remote, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	path, err := socketPath(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("configure cri backend: %w", err)
	}
	t := newTransport(cfg.Endpoint, dialUnix(path))
	r := &remote{
		cfg:       cfg.withDefaults(),
		transport: t,
		runtime:   runtimeapi.NewRuntimeServiceClient(t),
		images:    runtimeapi.NewImageServiceClient(t),
		host:      h,
		details:   newDetails(),
	}
	r.stopper = newStopper(r.runtime)
	return r, nil
}

func (r *remote) backend() *backend.Backend {
	return &backend.Backend{
		Name:       "cri",
		Run:        r.run,
		Pods:       pods{r},
		Containers: containers{r},
		Images:     images{r},
		Events:     events{r},
		Exec:       commands{r},
		Logs:       logs{r},
		Dial:       dialer{r},
		Node:       node{r},
		Check:      backend.CheckFunc(check),
		Limits: backend.Limits{
			Runtime: runtimeName,
			Settle:  settle,
			Call:    callTimeout,
			Pull:    pullTimeout,
			Relist:  relist,
		},
	}
}

// run holds the connection and the open stop calls. It runs once: a backend
// that has ended stays ended.
func (r *remote) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.stopper.run(ctx) })
	g.Go(func() error { return r.transport.run(ctx) })
	return g.Wait()
}
