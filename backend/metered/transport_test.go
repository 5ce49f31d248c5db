package metered_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/metered"
)

func TestLinksCallsAndQueuesAreShownAsTheyAre(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metered.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	links := []backend.LinkFacts{
		{
			Name: "control", Up: true, Connects: 3, Losses: 2, Failures: map[string]uint64{"authenticate": 4}, Received: 100,
			Sent: 50, RoundTrip: 20 * time.Millisecond,
		},
		{Name: "streams"},
	}
	metered.Wrap(backend.Backend{Name: "cri", Links: func() []backend.LinkFacts { return links }}, m)
	metered.Wrap(backend.Backend{
		Name: "ecs",
		Calls: func() []backend.CallFacts {
			return []backend.CallFacts{{Service: "ECS", Call: "RunTask", Outcome: "Throttled", Count: 7}}
		},
		Queues: func() []backend.QueueFacts { return []backend.QueueFacts{{Call: "RunTask", Waiting: 5}} },
	}, m)
	links[1].Up = true // asked anew each time
	for name, want := range map[string]string{
		"burstlet_cri_link_up": `gauge
burstlet_cri_link_up{connection="control"} 1
burstlet_cri_link_up{connection="streams"} 1`,
		"burstlet_cri_link_connects_total": `counter
burstlet_cri_link_connects_total{connection="control"} 3
burstlet_cri_link_connects_total{connection="streams"} 0`,
		"burstlet_cri_link_losses_total": `counter
burstlet_cri_link_losses_total{connection="control"} 2
burstlet_cri_link_losses_total{connection="streams"} 0`,
		"burstlet_cri_link_failures_total": `counter
burstlet_cri_link_failures_total{connection="control",reason="authenticate"} 4
burstlet_cri_link_failures_total{connection="control",reason="host_key"} 0
burstlet_cri_link_failures_total{connection="control",reason="reach"} 0
burstlet_cri_link_failures_total{connection="control",reason="setup"} 0
burstlet_cri_link_failures_total{connection="streams",reason="authenticate"} 0
burstlet_cri_link_failures_total{connection="streams",reason="host_key"} 0
burstlet_cri_link_failures_total{connection="streams",reason="reach"} 0
burstlet_cri_link_failures_total{connection="streams",reason="setup"} 0`,
		"burstlet_cri_link_round_trip_seconds": `gauge
burstlet_cri_link_round_trip_seconds{connection="control"} 0.02`,
		"burstlet_cri_link_received_bytes_total": `counter
burstlet_cri_link_received_bytes_total{connection="control"} 100
burstlet_cri_link_received_bytes_total{connection="streams"} 0`,
		"burstlet_ecs_requests_total": `counter
burstlet_ecs_requests_total{call="RunTask",outcome="Throttled",service="ECS"} 7`,
		"burstlet_backend_info": `gauge
burstlet_backend_info{backend="cri"} 1
burstlet_backend_info{backend="ecs"} 1`,
		"burstlet_ecs_requests_waiting": `gauge
burstlet_ecs_requests_waiting{call="RunTask"} 5`,
	} {
		got, err := gathered(registry, name)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("names that Prometheus advises against: %v, %v", problems, err)
	}
}

// gathered is a metric as it is scraped, without its help.
func gathered(g prometheus.Gatherer, name string) (string, error) {
	families, err := g.Gather()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, f := range families {
		if f.GetName() == name {
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				return "", err
			}
		}
	}
	_, body, _ := strings.Cut(text.String(), "# TYPE "+name+" ")
	return strings.TrimSpace(body), nil
}

// What is done to pods' cgroups is timed under the kubelet's name.
func TestCgroupsAreTimed(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metered.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	var observe func(string, time.Duration)
	metered.Wrap(backend.Backend{Name: "cri", CgroupsTo: func(to func(string, time.Duration)) { observe = to }}, m)
	metered.Wrap(backend.Backend{Name: "ecs"}, m)
	for operation, took := range map[string]time.Duration{
		backend.CgroupCreate: 20 * time.Millisecond, backend.CgroupUpdate: time.Millisecond,
		backend.CgroupDestroy: time.Minute,
	} {
		observe(operation, took)
	}
	text := `
# HELP kubelet_cgroup_manager_duration_seconds Duration in seconds for cgroup manager operations. Broken down by method.
# TYPE kubelet_cgroup_manager_duration_seconds histogram
`
	for _, of := range []struct {
		operation string
		first     float64 // bucket that has it
		sum       string
	}{{"create", 0.025, "0.02"}, {"destroy", 100, "60"}, {"update", 0, "0.001"}} {
		for _, le := range []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10} {
			n := 0
			if le >= of.first {
				n = 1
			}
			text += fmt.Sprintf("kubelet_cgroup_manager_duration_seconds_bucket{operation_type=%q,le=\"%v\"} %d\n",
				of.operation, le, n)
		}
		text += fmt.Sprintf("kubelet_cgroup_manager_duration_seconds_bucket{operation_type=%[1]q,le=\"+Inf\"} 1\n"+
			"kubelet_cgroup_manager_duration_seconds_sum{operation_type=%[1]q} %[2]s\n"+
			"kubelet_cgroup_manager_duration_seconds_count{operation_type=%[1]q} 1\n", of.operation, of.sum)
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(text), "kubelet_cgroup_manager_duration_seconds")
	if err != nil {
		t.Error(err)
	}
}
