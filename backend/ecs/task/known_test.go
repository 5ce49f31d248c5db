package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

const settleTime = time.Minute

// knownNow is a process that has just started, and its clock.
func knownNow() (*Known, func(time.Duration) time.Time) {
	m, start := NewKnown(Config{Settle: settleTime}), time.Now()
	return m, func(after time.Duration) time.Time { return start.Add(after) }
}

var first = identity.Key{UID: "uid"}

// TestAbsenceIsProved: that a pod has no task is believed once a listing was read whole which
// began when all that was launched had to show. What is believed too early runs twice.
func TestAbsenceIsProved(t *testing.T) {
	for name, tt := range map[string]struct {
		happens          func(t *testing.T, m *Known, at func(time.Duration) time.Time)
		certain, pending bool
	}{
		"nothing was read": {func(*testing.T, *Known, func(time.Duration) time.Time) {}, false, false},
		"a listing at once: another process may have launched it": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) { m.Listed(at(0), at(time.Second)) }, false, false,
		},
		"one that began too early and ended late": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) {
				m.Listed(at(settleTime-1), at(2*settleTime))
			}, false, false,
		},
		"one after the settle time": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) {
				m.Listed(at(settleTime), at(settleTime))
			}, true, false,
		},
		"one that was read in part": {
			func(t *testing.T, m *Known, at func(time.Duration) time.Time) {
				if m.Partly(at(settleTime)) {
					t.Error("reads go on before the first whole listing")
				}
			}, false, false,
		},
		"a launch without an answer since": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) {
				m.OutcomeUnknown(first, at(settleTime))
				m.Listed(at(2*settleTime-1), at(2*settleTime))
			}, false, true,
		},
		"that launch must have shown": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) {
				m.OutcomeUnknown(first, at(settleTime))
				m.Listed(at(2*settleTime), at(2*settleTime))
			}, true, false,
		},
		"the launch of another attempt": {
			func(_ *testing.T, m *Known, at func(time.Duration) time.Time) {
				m.OutcomeUnknown(identity.Key{UID: "uid", Attempt: 1}, at(settleTime))
				m.Listed(at(settleTime), at(settleTime))
			}, true, false,
		},
		"it was removed, and a listing was read": {
			func(t *testing.T, m *Known, at func(time.Duration) time.Time) {
				seen(t, m, "a 0 0 STOPPED", at(0))
				m.Remove("a", at(0))
				m.Listed(at(0), at(0))
			}, true, false,
		},
		"that was long ago": {
			func(t *testing.T, m *Known, at func(time.Duration) time.Time) {
				seen(t, m, "a 0 0 STOPPED", at(0))
				m.Remove("a", at(0))
				m.Listed(at(0), at(removedMemory))
			}, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, at := knownNow()
				tt.happens(t, m, at)
				if m.Certain(first) != tt.certain || m.Pending(first) != tt.pending {
					t.Errorf("certain: %v, pending: %v; want %v, %v", m.Certain(first), m.Pending(first), tt.certain, tt.pending)
				}
			})
		})
	}
}

// TestMissing: a task that ECS does not know keeps its facts for the settle time: it may be
// too new. One that has stopped is not asked for, and stays until it is removed.
func TestMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		status string
		missed []time.Duration
		seenAt time.Duration // once more, if positive
		known  bool
	}{
		"once":                     {"RUNNING", []time.Duration{0}, 0, true},
		"not for long enough":      {"RUNNING", []time.Duration{0, settleTime - 1}, 0, true},
		"for the settle time":      {"RUNNING", []time.Duration{0, settleTime}, 0, false},
		"seen again in between":    {"RUNNING", []time.Duration{0, 3 * settleTime / 2}, settleTime / 2, true},
		"one that has stopped":     {"STOPPED", []time.Duration{0, settleTime}, 0, true},
		"one that was never known": {"", []time.Duration{0, settleTime}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, at := knownNow()
			if tt.status != "" {
				seen(t, m, "a 0 0 "+tt.status, at(0))
			}
			for _, after := range tt.missed {
				if tt.seenAt > 0 && after > tt.seenAt {
					seen(t, m, "a 0 0 "+tt.status, at(tt.seenAt))
				}
				m.Missed("a", at(after))
			}
			if _, known := m.Identity("a"); known != tt.known {
				t.Errorf("known: %v, want %v", known, tt.known)
			}
		})
	}
}

// TestUnread: what a listing names is read unless it is known to have stopped, was removed
// here, or is not ours; and what lives is read, listed or not.
func TestUnread(t *testing.T) {
	m, at := knownNow()
	seen(t, m, "live 0 0 RUNNING", at(0))
	seen(t, m, "unlisted 1 0 RUNNING", at(0))
	seen(t, m, "ended 2 0 STOPPED", at(0))
	seen(t, m, "removed 3 0 STOPPED", at(0))
	m.Remove("removed", at(0))
	if !m.Ignore("foreign") || m.Ignore("foreign") {
		t.Error("a foreign task is told of once")
	}
	got := m.Unread([]string{"new", "live", "ended", "removed", "foreign", "new"})
	if want := []string{"live", "new", "unlisted"}; !slices.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	// A late answer about a removed task does not bring it back; a launch does.
	seen(t, m, "removed 3 0 RUNNING", at(time.Second))
	if _, known := m.Identity("removed"); known {
		t.Error("a removed task is back")
	}
	m.Launched(Launched{ID: identity.Task{UID: "uid", Attempt: 3}}, Observe(identity.Task{UID: "uid", Attempt: 3},
		types.Task{TaskArn: aws.String("removed")}, func(*time.Time) time.Time { return time.Time{} }, at(time.Second)))
	if _, known := m.Identity("removed"); !known {
		t.Error("a task that was launched is not known")
	}
}

