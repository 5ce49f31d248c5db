package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// seen notes a task as ECS shows it: "name attempt minute-it-was-made status".
func seen(t *testing.T, m *Known, text string, now time.Time) {
	t.Helper()
	var name, status string
	var attempt, made int
	if _, err := fmt.Sscan(text, &name, &attempt, &made, &status); err != nil {
		t.Fatal(err)
	}
	at := now.Add(time.Duration(made) * time.Minute)
	desired := "RUNNING"
	if status != "RUNNING" && status != "PENDING" {
		desired = "STOPPED"
	}
	m.Observed(Observe(identity.Task{
		UID: "uid", Attempt: attempt, Grace: 30, Containers: []identity.Container{{Name: "app"}},
	}, types.Task{
		TaskArn: &name, LastStatus: &status, DesiredStatus: &desired, CreatedAt: &at, StartedAt: &at,
		Containers: []types.Container{{Name: aws.String("app"), LastStatus: &status}},
	}, func(at *time.Time) time.Time {
		if at == nil {
			return time.Time{}
		}
		return *at
	}, now))
}

// Of an attempt one task is wanted, the oldest; the others are stopped and not shown.
func TestTwoTasksOfOneAttempt(t *testing.T) {
	for name, tc := range map[string]struct{ seen, shown, unwanted string }{
		"one task":                          {"a 0 0 RUNNING", "a", ""},
		"two attempts":                      {"a 0 0 RUNNING, b 1 1 RUNNING", "a b", ""},
		"two tasks":                         {"a 0 0 RUNNING, b 0 1 RUNNING", "a", "b"},
		"the older is seen later":           {"b 0 1 RUNNING, a 0 0 RUNNING", "a", "b"},
		"two of one moment":                 {"b 0 0 PENDING, a 0 0 PENDING", "a", "b"},
		"three tasks":                       {"c 0 2 RUNNING, a 0 0 RUNNING, b 0 1 RUNNING", "a", "b c"},
		"the older has ended: it ran again": {"a 0 0 STOPPED, b 0 1 RUNNING", "a b", ""},
		"the double is ending":              {"a 0 0 RUNNING, b 0 1 RUNNING, b 0 1 STOPPING", "a", ""},
		"the double has ended":              {"a 0 0 RUNNING, b 0 1 RUNNING, b 0 1 STOPPED", "a", ""},
		"then the first ends":               {"a 0 0 RUNNING, b 0 1 RUNNING, b 0 1 STOPPED, a 0 0 STOPPED", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := NewKnown(Config{Settle: time.Minute}), time.Unix(1_000_000, 0)
			for _, text := range strings.Split(tc.seen, ", ") {
				seen(t, m, text, now)
			}
			for what, facts := range map[string]int{"all": len(m.All(now)), "of the pod": len(m.Of([]ktypes.UID{"uid"}, now))} {
				if facts != len(strings.Fields(tc.shown)) {
					t.Errorf("%s: %d tasks", what, facts)
				}
			}
			var shown []string
			for _, f := range m.Facts("uid") {
				shown = append(shown, f.ID)
			}
			slices.Sort(shown)
			if got := strings.Join(shown, " "); got != tc.shown {
				t.Errorf("shown: %s", got)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(m.Unwanted())), " "); got != tc.unwanted {
				t.Errorf("unwanted: %s", got)
			}
			select {
			case <-m.IsUnwanted():
			default:
				if tc.unwanted != "" {
					t.Error("nobody is told")
				}
			}
		})
	}
}

// A task that rests but for its address is read at growing intervals, as one is of which
// ECS says nothing.
func TestHowOftenATaskWithoutAnAddressIsRead(t *testing.T) {
	for name, unanswered := range map[string]bool{"no address": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			m, now := NewKnown(Config{Settle: time.Minute}), time.Unix(1_000_000, 0)
			reads := 0
			for begun := now; now.Sub(begun) < time.Hour; now = now.Add(time.Second) {
				if begun != now && len(m.Moving(now)) == 0 {
					continue
				}
				reads++
				if unanswered && reads > 1 {
					if known, first := m.Unanswered("a", "why", now); !known || first != (reads == 2) {
						t.Fatalf("read %d: known %v, first %v", reads, known, first)
					}
					continue
				}
				seen(t, m, "a 0 0 RUNNING", now)
			}
			if reads < 100 || reads > 150 {
				t.Errorf("%d reads in an hour", reads)
			}
			if known, _ := m.Unanswered("other", "why", now); known {
				t.Error("another is known")
			}
		})
	}
}
