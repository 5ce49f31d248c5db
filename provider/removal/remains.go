package removal

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// askTimeout bounds a question, or a request that nothing hangs on.
const askTimeout = 20 * time.Second

// Remains says what is left of the node, as far as it can be found out.
func (n *Node) Remains(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var left []string
	unknown := func(err error) { left = append(left, "perhaps more: "+err.Error()) }
	pods, err := n.pods(ctx)
	if err != nil {
		unknown(err)
	}
	n.mu.Lock()
	for i := range pods {
		left = append(left, fmt.Sprintf("pod %s: it %s", key(&pods[i]), whyLeft(&pods[i], n.refused[pods[i].UID])))
	}
	onRemote, unswept := strings.Join(n.onRemote, ", "), n.unswept
	n.mu.Unlock()
	if onRemote != "" {
		left = append(left, "on the remote, when it was last asked: "+onRemote)
	}
	if unswept != "" {
		left = append(left, "what it keeps on the remote beside pods: "+unswept)
	}
	node, err := n.get(ctx)
	if err != nil {
		unknown(err)
	}
	if node != nil {
		left = append(left, "the Node"+notReady(node))
	}
	lease, err := n.lease(ctx, n.ownLease())
	if err != nil {
		unknown(err)
	}
	if lease != nil {
		left = append(left, "lease "+n.ownLease().String())
	}
	if !n.elected() || n.cfg.KeepElection {
		return left
	}
	if lease, err = n.lease(ctx, n.cfg.Election); err != nil {
		unknown(err)
	} else if lease != nil {
		left = append(left, "lease "+n.cfg.Election.String())
	}
	return left
}

// notReady is why a Node is not ready: often the reason why its pods do not end.
func notReady(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf(" (not ready, %s: %s)", c.Reason, c.Message)
		}
	}
	return ""
}
