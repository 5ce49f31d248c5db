package removal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
)

// Takeover has the node while do runs: no other process does anything in its name,
// and with it an engine runs that ends pods and launches none. do gets the node's
// remote, and its context ends when the node is lost; it is called again then. It
// returns what do returned. With Config.KeepPods there is no engine, and a remote
// that cannot be reached is one without Pods.
type Takeover func(ctx context.Context, do func(ctx context.Context, remote backend.Backend) error) error

// Config is what a node is removed with. All fields are required but those that say
// otherwise.
type Config struct {
	Name string
	// Client may do what deploy/rbac/remove-nodes.yaml lists.
	Client kubernetes.Interface
	// Election is the Lease of the election for the node; empty without one: then
	// the node's own in kube-node-lease shows whether a process serves it.
	Election types.NamespacedName
	// KeepElection leaves that Lease while a process holds it: nodes that stay share it. A
	// Lease without a holder is deleted: a process that needs it makes it again.
	KeepElection bool
	// FormerElection is the Lease that the node had if Election was once another; empty if it
	// has none. It is deleted unless a process holds it.
	FormerElection types.NamespacedName
	Takeover       Takeover
	// Signers are the signers of the node's certificates beside Kubernetes' own for
	// kubelets. May be nil.
	Signers []string
	// ForceAfter is how long pods are evicted before they are deleted; negative: for
	// ever.
	ForceAfter time.Duration
	// KeepPods leaves on the remote what runs there, and removes the node from the
	// API alone.
	KeepPods bool
	// Recheck is how long after its end one looks whether the node came back; 0: at
	// once.
	Recheck time.Duration
	// Self is the pod of this process; empty if it is in none.
	Self types.NamespacedName
	// Say prints a line; several goroutines call it.
	Say func(line string)
}

// Node is one node to be removed.
type Node struct {
	cfg   Config
	watch observer
	// lastSign is the last one of a process that served the node and did not say that
	// it ended: a launch of it may show later. Zero if it did, or there was none.
	lastSign time.Time

	// began is when pods were first asked to leave.
	began time.Time

	mu sync.Mutex
	// asked is when each pod was last asked to leave, and refused is why its eviction was
	// refused.
	asked   map[types.UID]time.Time
	refused map[types.UID]string
	// onRemote is what the remote showed last.
	onRemote []string
	// unswept is why what the backend made beside pods could not go when it was tried last.
	unswept string
}

// New returns a node that is still there.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, asked: map[types.UID]time.Time{}, refused: map[types.UID]string{}}
}

func (n *Node) say(format string, args ...any) {
	n.cfg.Say("node " + n.cfg.Name + ": " + fmt.Sprintf(format, args...))
}

// The label and the part of the kubelet's version that tell burstlet's nodes.
const (
	virtualLabel      = "type"
	virtualLabelValue = "virtual-kubelet"
	versionMark       = "+burstlet-"
)

var (
	errForeign = errors.New("it is not a node of burstlet")
	errSelf    = errors.New("this process runs on it and would end itself: run it elsewhere")
)

// isOurs is true of a Node that burstlet registered. One without a status was made
// a moment ago.
func isOurs(node *corev1.Node) bool {
	version := node.Status.NodeInfo.KubeletVersion
	return node.Labels[virtualLabel] == virtualLabelValue && (version == "" || strings.Contains(version, versionMark))
}

// get returns the Node, nil if there is none.
func (n *Node) get(ctx context.Context) (*corev1.Node, error) {
	node, err := n.cfg.Client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", n.cfg.Name, err)
	case !isOurs(node):
		return nil, fmt.Errorf("node %s: %w (kubelet version %q, label %s=%s): nothing of it was changed",
			n.cfg.Name, errForeign, node.Status.NodeInfo.KubeletVersion, virtualLabel, node.Labels[virtualLabel])
	}
	return node, nil
}

// check changes nothing.
func (n *Node) check(ctx context.Context) error {
	return until(ctx, func() (bool, time.Duration, error) {
		node, err := n.get(ctx)
		if err != nil {
			return false, 0, err
		}
		pods, err := n.pods(ctx)
		if err != nil {
			return false, 0, err
		}
		for i := range pods {
			if self := n.cfg.Self; self.Name != "" && pods[i].Name == self.Name && pods[i].Namespace == self.Namespace {
				return false, 0, fmt.Errorf("node %s: %w: pod %s", n.cfg.Name, errSelf, self)
			}
		}
		if node == nil {
			n.say("is not in the API; its pods there: %d", len(pods))
		} else {
			n.say("found, pods: %d", len(pods))
		}
		return true, 0, nil
	})
}

// cordon keeps the scheduler from it.
func (n *Node) cordon(ctx context.Context) error {
	there := false
	err := try(ctx, func() error {
		node, err := n.get(ctx)
		there = node != nil
		if err != nil || !there || node.Spec.Unschedulable {
			return err
		}
		_, err = n.cfg.Client.CoreV1().Nodes().Patch(ctx, n.cfg.Name, types.StrategicMergePatchType,
			[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", n.cfg.Name, err)
	}
	if there {
		n.say("cordoned")
	}
	return nil
}

// unregister deletes the Node.
func (n *Node) unregister(ctx context.Context) error {
	deleted := false
	err := try(ctx, func() error {
		node, err := n.get(ctx)
		if err != nil || node == nil {
			return err
		}
		deleted = true
		err = n.cfg.Client.CoreV1().Nodes().Delete(
			ctx, n.cfg.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))},
		)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete node %s: %w", n.cfg.Name, err)
	}
	if deleted {
		n.say("Node deleted")
	}
	return nil
}
