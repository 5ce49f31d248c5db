package simrpc

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/sim"
)

var slow = sim.Latency{
	API: 20 * time.Millisecond, Launch: 700 * time.Millisecond, Pull: 2 * time.Second,
	Start: 200 * time.Millisecond, Stop: 500 * time.Millisecond,
}

// podLends is what a client lends of pods as units; containersLend is what it lends
// of containers.
var (
	podLends       = []string{"Run", "Exec", "Attach", "Logs", "Dial", "Forward", "Stats", "Events"}
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

// TestConformance runs the contract through server and client in virtual time,
// over a socket in memory.
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
				New: func(t *testing.T) func() backend.Backend {
					w := serve(t, sim.New(cfg).BackendFor)
					return func() backend.Backend { return w.connect("node") }
				},
				Lends:  lends(cfg),
				Around: synctest.Test,
				Image:  "busybox", MissingImage: "example.test/team/missing:1", SpareImage: "spare:1",
			})
		})
	}
}

// TestConformanceOverSocket runs it in real time over a real socket.
func TestConformanceOverSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	for name, cfg := range map[string]sim.Config{"containers": {}, "pod": {PodUnit: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, backendtest.Factory{
				New: func(t *testing.T) func() backend.Backend {
					path := socket(t)
					serveSocket(t, path, sim.New(cfg).BackendFor)
					return func() backend.Backend { return connectSocket(t, path) }
				},
				Lends:  lends(cfg),
				AtOnce: 16,
				Image:  "busybox", MissingImage: "missing", SpareImage: "spare:1",
				Eventually: 3 * time.Minute, Poll: 10 * time.Millisecond,
			})
		})
	}
}

// socket is a path for a socket.
func socket(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

// serveSocket serves until the test ends, or until stop.
func serveSocket(t testing.TB, path string, open func(string) backend.Backend) (stop func()) {
	t.Helper()
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, open)
}

func serveOn(t testing.TB, l net.Listener, open func(string) backend.Backend) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- (&Server{Open: open}).Serve(ctx, l)
		close(ended)
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func connectSocket(t testing.TB, path string) backend.Backend {
	t.Helper()
	b, err := Connect(t.Context(), Config{Socket: path, Node: "node", Check: takesAll, May: backend.Always})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
