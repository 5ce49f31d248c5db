package syncloop_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/statusmgr"
)

// fullRemote refuses launches until a try has a number, and keeps every launch that
// it saw beside what the API held at that moment.
type fullRemote struct {
	backend.Pods
	api *api

	mu   sync.Mutex
	room int // the first try for which there is room
	seen []string
}

func (f *fullRemote) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := "-"
	for _, c := range f.api.get(spec.Pod.Name).Status.Conditions {
		if c.Type == statusmgr.AwaitingCapacity {
			held = c.Reason
		}
	}
	f.seen = append(f.seen, fmt.Sprintf("%d/%d %s", spec.Attempt, spec.Try, held))
	if spec.Try < f.room {
		return backend.Errorf(backend.ErrCapacity, "there is no room")
	}
	return f.Pods.Launch(ctx, wanted, spec)
}

// No room: each try is made once the API holds its number, a new process goes on
// from there, and the condition goes when the pod runs.
func TestTriesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{PodUnit: true})
		remote := &fullRemote{api: a, room: 4}
		open := func() backend.Backend {
			b := a.remote.Backend()
			remote.Pods = b.Pods
			b.Pods, b.Limits.Tries = remote, true
			return b
		}
		a.start(open())
		time.Sleep(time.Second)
		a.create("p", "u", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		time.Sleep(8 * time.Second) // tries 0 and 1, after 0 and 5 s
		a.phase("p", corev1.PodPending)
		if e := a.event("p", "InsufficientCapacity"); e == "" {
			t.Error("nobody was told")
		}
		a.stop()
		a.start(open())
		defer func() { a.stop() }()
		time.Sleep(time.Minute)
		a.phase("p", corev1.PodRunning)
		want := []string{"0/0 -", "0/1 Attempt0Try1", "0/2 Attempt0Try2", "0/3 Attempt0Try3", "0/4 Attempt0Try4"}
		if !slices.Equal(slices.Compact(remote.seen), want) {
			t.Errorf("launches and what the API held:\n got %q\nwant %q", remote.seen, want)
		}
		for _, c := range a.get("p").Status.Conditions {
			if c.Type == statusmgr.AwaitingCapacity {
				t.Errorf("it runs, and the API still tells %+v", c)
			}
		}
		a.audit()
	})
}
