package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/provider/election"
)

// The pauses before a node that failed is started again.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// calm is how long a node must have lived for the pauses to begin anew.
	calm = time.Minute
)

// namespaceFile tells the namespace of the pod that this process runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace is that of the pod that this process runs in; empty without one.
func podNamespace() string {
	data, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// runNodes runs all nodes until the context ends. A node that is alone ends the
// process when it fails; one of several is started again and again, and does not
// touch the others.
func runNodes(ctx context.Context, cfg config.Configuration) error {
	configs := cfg.Each()
	var errs []error
	var names []string
	for _, c := range configs { // what is wrong here no retry heals
		names = append(names, c.Node.Name)
		if _, err := engineNode(c, backend.Backend{}, nil); err != nil {
			errs = append(errs, fmt.Errorf("configure node %s: %w", c.Node.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	states := health.New(names...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	process := health.ProcessMetrics(programVersion())
	if cfg.HealthzMetrics {
		states.Metrics = health.NodesHandler(prometheus.Gatherers{process, states.Bounds()}, states.Nodes)
	}
	served, err := states.Serve(ctx, cfg.HealthzBindAddress, cfg.HealthzPort)
	if err != nil {
		return err
	}
	id, err := processID()
	if err != nil {
		return err
	}
	runs := make([]func(context.Context) error, len(configs))
	shared, elections := backends.NewShared(), newElections(id, electionAccess)
	for i, c := range configs {
		r := &nodeRunner{cfg: c, elections: elections, state: states.Nodes[i], process: process, shared: shared}
		runs[i] = r.run
		if len(configs) > 1 {
			runs[i] = keeper{name: c.Node.Name, state: r.state, run: r.run}.keep
		}
	}
	err = together(ctx, runs)
	stop()
	return errors.Join(err, served())
}

// processID tells this process from all others that ever stand in an election.
func processID() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the name of this process: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// together runs all; the first to fail ends the others, in their own good order.
func together(ctx context.Context, runs []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(runs))
	var group sync.WaitGroup
	for i, run := range runs {
		group.Go(func() {
			if errs[i] = run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// keeper starts a node again when it failed.
type keeper struct {
	name  string
	state *health.Node
	run   func(context.Context) error
}

// keep returns what the node returned when the context ended. Before that only a
// node that cannot be stopped ends it: what is left of it needs the process to
// end.
func (k keeper) keep(ctx context.Context) error {
	again := retryFirst
	for {
		began := time.Now()
		err := k.run(ctx)
		if ctx.Err() != nil || errors.Is(err, election.ErrStuck) {
			return k.named(err)
		}
		if time.Since(began) >= calm {
			again = retryFirst
		}
		k.failed(ctx, err, again)
		if pause.For(ctx, again) != nil {
			return nil //nolint:nilerr // the node is to end
		}
		again = min(2*again, retryMost)
	}
}

func (k keeper) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", k.name, err)
}

func (k keeper) failed(ctx context.Context, err error, again time.Duration) {
	if err == nil {
		err = errors.New("it ended by itself")
	}
	k.state.Set(health.Failed, err)
	log.G(ctx).WithField("node", k.name).WithField("pause", again).WithError(err).
		Error("node failed; it will be started again")
}
