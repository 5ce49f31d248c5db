package sshlink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Tenant is a node as one of those of its host.
type Tenant struct {
	// Node is its identity; empty where that is not known.
	Node string
	// Bounded is true where it is told what part of the host it offers.
	Bounded bool
	// ShutdownDelay is how long the host's shutdown is to wait for its pods; 0: not at all.
	ShutdownDelay time.Duration
}

// Others are those of the nodes of a host that are not this one; none where it cannot be
// told from the only one.
func (t Tenant) Others(nodes []string) []string {
	if t.Node == "" && len(nodes) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return node == t.Node })
}

// PartAdvice is what to do where nodes offer what their host has more than once.
const PartAdvice = "set node.capacity.cpu and node.capacity.memory of each to its part of the host"

// neighbours says whose pods are on the host too, of whatever process or cluster. A node
// that offers all of such a host is refused: schedulers would give it away twice.
func (t Tenant) neighbours(nodes []string) []backend.Finding {
	const what = "other nodes"
	others := t.Others(nodes)
	if len(others) == 0 {
		return nil
	}
	have := "pods of " + strings.Join(others, ", ") + " are on this host too"
	if !t.Bounded {
		return []backend.Finding{backend.Bad(what, have+", and this node offers all that it has", PartAdvice)}
	}
	return []backend.Finding{backend.Good(what, have+"; the parts of all must not add up to more than it has")}
}

// DiagnoseShutdown says whether a host's shutdown can wait as long as the node's pods are given.
func (t Tenant) DiagnoseShutdown(ctx context.Context, h host.Host) []backend.Finding {
	const what = "shutdown"
	if t.ShutdownDelay == 0 {
		return nil
	}
	delay, err := h.ShutdownDelay(ctx)
	advice := fmt.Sprintf("set InhibitDelayMaxSec=%d in logind.conf(5), in the file that systemd-analyze cat-config "+
		"systemd/logind.conf shows last", int64(math.Ceil(t.ShutdownDelay.Seconds())))
	switch {
	case errors.Is(err, backend.ErrUnsupported):
		return []backend.Finding{backend.Doubtful(what, err.Error()+": pods end with the host, without their grace",
			"run D-Bus and systemd-logind there, or leave out backend.cri.shutdownGracePeriod and "+
				"shutdownGracePeriodByPodPriority")}
	case err != nil:
		return []backend.Finding{backend.Bad(what, err.Error(), "")}
	case delay.Most >= t.ShutdownDelay:
		return []backend.Finding{backend.Good(
			what, fmt.Sprintf("waits for %s at most, and %s are wanted", delay.Most, t.ShutdownDelay),
		)}
	case delay.Asked > delay.Most:
		return []backend.Finding{backend.Bad(what, fmt.Sprintf(
			"waits for %s at most, %s are wanted, and burstlet's file with %s counts for nothing: pods end without their grace",
			delay.Most, t.ShutdownDelay, delay.Asked), advice)}
	default:
		return []backend.Finding{backend.Good(what, fmt.Sprintf(
			"waits for %s at most; burstlet raises that to %s when it starts", delay.Most, t.ShutdownDelay))}
	}
}
