package doctor

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func TestNodesOfOneHost(t *testing.T) {
	part := config.Capacity{
		CPU:    &config.Quantity{Quantity: resource.MustParse("2")},
		Memory: &config.Quantity{Quantity: resource.MustParse("4Gi")},
	}
	node := func(name, endpoint string, capacity config.Capacity) config.Configuration {
		c := config.Configuration{Node: config.Node{Name: name, Capacity: capacity}}
		c.Backend = config.Backend{Type: config.BackendCRI, CRI: &config.CRI{Endpoint: endpoint}}
		return c
	}
	sim := config.Configuration{Node: config.Node{Name: "s"}, Backend: config.Backend{Type: config.BackendSim}}
	for name, tt := range map[string]struct {
		nodes []config.Configuration
		want  string // of the first; empty: nothing
	}{
		"alone": {[]config.Configuration{
			node("a", "ssh://root@h", config.Capacity{}), node("b", "ssh://root@other", config.Capacity{}), sim,
		}, ""},
		"no host": {[]config.Configuration{sim, sim}, ""},
		"counted twice": {
			[]config.Configuration{node("a", "ssh://root@h", part), node("b", "ssh://burst@h:22", config.Capacity{})},
			"FAIL also of node b: what the host has is offered more than once",
		},
		"parts": {
			[]config.Configuration{node("a", "ssh://root@h", part), node("b", "ssh://root@h", part)},
			"ok also of node b, each with its part",
		},
		"here": {[]config.Configuration{
			node("a", "unix:///run/a.sock", part), node("b", "unix:///run/b.sock", config.Capacity{CPU: part.CPU}),
		}, "FAIL also of node b"},
		"another port": {[]config.Configuration{node("a", "ssh://root@h", part), node("b", "ssh://root@h:2222", part)}, ""},
	} {
		var got string
		for _, f := range sharedHost(tt.nodes, 0) {
			got = "ok " + f.Detail
			if !f.Warn && !f.OK && strings.Contains(f.Advice, "node.capacity.cpu") {
				got = "FAIL " + f.Detail
			}
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
