package background

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// noting is a test that notes its errors.
type noting struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (n *noting) Helper()           {}
func (n *noting) Cleanup(f func())  { n.cleanups = append(n.cleanups, f) }
func (n *noting) Error(args ...any) { n.errors = append(n.errors, fmt.Sprint(args...)) }

func TestRun(t *testing.T) {
	for name, stops := range map[string]bool{"the test ends": false, "it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			test, ended := &noting{TB: t}, false
			stop := Run(test, func(ctx context.Context) error {
				<-ctx.Done()
				ended = true
				return errors.New("it ends badly")
			})
			if stops {
				stop()
			}
			for _, f := range test.cleanups {
				f()
			}
			if !ended || len(test.errors) != 1 || test.errors[0] != "it ends badly" {
				t.Errorf("ended: %v, errors %q", ended, test.errors)
			}
		})
	}
}
