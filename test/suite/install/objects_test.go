package install

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/burstlet/burstlet/test/world/basecluster"
)

// passing are the kinds of objects that come and go by themselves.
var passing = []string{"events", "endpointslices", "endpoints", "componentstatuses"}

// objects are the names of all objects of a cluster, but those of namespaces and
// kinds that pass.
func objects(t *testing.T, c *basecluster.Cluster) map[string]bool {
	t.Helper()
	cfg := c.AdminConfig()
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if gv.Group == "metrics.k8s.io" || slices.Contains(passing, r.Name) || !slices.Contains(r.Verbs, "list") {
				continue
			}
			items, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for _, item := range items.Items {
				names[r.Name+" "+item.Namespace+"/"+item.Name] = true
			}
		}
	}
	return names
}

// added are the names that were not there before, sorted.
func added(before, after map[string]bool) []string {
	var names []string
	for name := range after {
		if !before[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestWhatIsLeftIsNotOverlooked: of the tests' own namespaces, what a release or its
// users' pods leave there is no more expected than elsewhere.
func TestWhatIsLeftIsNotOverlooked(t *testing.T) {
	for name, want := range map[string]bool{
		"namespaces /burstlet-ssh":                      true,
		"namespaces /users-ssh":                         true,
		"serviceaccounts burstlet-ssh/default":          true,
		"configmaps users-ssh/kube-root-ca.crt":         true,
		"deployments users-ssh/work":                    true,
		"replicasets users-ssh/work-5d":                 true,
		"namespaces /other":                             false,
		"serviceaccounts burstlet-ssh/burstlet":         false,
		"secrets burstlet-ssh/sh.helm.release.v1":       false,
		"deployments burstlet-ssh/work":                 false,
		"configmaps users-ssh/burstlet":                 false,
		"nodes /edge-1":                                 false,
		"leases kube-node-lease/edge-1":                 false,
		"clusterroles /burstlet-ssh:burstlet:node":      false,
		"roles kube-node-lease/burstlet-ssh:node-lease": false,
	} {
		if got := isOurs(name); got != want {
			t.Errorf("%s is expected to be left: %v, want %v", name, got, want)
		}
	}
}
