package config

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/syncloop/eviction"
)

// fill gives a node whose pods run on a real host a kubelet's thresholds.
func (e *Eviction) fill(backend string) {
	if e.Hard == nil && backend == BackendCRI {
		e.Hard = eviction.DefaultHard()
	}
}

// settings are the thresholds as they are parsed.
func (e *Eviction) settings() eviction.Settings {
	return eviction.Settings{
		Hard: e.Hard, Soft: e.Soft, SoftGracePeriod: e.SoftGracePeriod, MinimumReclaim: e.MinimumReclaim,
	}
}

// Policy is what the engine evicts pods by; of valid settings.
func (e *Eviction) Policy() *eviction.Policy {
	thresholds, _ := eviction.Parse(nil, e.settings()) // Validate has told of what is wrong
	return &eviction.Policy{
		Thresholds: thresholds, MaxPodGracePeriod: time.Duration(e.MaxPodGracePeriod) * time.Second,
		PressureTransitionPeriod: cmp.Or(e.PressureTransitionPeriod.Duration, eviction.DefaultPressureTransitionPeriod),
	}
}

// validate judges as the kubelet does, and refuses what a backend cannot honour.
func (e *Eviction) validate(at *field.Path, b *Backend) field.ErrorList {
	_, errs := eviction.Parse(at, e.settings())
	if e.MaxPodGracePeriod < 0 {
		errs = append(errs, field.Invalid(at.Child("evictionMaxPodGracePeriod"), e.MaxPodGracePeriod, "must not be negative"))
	}
	if p := e.PressureTransitionPeriod.Duration; p < 0 {
		errs = append(errs, field.Invalid(at.Child("evictionPressureTransitionPeriod"), p.String(), "must not be negative"))
	}
	if b.Type != BackendECS && (b.Type != BackendSim || b.Sim == nil || b.Sim.Granularity != GranularityPod) {
		return errs
	}
	for _, given := range []struct {
		name  string
		given bool
	}{
		{"evictionHard", len(e.Hard) > 0},
		{"evictionSoft", len(e.Soft) > 0},
		{"evictionSoftGracePeriod", len(e.SoftGracePeriod) > 0},
		{"evictionMaxPodGracePeriod", e.MaxPodGracePeriod > 0},
		{"evictionMinimumReclaim", len(e.MinimumReclaim) > 0},
	} {
		if given.given {
			errs = append(
				errs,
				field.Forbidden(
					at.Child(given.name), "pods of this backend share no host that could run short of something: leave it out",
				),
			)
		}
	}
	return errs
}
