package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

func TestLimitMemory(t *testing.T) {
	for _, tt := range []struct {
		name, env string
		of        memlimit.Provider
		want      int64
	}{
		{"nine tenths of the cgroup's limit", "", memlimit.Limit(1000 << 20), 900 << 20},
		{"$GOMEMLIMIT is kept", "300MiB", memlimit.Limit(1000 << 20), 300 << 20},
		{"no limit", "", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, math.MaxInt64},
		{"one that cannot be read", "", func() (uint64, error) { return 0, errors.New("no such file") }, 300 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := debug.SetMemoryLimit(300 << 20)
			t.Cleanup(func() { debug.SetMemoryLimit(before) })
			t.Setenv("GOMEMLIMIT", tt.env)
			if tt.env == "" {
				if err := os.Unsetenv("GOMEMLIMIT"); err != nil { // until the test ends
					t.Fatal(err)
				}
			}
			limitMemory(t.Context(), tt.of)
			if got := debug.SetMemoryLimit(-1); got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
}

// A process takes the limit of its container, and tells of it; no API server is needed. It
// has two nodes, since with one it ends where that cannot start.
func TestRealMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	within := launch.MemoryCgroup(t, limit)
	port := ports.Free(t)
	process := launch.ForTest(t, launch.Config{Within: within, File: launch.File(t, fmt.Sprintf(`
apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
node: {internalIP: 127.0.0.1}
kubeletAPI: {address: 127.0.0.1, selfSigned: true}
healthzBindAddress: 127.0.0.1
healthzPort: %d
healthzMetrics: true
backend: {type: sim}
nodes:
- {node: {name: a, identity: a}, kubeletAPI: {port: %d}}
- {node: {name: b, identity: b}, kubeletAPI: {port: %d}}
`, cptest.Kubeconfig(t, &rest.Config{Host: "https://127.0.0.1:1"}), port, ports.Free(t), ports.Free(t)))})
	wait.For(t, patience, "the limit among the metrics", func() error {
		if err := process.Err(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(local("http", port, "/metrics"))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		if err != nil {
			return err
		}
		for name, ok := range map[string]func(float64) bool{
			"go_gc_gomemlimit_bytes": func(v float64) bool { return v == math.Floor(limit*partOfLimit) },
			"go_gc_heap_live_bytes":  func(v float64) bool { return v > 0 && v < limit },
		} {
			if got := families[name].GetMetric(); len(got) != 1 || !ok(got[0].GetGauge().GetValue()) {
				return fmt.Errorf("%s: %v", name, got)
			}
		}
		return nil
	})
}
