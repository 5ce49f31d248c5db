package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// FirstCallTimeout bounds the first call to an API server, which may not be there.
const FirstCallTimeout = 20 * time.Second

// Find returns an access to the API server: that of the kubeconfig file named, else of
// $KUBECONFIG, else of the pod's own service account, else of ~/.kube/config.
func Find(file string) (*rest.Config, error) {
	if file == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		c, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return c, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no access to a cluster: name a kubeconfig file with --kubeconfig, " +
			"$KUBECONFIG or kubeconfig in the configuration, or put one at ~/.kube/config")
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return c, nil
}

// NodeIdentity returns what distinguishes this node's pods on a remote from all others: as
// configured, else the UID of Service default/kubernetes and the node's name. server is
// the URL of the API server, for errors.
func NodeIdentity(
	ctx context.Context, client kubernetes.Interface, cfg config.Configuration, server string,
) (string, error) {
	if cfg.Node.Identity != "" {
		return cfg.Node.Identity, nil
	}
	ctx, cancel := context.WithTimeout(ctx, FirstCallTimeout)
	defer cancel()
	svc, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	switch {
	case err == nil:
		return string(svc.UID) + "/" + cfg.Node.Name, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", fmt.Errorf("read Service default/kubernetes, whose UID tells clusters apart: %w; "+
			"allow it, or set node.identity", err)
	}
	return "", unreachable(err, server)
}

// StandInIdentity returns the node's identity if it is configured. Otherwise only the
// cluster knows it, and a word stands in: names on ECS that hold it are not the real ones.
func StandInIdentity(cfg config.Configuration) string {
	if cfg.Node.Identity != "" {
		return cfg.Node.Identity
	}
	return "explain"
}
