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
			collect(name, facts, out)
		}
	}
}

// ownPrices is the label of dollars by prices of the configuration.
const ownPrices = "configured"

func collect(name string, facts backend.CostFacts, out chan<- prometheus.Metric) {
	prices := facts.Prices
	if prices == "" {
		prices = ownPrices
	}
	for _, m := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      float64
		// priced is true of dollars, which say whose prices they are by.
		priced bool
	}{
		{
			"tasks", "Number of attempts of pods that are charged for, by kind of capacity.", prometheus.GaugeValue,
			float64(facts.Live), false,
		},
		{
			"dollars_per_hour", "What the pods cost now, in US dollars an hour, by kind of capacity and region of the prices.",
			prometheus.GaugeValue, facts.DollarsPerHour, true,
		},
		{
			"vcpu_hours_total", "Cumulative vCPU hours charged for, by kind of capacity.", prometheus.CounterValue,
			facts.VCPUHours, false,
		},
		{
			"gb_hours_total", "Cumulative GB hours of memory charged for, by kind of capacity.", prometheus.CounterValue,
			facts.GBHours, false,
		},
		{
			"dollars_total", "Cumulative cost of the pods in US dollars, by kind of capacity and region of the prices.",
			prometheus.CounterValue, facts.Dollars, true,
		},
	} {
		labels, values := []string{"capacity"}, []string{facts.Capacity}
		if m.priced {
			labels, values = append(labels, "prices"), append(values, prices)
		}
		desc := prometheus.NewDesc("burstlet_"+name+"_"+m.name, m.help, labels, nil)
		out <- prometheus.MustNewConstMetric(desc, m.kind, m.value, values...)
	}
}
