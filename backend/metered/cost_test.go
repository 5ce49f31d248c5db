package metered_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/metered"
)

func TestCostsAreShownAsTheyAre(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metered.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	metered.Wrap(backend.Backend{Name: "free"}, m)
	facts := []backend.CostFacts{
		{Capacity: "on-demand", Live: 2, DollarsPerHour: 0.5, VCPUHours: 10, GBHours: 20, Dollars: 3.25, Prices: "us-east-1"},
		{Capacity: "spot"}, // by prices of the configuration
	}
	metered.Wrap(backend.Backend{Name: "ecs", Costs: func() []backend.CostFacts { return facts }}, m)
	facts[1].Live = 7 // asked anew each time
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP burstlet_ecs_dollars_per_hour What the pods cost now, in US dollars an hour, by kind of capacity and region of the prices.
# TYPE burstlet_ecs_dollars_per_hour gauge
burstlet_ecs_dollars_per_hour{capacity="on-demand",prices="us-east-1"} 0.5
burstlet_ecs_dollars_per_hour{capacity="spot",prices="configured"} 0
# HELP burstlet_ecs_dollars_total Cumulative cost of the pods in US dollars, by kind of capacity and region of the prices.
# TYPE burstlet_ecs_dollars_total counter
burstlet_ecs_dollars_total{capacity="on-demand",prices="us-east-1"} 3.25
burstlet_ecs_dollars_total{capacity="spot",prices="configured"} 0
# HELP burstlet_ecs_gb_hours_total Cumulative GB hours of memory charged for, by kind of capacity.
# TYPE burstlet_ecs_gb_hours_total counter
burstlet_ecs_gb_hours_total{capacity="on-demand"} 20
burstlet_ecs_gb_hours_total{capacity="spot"} 0
# HELP burstlet_ecs_tasks Number of attempts of pods that are charged for, by kind of capacity.
# TYPE burstlet_ecs_tasks gauge
burstlet_ecs_tasks{capacity="on-demand"} 2
burstlet_ecs_tasks{capacity="spot"} 7
# HELP burstlet_ecs_vcpu_hours_total Cumulative vCPU hours charged for, by kind of capacity.
# TYPE burstlet_ecs_vcpu_hours_total counter
burstlet_ecs_vcpu_hours_total{capacity="on-demand"} 10
burstlet_ecs_vcpu_hours_total{capacity="spot"} 0
`), "burstlet_ecs_dollars_per_hour", "burstlet_ecs_dollars_total", "burstlet_ecs_gb_hours_total", "burstlet_ecs_tasks",
		"burstlet_ecs_vcpu_hours_total", "burstlet_free_tasks")
	if err != nil {
		t.Error(err)
	}
}
