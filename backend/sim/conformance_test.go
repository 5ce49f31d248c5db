package sim_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var slow = sim.Latency{
	API: 20 * time.Millisecond, Launch: 700 * time.Millisecond, Pull: 2 * time.Second,
	Start: 200 * time.Millisecond, Stop: 500 * time.Millisecond,
}

// podLends is what pods as units lend; containersLend is what containers do.
var (
	podLends       = []string{"Exec", "Attach", "Logs", "Dial", "Forward", "Stats", "Events"}
	containersLend = append(
		[]string{"Containers", "Resize", "Images", "Store", "PullRecords", "Files", "Signals", "Shutdown", "SystemOOMs"},
		podLends...,
	)
)

func lends(cfg sim.Config) []string {
	lent := containersLend
	if cfg.PodUnit {
		lent = podLends
	}
	return slices.DeleteFunc(slices.Clone(lent), func(name string) bool { return cfg.NoEvents && name == "Events" })
}

// TestConformance runs the contract in virtual time, in both granularities, at
// once and with latencies.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"containers":             {},
		"containers with delays": {Latency: slow},
		"containers, no events":  {NoEvents: true},
		"pod":                    {PodUnit: true},
		"pod with delays":        {PodUnit: true, Latency: slow},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, backendtest.Factory{
				New:    func(*testing.T) func() backend.Backend { return sim.New(cfg).Backend },
				Lends:  lends(cfg),
				Around: synctest.Test,
				Image:  "busybox", MissingImage: "example.test/team/missing:1", SpareImage: "spare:1",
			})
		})
	}
}

// TestConformanceInRealTime shows that nothing depends on virtual time.
func TestConformanceInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	backendtest.Run(t, backendtest.Factory{
		New:    func(*testing.T) func() backend.Backend { return sim.New(sim.Config{}).Backend },
		Lends:  containersLend,
		AtOnce: 16,
		Image:  "busybox", MissingImage: "missing", SpareImage: "spare:1",
		Eventually: 3 * time.Minute, Poll: 10 * time.Millisecond,
	})
}
