package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IdentityAnnotation is where a Node says what its pods are told by on the remote. A
// later process goes by it, whatever the identity was derived from.
const IdentityAnnotation = annotationDomain + "/identity"

// errIdentity says that a Node's pods run under another identity than ours.
var errIdentity = errors.New("the node has another identity")

// ChangeIdentity says how the identity of a node is changed.
func ChangeIdentity(node string) string {
	return fmt.Sprintf("to change it, take the node away first (burstlet remove-nodes), or, if nothing runs under the "+
		"old one: "+
		"kubectl annotate node %s %s-", node, IdentityAnnotation)
}

// claim writes our identity on a Node that has none, before anything is done under it.
func (r registrar) claim(ctx context.Context, node *corev1.Node, identity string) (*corev1.Node, error) {
	kept := node.Annotations[IdentityAnnotation]
	switch {
	case identity == "" || kept == identity:
		return node, nil
	case kept != "":
		return nil, fmt.Errorf("%w: its pods run under %q, this process would run them under %q (node.identity); "+
			"another process made the node meanwhile: start again with one of the two; %s",
			errIdentity, kept, identity, ChangeIdentity(node.Name))
	}
	// The version keeps what another process writes at the same time.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": node.ResourceVersion, "annotations": map[string]string{IdentityAnnotation: identity},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the identity of node %s: %w", node.Name, err)
	}
	return r.nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
