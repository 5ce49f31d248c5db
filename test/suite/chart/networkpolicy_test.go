package chart

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// TestNetworkPolicy: a release closes what it does not need, unless it is told otherwise.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	args := append(
		append([]string{"template", namespace, chartDir, "--namespace", namespace}, sims("a", "b")...), "--set",
		"identity.constrainedImpersonation=never",
	)
	for _, tc := range []struct {
		name string
		set  []string
		// open are the ports with the number of peers that may reach each; 0: all.
		open []string
	}{
		{"defaults: the nodes' ports, and probes alone on the health port", nil, []string{"10250/0", "10251/0"}},
		{"monitored", []string{"serviceMonitor.enabled=true"}, []string{"10248/0", "10250/0", "10251/0"}},
		{"scraped by other means", []string{"config.healthzMetrics=true"}, []string{"10248/0", "10250/0", "10251/0"}},
		{
			"with peers",
			[]string{
				"networkPolicy.kubeletAPIFrom[0].ipBlock.cidr=192.0.2.0/24",
				"networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b",
			},
			[]string{"10248/1", "10250/1", "10251/1"},
		},
		{"on the host's network, where no policy holds", []string{"hostNetwork=true", "config.kubeletAPI.port=10350"}, nil},
		{"off", []string{"networkPolicy.enabled=false"}, nil},
	} {
		given := slices.Clone(args)
		for _, value := range tc.set {
			given = append(given, "--set", value)
		}
		out, problems, err := helm(t, given...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", tc.name, err, problems)
		}
		all := manifests(t, out)
		if !slices.ContainsFunc(all, func(m manifest) bool { return m.Kind == "NetworkPolicy" }) {
			if tc.open != nil {
				t.Errorf("%s: there is no policy", tc.name)
			}
			continue
		}
		policy := find[networkingv1.NetworkPolicy](t, all, "NetworkPolicy", "burstlet")
		var open []string
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				open = append(open, fmt.Sprintf("%d/%d", port.Port.IntValue(), len(rule.From)))
			}
		}
		if slices.Sort(open); !slices.Equal(open, tc.open) {
			t.Errorf("%s: open are %q, want %q", tc.name, open, tc.open)
		}
		if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("%s: it is about %v, and burstlet would not reach its remote", tc.name, policy.Spec.PolicyTypes)
		}
	}
}