// TestListDue: when all is listed anew.
func TestListDue(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(m *Known, at func(time.Duration) time.Time)
		at      time.Duration
		due     bool
	}{
		"at first": {func(*Known, func(time.Duration) time.Time) {}, 0, true},
		"just read": {
			func(m *Known, at func(time.Duration) time.Time) { m.Listed(at(settleTime), at(settleTime)) },
			settleTime + listOpen/2, false,
		},
		"before the settle time is over": {
			func(m *Known, at func(time.Duration) time.Time) { m.Listed(at(settleTime/2), at(settleTime/2)) },
			settleTime/2 + listOpen/2, false,
		},
		"the settle time is over": {
			func(m *Known, at func(time.Duration) time.Time) { m.Listed(at(settleTime-1), at(settleTime-1)) },
			settleTime, true,
		},
		"a launch must show": {func(m *Known, at func(time.Duration) time.Time) {
			m.OutcomeUnknown(first, at(settleTime))
			m.Listed(at(2*settleTime-1), at(2*settleTime-1))
		}, 2 * settleTime, true},
		"a launch may show": {func(m *Known, at func(time.Duration) time.Time) {
			m.OutcomeUnknown(first, at(settleTime))
			m.Listed(at(settleTime+1), at(settleTime+1))
		}, settleTime + 1 + listOpen, true},
		"partly read a moment ago": {func(m *Known, at func(time.Duration) time.Time) {
			m.Listed(at(settleTime), at(settleTime))
			m.Partly(at(time.Hour))
		}, time.Hour + readRest - 1, false},
		"partly read a while ago": {func(m *Known, at func(time.Duration) time.Time) {
			m.Listed(at(settleTime), at(settleTime))
			m.Partly(at(time.Hour))
		}, time.Hour + readRest, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, at := knownNow()
				tt.happens(m, at)
				if got := m.ListDue(at(tt.at)); got != tt.due {
					t.Errorf("due: %v, want %v", got, tt.due)
				}
			})
		})
	}
}

// TestAsked: a question about pods is answered from memory while that is fresh, but for what
// something says has changed.
func TestAsked(t *testing.T) {
	m, at := knownNow()
	seen(t, m, "live 0 0 RUNNING", at(0))
	seen(t, m, "ended 1 0 STOPPED", at(0))
	asked := func(after time.Duration, uids ...ktypes.UID) string {
		return strings.Join(m.Asked(uids, at(after)), " ")
	}
	for _, tt := range []struct{ got, want string }{
		{asked(readMoving-1, "uid"), ""},
		{asked(readMoving, "uid", "uid"), "live"},
		{asked(readMoving, "other"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("asked for %q, want %q", tt.got, tt.want)
		}
	}
	m.Hinted("uid")
	if got := asked(0, "uid"); got != "live" {
		t.Errorf("after a hint: asked for %q", got)
	}
	seen(t, m, "live 0 0 RUNNING", at(1))
	if got := asked(2, "uid"); got != "" {
		t.Errorf("after the answer: asked for %q", got)
	}
}

// TestFind: the tasks of an attempt, and what may be done to them.
func TestFind(t *testing.T) {
	m, at := knownNow()
	seen(t, m, "a 0 0 RUNNING", at(0))
	seen(t, m, "b 1 0 STOPPING", at(0))
	m.Missed("b", at(1))
	for attempt, want := range [][]Handle{
		{{ARN: "a", Live: true}}, {{ARN: "b", Live: true, Stopping: true, Missing: true}}, nil,
	} {
		ref := backend.Ref{UID: "uid", Attempt: attempt}
		if diff := cmp.Diff(want, m.Find(ref)); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", attempt, diff)
		}
		if _, live := m.LiveIdentity(ref); live != (want != nil) {
			t.Errorf("attempt %d is live: %v", attempt, live)
		}
	}
	if first, second := unanswered(m, "a", "why", at(2)), unanswered(m, "a", "why", at(3)); first != "true true" ||
		second != "true false" {
		t.Errorf("unanswered: %s, then %s", first, second)
	}
	if other, none := unanswered(m, "a", "else", at(4)), unanswered(m, "x", "why", at(4)); other != "true true" ||
		none != "false false" {
		t.Errorf("unanswered for another reason: %s; one that is not known: %s", other, none)
	}
}

func unanswered(m *Known, arn, why string, now time.Time) string {
	known, first := m.Unanswered(arn, why, now)
	return fmt.Sprint(known, first)
}
