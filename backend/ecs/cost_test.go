package ecs

import (
	"math"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/cost"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

func TestCostsAreThoseOfTheAccount(t *testing.T) {
	rich(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		spot := richSpec("b", 0)
		spot.Pod.Annotations = map[string]string{"ecs.burstlet.dev/capacity-type": "spot"}
		must(t, b.Pods.Launch(t.Context(), t.Context(), spot))
		for range 120 { // what the engine's listings see
			time.Sleep(time.Minute)
			_, err := b.Pods.List(t.Context())
			must(t, err)
		}
		facts, err := b.Node.Describe(t.Context())
		must(t, err)
		if got := facts.Annotations[cost.Annotation]; got != "USD 0.02" {
			t.Errorf("annotation %q", got)
		}
		gone(t, b, spot.Ref())
		gone(t, b, richSpec("a", 0).Ref())
		var vcpu, gb, perHour float64
		for _, u := range b.Costs() {
			vcpu, gb, perHour = vcpu+u.VCPUHours, gb+u.GBHours, perHour+u.DollarsPerHour
			if u.VCPUHours < 0.49 || u.Live != 0 {
				t.Errorf("%+v", u)
			}
		}
		want := s.Cost()
		if math.Abs(vcpu-want.VCPUHours) > 0.01*want.VCPUHours || math.Abs(gb-want.GBHours) > 0.01*want.GBHours ||
			perHour != 0 {
			t.Errorf("%v vCPU-h, %v GB-h, %v/h; the account says %+v", vcpu, gb, perHour, want)
		}
	})
}
