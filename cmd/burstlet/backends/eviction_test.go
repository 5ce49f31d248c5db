package backends

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

// TestDiagnoseEviction: whoever upgrades hears beforehand that the host is too full.
func TestDiagnoseEviction(t *testing.T) {
	full := func(f *backend.SignalFacts) { f.NodeFS = &backend.Level{Available: 9 << 30, Capacity: 100 << 30} }
	for name, tt := range map[string]struct {
		hard    map[string]string
		squeeze func(*backend.SignalFacts)
		fails   error
		want    string
		good    bool
	}{
		"room": {eviction.DefaultHard(), nil, nil, "the host has more left", true},
		"full": {
			map[string]string{"nodefs.available": "10Gi"},
			full, nil,
			"nodefs.available is 9Gi, below its threshold of 10Gi: as on a kubelet's node", false,
		},
		"no thresholds": {nil, full, nil, "there are no thresholds", true},
		"away":          {eviction.DefaultHard(), nil, errors.New("no route"), "the host is not measured: no route", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				remote := sim.New(sim.Config{})
				remote.Squeeze(tt.squeeze)
				n := Node{Config: config.Configuration{Eviction: config.Eviction{Hard: tt.hard}}}
				found := diagnoseEviction(t.Context(), n, func(context.Context, Node) (backend.Backend, error) {
					b := remote.Backend()
					b.Run = func(ctx context.Context, may backend.Permit) error {
						if may != nil {
							t.Error("doctor may change the host")
						}
						<-ctx.Done()
						return nil
					}
					if tt.fails != nil {
						b.Signals = absent{tt.fails}
					}
					return b, nil
				})
				if len(found) != 1 || found[0].OK != tt.good || found[0].Warn == tt.good ||
					!strings.HasPrefix(found[0].Detail, tt.want) {
					t.Errorf("got %+v, want %q", found, tt.want)
				}
			})
		})
	}
}

// absent is a host that does not answer.
type absent struct{ err error }

func (a absent) Signals(context.Context) (backend.SignalFacts, error) {
	return backend.SignalFacts{}, a.err
}
