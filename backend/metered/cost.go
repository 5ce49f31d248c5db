package metered

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/backend"
)

// costs shows what the pods of the wrapped backends cost, when it is asked.
type costs struct {
	mu sync.Mutex
	of map[string]func() []backend.CostFacts // by name of the backend
}

func (c *costs) add(name string, f func() []backend.CostFacts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]func() []backend.CostFacts{}
	}
	c.of[name] = f
}

// Describe implements [prometheus.Collector]. The names depend on the backends, so
// none is told beforehand.
func (c *costs) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *costs) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.of {
		for _, facts := range f() {
			for _, m := range []struct {
				name, help string
				kind       prometheus.ValueType
				value      float64
			}{
				{
					"tasks", "Number of attempts of pods that are charged for, by kind of capacity.", prometheus.GaugeValue,
					float64(facts.Live),
				},
				{
					"dollars_per_hour", "What the pods cost now, in US dollars an hour by the list of prices, by kind of capacity.",
					prometheus.GaugeValue, facts.DollarsPerHour,
				},
				{
					"vcpu_hours_total", "Cumulative vCPU hours charged for, by kind of capacity.", prometheus.CounterValue,
					facts.VCPUHours,
				},
				{
					"gb_hours_total", "Cumulative GB hours of memory charged for, by kind of capacity.", prometheus.CounterValue,
					facts.GBHours,
				},
				{
					"dollars_total", "Cumulative cost of the pods in US dollars by the list of prices, by kind of capacity.",
					prometheus.CounterValue, facts.Dollars,
				},
			} {
				desc := prometheus.NewDesc("burstlet_"+name+"_"+m.name, m.help, []string{"capacity"}, nil)
				out <- prometheus.MustNewConstMetric(desc, m.kind, m.value, facts.Capacity)
			}
		}
	}
}
