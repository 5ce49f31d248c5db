package cri

import (
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// TestRepeatsHideNoFailure: who repeats what a fault made fail does not repeat what
// failed by itself, and does not go on for ever.
func TestRepeatsHideNoFailure(t *testing.T) {
	own := backend.Errorf(backend.ErrUnavailable, "the runtime does not answer")
	lost := backend.Errorf(backend.ErrUnavailable, "%w loss", fault.ErrInjected)
	for name, tt := range map[string]struct {
		repeats
		fails []error // then all is well
		calls int
		want  error
	}{
		"all is well":                 {repeats{}, nil, 1, nil},
		"faults":                      {repeats{}, []error{lost, errInjected}, 3, nil},
		"a failure of its own":        {repeats{}, []error{own}, 1, own},
		"one after a fault":           {repeats{}, []error{lost, own}, 2, own},
		"one while the link is reset": {repeats{anyUnavailable: true}, []error{own, lost}, 3, nil},
		"another class while the link is reset": {
			repeats{anyUnavailable: true}, []error{backend.ErrInvalid}, 1, backend.ErrInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := againErr(t.Context(), tt.repeats, func() error {
				calls++
				if calls > len(tt.fails) {
					return nil
				}
				return tt.fails[calls-1]
			})
			if err != tt.want || calls != tt.calls { //nolint:errorlint // the very one
				t.Errorf("%v after %d calls, want %v after %d", err, calls, tt.want, tt.calls)
			}
		})
	}
	if (repeats{}).again(lost, mostInARow, time.Now()) {
		t.Error("faults without end are repeated without end")
	}
}
