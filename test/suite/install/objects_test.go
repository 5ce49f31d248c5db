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
