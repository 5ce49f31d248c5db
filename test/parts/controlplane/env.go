package controlplane

import "strings"

// NodeEnv is an environment for a node of a control plane, without what would change
// burstlet's configuration or lead it to another cluster.
func NodeEnv(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "BURSTLET_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			kept = append(kept, variable)
		}
	}
	return kept
}
