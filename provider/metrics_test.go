package provider

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/burstlet/burstlet/backend"
)

// TestCgroupVersion: it is told once the remote has, and of a remote that has none never.
func TestCgroupVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		facts *backend.NodeFacts
		want  string
	}{
		"not yet described": {nil, ""},
		"no cgroups":        {&backend.NodeFacts{}, ""},
		"version 2": {&backend.NodeFacts{CgroupVersion: 2}, `# HELP kubelet_cgroup_version cgroup version on the hosts.
# TYPE kubelet_cgroup_version gauge
kubelet_cgroup_version 2
`},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			reg.MustRegister(cgroupVersion{&remote{facts: tt.facts}})
			if err := testutil.GatherAndCompare(reg, strings.NewReader(tt.want)); err != nil {
				t.Error(err)
			}
		})
	}
}
