package removal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// sweepPause is the least time between two listings that prove that nothing is left.
const sweepPause = 2 * time.Second

// sayAgain is how often it is said why something waits.
const sayAgain = time.Minute

// sweep waits until the remote shows nothing of this node twice, which the engine
// brings about, and deletes what it keeps beside pods.
func (n *Node) sweep(ctx context.Context, remote backend.Backend) error {
	// A launch without a reply may show late, if who made it was killed.
	settled := time.Now()
	if !n.lastSign.IsZero() {
		settled = n.lastSign.Add(remote.Limits.Settle)
	}
	if wait := time.Until(settled); wait > sweepPause {
		n.say("waiting until %s UTC: what runs it did not say that it ended, and may have launched a pod that does not "+
			"show yet",
			settled.UTC().Format(time.TimeOnly))
	}
	empty := false
	err := until(ctx, func() (bool, time.Duration, error) {
		left, err := n.onTheRemote(ctx, remote)
		if err != nil {
			return false, 0, err
		}
		first := !empty
		if empty = len(left) == 0; !empty {
			return false, lookAgain, nil
		}
		if first || time.Now().Before(settled) {
			return false, max(sweepPause, remote.Limits.Stale), nil
		}
		return true, 0, nil
	})
	if err != nil {
		return fmt.Errorf("sweep the remote of node %s: %w", n.cfg.Name, err)
	}
	return n.sweepRest(ctx, remote)
}

// sweepRest deletes what the backend made beside pods.
func (n *Node) sweepRest(ctx context.Context, remote backend.Backend) error {
	if remote.Sweep != nil {
		var said time.Time
		err := until(ctx, func() (bool, time.Duration, error) {
			removed, err := remote.Sweep(ctx)
			n.sweepWaits(err)
			if errors.Is(err, backend.ErrThrottled) && time.Since(said) >= sayAgain {
				said = time.Now()
				n.say("deleting what it keeps on the remote waits: %v", err)
			}
			for _, what := range removed {
				n.say("deleted on the remote: %s", what)
			}
			return len(removed) == 0, 0, err
		})
		if err != nil {
			return fmt.Errorf("sweep the remote of node %s: %w", n.cfg.Name, err)
		}
	}
	n.say("nothing of it is left on the remote")
	return nil
}

// sweepWaits notes why what the backend made beside pods cannot go yet, for Remains.
func (n *Node) sweepWaits(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unswept = ""
	if why != nil {
		n.unswept = why.Error()
	}
}

// onTheRemote names what there is of pods, and removes volumes whose pod is gone.
func (n *Node) onTheRemote(ctx context.Context, remote backend.Backend) ([]string, error) {
	facts, err := remote.Pods.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the pods on the remote: %w", err)
	}
	var left []string
	for _, f := range facts {
		left = append(left, fmt.Sprintf("pod %s/%s (uid %s, attempt %d)", f.Namespace, f.Name, f.UID, f.Attempt))
	}
	if remote.Files != nil {
		volumes, err := remote.Files.Volumes(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the volumes on the remote: %w", err)
		}
		for _, v := range volumes {
			left = append(left, fmt.Sprintf("volume %s of pod %s/%s (uid %s)", v.Name, v.Pod.Namespace, v.Pod.Name, v.Pod.UID))
		}
		if len(facts) == 0 {
			err = clearVolumes(ctx, remote.Files, volumes)
		}
		if err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onRemote = left
	return left, nil
}

func clearVolumes(ctx context.Context, files backend.Files, volumes []backend.VolumeFacts) error {
	for _, v := range volumes {
		if err := files.Clear(ctx, v.Pod); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return fmt.Errorf("clear the volumes of pod %s/%s: %w", v.Pod.Namespace, v.Pod.Name, err)
		}
	}
	return nil
}

// sayKept says what stays on the remote, as far as it can be asked.
func (n *Node) sayKept(ctx context.Context, remote backend.Backend) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	left, err := []string(nil), errors.New("it cannot be reached")
	if remote.Pods != nil {
		left, err = n.listKept(ctx, remote)
	}
	if err != nil {
		n.say("what runs on the remote stays there; what that is, it does not say: %v", err)
		return
	}
	n.say("stays on the remote, with what it needs there, until this is run again without --keep-pods: %d pods", len(left))
	for _, what := range left {
		n.say("stays on the remote: %s", what)
	}
}

func (n *Node) listKept(ctx context.Context, remote backend.Backend) ([]string, error) {
	facts, err := remote.Pods.List(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, f := range facts {
		left = append(left, fmt.Sprintf("pod %s/%s (uid %s, attempt %d)", f.Namespace, f.Name, f.UID, f.Attempt))
	}
	return left, nil
}
