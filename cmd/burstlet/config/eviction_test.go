package config_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

// TestEvictionDefaults: a kubelet's on hosts, none elsewhere; what is given stands alone, and
// nodes take over what stands outside.
func TestEvictionDefaults(t *testing.T) {
	const one = "node: {name: a}\nkubeletAPI: {selfSigned: true}\n"
	const several = "kubeletAPI: {selfSigned: true}\nbackend: {type: cri, cri: {}}\nnodes:\n- node: {name: a}\n" +
		"- {node: {name: b}, eviction: {evictionHard: {pid.available: 10%}}}\n- {node: {name: c}, backend: {type: sim}}\n"
	type hard = map[string]string
	for name, tt := range map[string]struct {
		file string
		want []hard
	}{
		"a host":                    {one + "backend: {type: cri, cri: {}}\n", []hard{eviction.DefaultHard()}},
		"a host without thresholds": {one + "backend: {type: cri, cri: {}}\neviction: {evictionHard: {}}\n", []hard{{}}},
		"a host with one": {
			one + "backend: {type: cri, cri: {}}\neviction: {evictionHard: {memory.available: 1Gi}}\n",
			[]hard{{"memory.available": "1Gi"}},
		},
		"a simulation": {one + "backend: {type: sim}\n", []hard{nil}},
		"tasks": {
			"node: {name: a, capacity: {cpu: 1, memory: 1Gi}}\nkubeletAPI: {selfSigned: true}\n" +
				"backend: {type: ecs, ecs: {region: eu-central-1, cluster: c, subnets: [subnet-1]}}\n", []hard{nil},
		},
		"nodes":                    {several, []hard{eviction.DefaultHard(), {"pid.available": "10%"}, nil}},
		"nodes without thresholds": {several + "eviction: {evictionHard: {}}\n", []hard{{}, {"pid.available": "10%"}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(
				t, config.Sources{File: write(t, "apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"+tt.file)},
			)
			var got []hard
			for _, node := range c.Each() {
				got = append(got, node.Eviction.Hard)
				if p := node.Eviction.Policy(); p.PressureTransitionPeriod != 5*time.Minute ||
					(len(p.Thresholds) > 0) != (len(node.Eviction.Hard) > 0) {
					t.Errorf("policy %+v", p)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
