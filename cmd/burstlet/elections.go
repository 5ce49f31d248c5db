package main

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/election"
)

// elections has the Leases for which the nodes of this process stand. Nodes with one Lease
// share it.
type elections struct {
	// id is this process in elections.
	id string
	// access is that to the Leases. A node may not write them, and what is written must not
	// pass the gate, which it opens.
	access func(config.LeaderElection) (*rest.Config, error)

	mu     sync.Mutex
	leases map[types.NamespacedName]*election.Lease
}

func newElections(id string, access func(config.LeaderElection) (*rest.Config, error)) *elections {
	return &elections{id: id, access: access, leases: map[types.NamespacedName]*election.Lease{}}
}

// electionAccess is what leaderElection.kubeconfig says.
func electionAccess(l config.LeaderElection) (*rest.Config, error) {
	server, err := access.Find(l.Kubeconfig)
	if err != nil {
		return nil, err
	}
	server.UserAgent = userAgent() + " leader-election"
	return server, nil
}

// lease returns the Lease of a node.
func (e *elections) lease(c config.Configuration) (*election.Lease, error) {
	l := c.LeaderElection
	name := types.NamespacedName{Namespace: l.Namespace, Name: c.LeaseName()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if lease := e.leases[name]; lease != nil {
		return lease, nil
	}
	server, err := e.access(l)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	// One call that hangs must not cost the lease.
	server.Timeout = max(time.Second, l.RenewDeadline.Duration/2)
	server.QPS = unlimited
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return nil, fmt.Errorf("leader election: make a client for the API server: %w", err)
	}
	lease, err := election.NewLease(election.LeaseConfig{
		Leases: client.CoordinationV1(), Namespace: name.Namespace, Name: name.Name, Identity: e.id,
		LeaseDuration: l.LeaseDuration.Duration, RenewDeadline: l.RenewDeadline.Duration, RetryPeriod: l.RetryPeriod.Duration,
	})
	if err != nil {
		return nil, err
	}
	e.leases[name] = lease
	return lease, nil
}
