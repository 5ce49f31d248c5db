package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errForeign says that the name belongs to a node of another kind.
var errForeign = errors.New("this node name is taken")

// registrar makes our Node, at the start and again when it was deleted.
type registrar struct {
	nodes  corev1client.NodeInterface
	taints []corev1.Taint
	// restricted are labels that perhaps only an administrator may set.
	restricted map[string]string
	// unschedulable is true for a Node that is made cordoned.
	unschedulable bool
}

// ensure returns our Node as the API holds it, and makes it if it is not there.
// Taints are set at creation only: an administrator may have changed them since,
// and NodeRestriction lets no node do it.
func (r registrar) ensure(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	node, err := r.nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = r.create(ctx, want)
		if !apierrors.IsAlreadyExists(err) {
			return node, err
		}
		node, err = r.nodes.Get(ctx, want.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	if err := CheckOwner(node); err != nil {
		return nil, err
	}
	if node, err = r.claim(ctx, node, want.Annotations[IdentityAnnotation]); err != nil {
		return nil, err
	}
	r.adviseTaints(ctx, node)
	return node, r.label(ctx, node)
}

// CheckOwner returns an error that says what to do where a Node of our name belongs
// to a kubelet of another kind.
func CheckOwner(node *corev1.Node) error {
	version := node.Status.NodeInfo.KubeletVersion
	if version == "" || node.Labels[virtualLabel] == virtualLabelValue {
		return nil
	}
	return fmt.Errorf("%w: node %s belongs to another kubelet (version %s); "+
		"choose another node name, or if that node is gone: kubectl delete node %s",
		errForeign, node.Name, version, node.Name)
}

// create makes the Node with its taints, at second try without the labels that
// NodeRestriction refuses.
func (r registrar) create(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	full := want.DeepCopy()
	full.Spec.Taints, full.Spec.Unschedulable = r.taints, r.unschedulable
	maps.Copy(full.Labels, r.restricted)
	node, err := r.nodes.Create(ctx, full, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) && len(r.restricted) > 0 {
		full.Labels = want.Labels
		if node, err = r.nodes.Create(ctx, full, metav1.CreateOptions{}); err == nil {
			r.adviseLabels(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	log.G(ctx).Info("node registered")
	return node, nil
}

// label sets those restricted labels that the Node does not have.
func (r registrar) label(ctx context.Context, node *corev1.Node) error {
	if within(r.restricted, node.Labels) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": r.restricted}})
	if err != nil {
		return fmt.Errorf("encode labels of node %s: %w", node.Name, err)
	}
	_, err = r.nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsForbidden(err) {
		r.adviseLabels(ctx, node.Name)
		return nil
	}
	return err
}

func (r registrar) adviseLabels(ctx context.Context, name string) {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(r.restricted)) {
		pairs = append(pairs, key+"="+r.restricted[key])
	}
	log.G(ctx).WithField("command", "kubectl label --overwrite node "+name+" "+strings.Join(pairs, " ")).
		Warn("the API server does not let a node set these labels on itself; an administrator can")
}

// adviseTaints says which configured taints the Node does not have.
func (r registrar) adviseTaints(ctx context.Context, node *corev1.Node) {
	var missing []string
	for _, taint := range r.taints {
		if !slices.ContainsFunc(node.Spec.Taints, func(have corev1.Taint) bool {
			return have.Key == taint.Key && have.Value == taint.Value && have.Effect == taint.Effect
		}) {
			missing = append(missing, taint.ToString())
		}
	}
	if len(missing) > 0 {
		log.G(ctx).WithField("command", "kubectl taint node "+node.Name+" "+strings.Join(missing, " ")).
			Warn("the node exists without these configured taints and may not change them; an administrator can")
	}
}
