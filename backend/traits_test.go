package backend_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestTraits: each trait is true exactly where its field is lent.
func TestTraits(t *testing.T) {
	limits := backend.Limits{Runtime: "r", Settle: time.Second, Supervised: true}
	for field, want := range map[string]backend.Traits{
		"Pods":       {Limits: limits},
		"Containers": {Limits: limits, Containers: true},
		"Resize":     {Limits: limits, Resizes: true},
		"Files":      {Limits: limits, Places: true},
		"Refresh":    {Limits: limits, Refreshes: true},
		"Images":     {Limits: limits, Pulls: true},
		"Exec":       {Limits: limits, Exec: true},
		"Dial":       {Limits: limits, Dial: true},
	} {
		b := intercept.Lend([]string{field}, nil)
		b.Limits = limits
		if got := b.Traits(); !reflect.DeepEqual(got, want) {
			t.Errorf("a backend that lends %s has traits %+v, want %+v", field, got, want)
		} else if got.PodUnit() != (field != "Containers") {
			t.Errorf("a backend that lends %s: the pod is the unit of restart: %v", field, got.PodUnit())
		}
	}
}

// TestNothingIsPermittedByNil: who was given no answer may change nothing.
func TestNothingIsPermittedByNil(t *testing.T) {
	if err := backend.Permit(nil).Ask("a change"); backend.Class(err) != "Throttled" {
		t.Errorf("nil permits: %v", err)
	}
	if err := backend.Permit(backend.Always).Ask("a change"); err != nil {
		t.Error(err)
	}
}
