package ecs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// told is what the supervisors were told of graces.
func (n *sessionNode) told() []string {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return slices.Clone(n.world.graces)
}

// deafNode is a node whose pod hears no SIGTERM, so that it is seen to end.
func deafNode(t *testing.T, edit func(*Config)) *sessionNode {
	t.Helper()
	n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, edit)
	n.ref = n.launch("deaf", "sh", "-c", "trap '' TERM; sleep 1000")
	return n
}

// A grace that is shorter than the task's is told to the supervisors before ECS stops the
// task: afterwards they cannot be reached.
func TestAShorterGraceIsToldToTheSupervisors(t *testing.T) {
	n := deafNode(t, nil)
	must(t, n.Pods.Stop(t.Context(), n.ref.Pod, 7*time.Second))
	if got := n.told(); !slices.Equal(got, []string{"app 7s"}) {
		t.Errorf("told %q", got)
	}
	if calls := n.server.Calls(); calls["StopTask"] != 1 || calls["ExecuteCommand"] != 1 {
		t.Errorf("%v", calls)
	}
	// What is left of it is no news.
	must(t, n.Pods.Stop(t.Context(), n.ref.Pod, 6*time.Second))
	if calls := n.server.Calls(); calls["ExecuteCommand"] != 1 {
		t.Errorf("%v", calls)
	}
}

// What a pod's Events say of a grace that its containers do not have; the task is stopped.
func TestAGraceThatCannotBeHadIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*Config)
		old   bool
		grace time.Duration
		want  string // none: nothing is told
	}{
		"its own": {nil, false, 30 * time.Second, ""},
		"longer than its own": {
			nil, false, 90 * time.Second, "have 30s to end, not 1m30s: ECS gives them the terminationGracePeriodSeconds",
		},
		"no image of ours": {
			func(c *Config) { c.TaskImage, c.SessionStats = "", false }, false, 2 * time.Second,
			"have 30s to end, not 2s: tell its containers: nothing in the task can be reached: set backend.ecs.taskImage",
		},
		"no role": {
			func(c *Config) { c.TaskRoleARN = "" }, false, 2 * time.Second, "backend.ecs.taskRoleARN",
		},
		"turned off": {
			func(c *Config) { c.NoExec, c.SessionStats = true, false }, false, 2 * time.Second, "backend.ecs.exec",
		},
		"a program without the way": {
			nil, true, 2 * time.Second, "tell container app: its supervisor, of an earlier version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := deafNode(t, tt.edit)
			n.world.old = tt.old
			err := n.Pods.Stop(t.Context(), n.ref.Pod, tt.grace)
			if backend.IsOtherGrace(err) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v", err)
			}
			if got := n.told(); len(got) > 0 {
				t.Errorf("told %q", got)
			}
			if calls := n.server.Calls(); calls["StopTask"] != 1 {
				t.Errorf("it was not stopped: %v", calls)
			}
			must(t, n.Pods.Stop(t.Context(), n.ref.Pod, tt.grace)) // it is told once
		})
	}
	t.Run("after its end began", func(t *testing.T) {
		t.Parallel()
		n := deafNode(t, nil)
		must(t, n.Pods.Stop(t.Context(), n.ref.Pod, 30*time.Second))
		err := n.Pods.Stop(t.Context(), n.ref.Pod, 2*time.Second)
		if !backend.IsOtherGrace(err) || !strings.Contains(err.Error(), "their end has begun") {
			t.Errorf("%v", err)
		}
	})
}

// TestHowLongAGraceIsTold: StopTask waits for it, so it never costs more than half of what it saves.
func TestHowLongAGraceIsTold(t *testing.T) {
	for saves, want := range map[time.Duration]time.Duration{
		106 * time.Second: 45 * time.Second, 60 * time.Second: 30 * time.Second,
		29 * time.Second: 14500 * time.Millisecond, 6 * time.Second: 3 * time.Second,
	} {
		if got := telling(saves); got != want {
			t.Errorf("%s for a telling that saves %s, want %s", got, saves, want)
		}
	}
}

// TestASlowSessionTellsAGrace: one that takes longer to open than AWS says is waited for where
// that is worth it, and a deletion does not wait for one that never answers.
func TestASlowSessionTellsAGrace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes, grace time.Duration
		told         bool
	}{
		"worth it":    {6 * time.Second, time.Second, true},
		"never ready": {time.Hour, 20 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := deafNode(t, nil)
			n.world.slow = tt.takes
			began := time.Now()
			err := n.Pods.Stop(t.Context(), n.ref.Pod, tt.grace)
			if backend.IsOtherGrace(err) == tt.told || (len(n.told()) == 1) != tt.told {
				t.Errorf("%v, told %q", err, n.told())
			}
			if took := time.Since(began); took > 14*time.Second {
				t.Errorf("it was stopped after %s", took)
			}
			if calls := n.server.Calls(); calls["StopTask"] != 1 {
				t.Errorf("it was not stopped: %v", calls)
			}
		})
	}
}
