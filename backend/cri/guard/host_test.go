package guard

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// TestOnlyReadsOfTheHostLeaveWithoutAPermit: an operation of the host asks unless it stands
// here among those that change nothing.
func TestOnlyReadsOfTheHostLeaveWithoutAPermit(t *testing.T) {
	// Leader is asked for by a fence.Taker, which asks itself.
	// AwaitShutdown changes nothing that pods have: it delays the host's end. Evicted lets
	// nothing change.
	reads := []string{
		"Facts", "ReadFile", "ReadWithin", "Volumes", "Log", "Usage", "Leader", "AwaitShutdown", "ShutdownDelay", "AwaitOOM",
		"SystemLog", "Evicted",
	}
	p := reflect.ValueOf(permitted{})
	operations := reflect.TypeFor[host.Host]()
	for i := range operations.NumMethod() {
		m := operations.Method(i)
		if slices.Contains(reads, m.Name) {
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for j := 1; j < m.Type.NumIn(); j++ {
			args = append(args, reflect.Zero(m.Type.In(j)))
		}
		func() {
			defer func() {
				if recover() != nil {
					t.Errorf("%s does not ask", m.Name)
				}
			}()
			out := p.MethodByName(m.Name).Call(args)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, backend.ErrThrottled) {
				t.Errorf("%s: %v", m.Name, err)
			}
		}()
	}
}
