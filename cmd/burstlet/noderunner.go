package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/election"
)

// nodeRunner runs one of the nodes of this process, term by term. It has nothing in common
// with the others but the process, and perhaps the Lease that they lead by.
type nodeRunner struct {
	cfg config.Configuration
	// elections are those of the process.
	elections *elections
	state     *health.Node
	// process has the metrics of the process.
	process prometheus.Gatherer
	// shared is what the backends of the process have in common.
	shared *backends.Shared
	// sim is a simulated remote in this process, which outlives the node's terms.
	sim *backend.Backend
}

// run runs the node until the context ends: as soon as there is a credential, and
// with leader election whenever this process leads.
func (r *nodeRunner) run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("node", r.cfg.Node.Name))
	r.state.Set(health.Starting, nil)
	cred, err := openCredential(ctx, r.cfg)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	if cred.identity == nil {
		return r.campaign(ctx, cred)
	}
	// The credential is kept until the last write.
	rotation, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cred.identity.Run(rotation) })
	g.Go(func() error {
		defer stop()
		return r.campaign(ctx, cred)
	})
	return g.Wait()
}

// campaign leads for ever, or while an election lets it.
func (r *nodeRunner) campaign(ctx context.Context, cred *credential) error {
	if !r.cfg.LeaderElection.Enabled {
		return r.lead(ctx, cred, gate.Always())
	}
	elector, err := r.elector(cred)
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context, held *gate.Gate) error {
		r.state.Set(health.Starting, nil)
		return r.lead(ctx, cred, held)
	})
}

func (r *nodeRunner) elector(cred *credential) (*election.Elector, error) {
	lease, err := r.elections.lease(r.cfg)
	if err != nil {
		return nil, err
	}
	return election.New(election.Config{
		Lease: lease, Former: nodeExists(cred.config(), r.cfg.Node.Name),
		Standby:      func(err error) { r.state.Set(health.Standby, err) },
		WithoutLease: r.state.GoesOnWithoutLease,
	})
}

// nodeExists asks whether the Node is there: then the node may have a leader.
func nodeExists(server *rest.Config, name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		client, err := kubernetes.NewForConfig(server)
		if err != nil {
			return false, fmt.Errorf("make a client for the API server: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, access.FirstCallTimeout)
		defer cancel()
		_, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
}

// holder is this process as the node's holder.
func (r *nodeRunner) holder() provider.Holder {
	h := provider.Holder{Process: r.elections.id}
	if l := r.cfg.LeaderElection; l.Enabled {
		h.Election = l.Namespace + "/" + r.cfg.LeaseName()
	}
	return h
}

// lead runs the node while the gate is held, then writes the statuses that are
// left.
func (r *nodeRunner) lead(ctx context.Context, cred *credential, held *gate.Gate) error {
	r.state.Began()
	defer r.state.Show(nil)
	n, err := r.wire(ctx, cred, held)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	greet(ctx, r.cfg)
	err = n.run(ctx)
	drained := n.drains()
	if err = errors.Join(err, n.flush(ctx)); err != nil {
		return err
	}
	if drained {
		log.G(ctx).Info("node stopped, its pods were ended")
	} else {
		log.G(ctx).Info("node stopped, its pods stay on the remote")
	}
	return nil
}

// unlessEnded is why the node could not be set up. A process that is told to end
// meanwhile, or whose term ends, has not failed.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	log.G(ctx).WithError(err).Info("ended before the node was set up")
	return nil
}

// leaderName names one term of a process in elections.
func leaderName(process string) string { return process + "_" + string(uuid.NewUUID()) }

// remote makes the node's backend. A simulation in this process is made once: its
// pods end with it.
func (r *nodeRunner) remote(ctx context.Context, identity string, may backend.Permit) (backend.Backend, error) {
	if r.sim != nil {
		return *r.sim, nil
	}
	n := backends.Node{Config: r.cfg, Identity: identity, Version: programVersion(), May: may, Shared: r.shared}
	if r.cfg.LeaderElection.Enabled {
		n.Leader = leaderName(r.elections.id)
	}
	b, err := backends.New(ctx, n)
	if err != nil {
		return backend.Backend{}, err
	}
	if backends.InProcess(r.cfg.Backend) {
		// No other process can reach it.
		b.Confirm = func(context.Context) error { return nil }
		r.sim = &b
	}
	return b, nil
}
