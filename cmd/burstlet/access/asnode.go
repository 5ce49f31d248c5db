package access

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// AsNode returns c with the impersonation of a node.
//
// Where the API server constrains impersonation (Kubernetes 1.36, KEP-5284), it grants
// impersonate:arbitrary-node to those who name the user alone, and adds the group
// itself. Elsewhere the group is named too. AsNode asks the API server which it is, so
// that the caller needs the rights of one of the two only. Every error can be temporary:
// rights may come later.
func AsNode(ctx context.Context, c *rest.Config, node string) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, FirstCallTimeout)
	defer cancel()
	own, err := impersonated(ctx, c, rest.ImpersonationConfig{UserName: nodeuser.Name(node)})
	if err != nil || own != nil {
		return own, err
	}
	own, err = impersonated(
		ctx, c, rest.ImpersonationConfig{UserName: nodeuser.Name(node), Groups: []string{nodeuser.Group}},
	)
	if err == nil && own == nil {
		err = fmt.Errorf("impersonateNode: the access to the API server may not impersonate user %s in group %s: "+
			"grant it as deploy/rbac/serviceaccount.yaml does, for this node's name "+
			"(the chart does; identity.constrainedImpersonation must suit the cluster's version)",
			nodeuser.Name(node), nodeuser.Group)
	}
	return own, err
}

// impersonated returns c with the impersonation, or nil where the API server does not
// take it for a node's.
func impersonated(ctx context.Context, c *rest.Config, as rest.ImpersonationConfig) (*rest.Config, error) {
	out := rest.CopyConfig(c)
	out.Impersonate = as
	client, err := kubernetes.NewForConfig(out)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, unreachable(err, c.Host)
	case !slices.Contains(review.Status.UserInfo.Groups, nodeuser.Group):
		return nil, nil // the user alone is no node here
	}
	return out, nil
}

// unreachable says what to do about the failure of a first call.
func unreachable(err error, server string) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the API server at %s does not accept the credential: %w; "+
			"check the user in the kubeconfig (--kubeconfig)", server, err)
	}
	return fmt.Errorf("reach the API server at %s: %w; check that it runs and the server in the kubeconfig (--kubeconfig)",
		server, err)
}
