package ecs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	stub "github.com/burstlet/burstlet/test/ecs"
)

func TestContract(t *testing.T) {
	const grace = "the grace of a task stands in its definition: nothing can shorten it"
	skip := map[string]string{
		"stop/grace 0 kills at once":             grace,
		"stop/a shorter grace replaces a longer": grace,
		"remove/kills what runs":                 grace,
		"remove/leaves other pods alone":         grace,
		"exit/termination message of its file":   "a task has no file for a termination message",
	}
	backendtest.Run(t, backendtest.Factory{
		New: func(t *testing.T) func() backend.Backend {
			s := stub.New(stub.Config{Delays: stub.Delays{
				Provision: time.Second, Pull: time.Second, Deprovision: time.Second, Visible: 500 * time.Millisecond,
			}})
			return func() backend.Backend { return open(t, configOf(s)) }
		},
		Around: func(t *testing.T, check func(*testing.T)) { synctest.Test(t, check) },
		Image:  "busybox:1", MissingImage: "registry.example/missing:1",
		MaxApps: 1,
		Skip:    skip,
	})
}
