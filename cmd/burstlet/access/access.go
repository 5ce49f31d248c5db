package access

import (
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

// InPod returns the access of the service account of the pod that this process runs in; nil
// where it runs in none, or in one without.
func InPod() (*rest.Config, error) {
	c, err := rest.InClusterConfig()
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, rest.ErrNotInCluster), errors.Is(err, os.ErrNotExist):
		return nil, nil
	}
	return nil, fmt.Errorf("read the credential of the pod's service account: %w", err)
}
