package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// TestWhatIsShownOfAnAttempt: addresses once it is ready and while it is well, a reason once it is not.
func TestWhatIsShownOfAnAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		broken, dead int
		now          int
		want         string
	}{
		"not ready":                {now: 4, dead: 20, want: "live, stopped -"},
		"ready":                    {now: 5, dead: 20, want: "live, stopped - [1.1.1.1] [2.2.2.2]"},
		"until its end":            {now: 19, dead: 20, want: "live, stopped - [1.1.1.1] [2.2.2.2]"},
		"at its end":               {now: 20, dead: 20, want: "stopped 20 FailedToStart: why"},
		"its sandbox is killed":    {now: 7, broken: 7, want: "live, stopped - SandboxNotReady: the sandbox was killed"},
		"before it is":             {now: 6, broken: 7, want: "live, stopped - [1.1.1.1] [2.2.2.2]"},
		"killed, and nothing runs": {now: 15, broken: 7, want: "stopped - FailedToStart: why"},
		"killed, and asked to end": {now: 15, broken: 7, dead: 15, want: "stopped 15 FailedToStart: why"},
		"killed, and ends later on": {
			now: 14, broken: 7, dead: 15, want: "live, stopped - SandboxNotReady: the sandbox was killed",
		},
		"long after a normal ending": {now: 99, dead: 20, want: "stopped 20 FailedToStart: why"},
	} {
		a := &attempt{
			created: second(1), ready: second(5), broken: moment(tt.broken), dead: moment(tt.dead),
			ips: []string{"1.1.1.1"}, hostIPs: []string{"2.2.2.2"}, reason: "FailedToStart", message: "why",
			containers: []*container{{started: second(6), finished: second(15)}},
		}
		f := a.facts(second(tt.now))
		got := "stopped " + seen(f.StoppedAt)
		if f.Live {
			got = "live, " + got
		}
		if len(f.IPs)+len(f.HostIPs) > 0 {
			got += fmt.Sprint(" ", f.IPs, " ", f.HostIPs)
			f.IPs[0], f.HostIPs[0] = "mine", "mine"
		}
		if f.Reason != "" {
			got += " " + f.Reason + ": " + f.Message
		}
		if got != tt.want || seen(f.CreatedAt) != "1" {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if a.ips[0] != "1.1.1.1" || a.hostIPs[0] != "2.2.2.2" {
			t.Errorf("%s: who asked changed the attempt: %v, %v", name, a.ips, a.hostIPs)
		}
	}
}

// TestWhatIsShownOfAContainer: whom it runs as and what it is held to once it runs, how it ended once it has.
func TestWhatIsShownOfAContainer(t *testing.T) {
	for name, tt := range map[string]struct {
		started, finished int
		message           string
		now               int
		want              string
	}{
		"made":                     {10, 20, "", 9, "2 - -"},
		"before it was made":       {10, 20, "", 1, "- - -"},
		"runs":                     {10, 20, "", 10, "2 10 - as 7 with 1"},
		"has ended":                {10, 20, "", 20, `2 10 20 as 7 with 1, 3 OOM Why: "last words"`},
		"its end says why":         {10, 20, "it fell", 20, `2 10 20 as 7 with 1, 3 OOM Why: "it fell"`},
		"its end will say why":     {10, 20, "it fell", 19, "2 10 - as 7 with 1"},
		"never ran":                {0, 20, "not pulled", 20, `2 - 20, 3 OOM Why: "not pulled"`},
		"never ran, without words": {0, 20, "", 20, `2 - 20, 3 OOM Why: ""`},
		"runs for ever":            {10, 0, "", 99, "2 10 - as 7 with 1"},
	} {
		c := &container{
			created: second(2), started: moment(tt.started), finished: moment(tt.finished), exitCode: 3, oom: true,
			reason: "Why", message: tt.message, user: &corev1.LinuxContainerUser{UID: 7},
			program: program{writes: []filesystem.Write{
				{Place: filesystem.Place{Path: corev1.TerminationMessagePathDefault}, Op: shell.Replace, Data: "last words"},
			}},
		}
		c.hold(corev1.ResourceRequirements{Limits: resources("1", "")})
		f := c.facts(second(tt.now))
		got := fmt.Sprint(seen(f.CreatedAt), " ", seen(f.StartedAt), " ", seen(f.FinishedAt))
		if f.User != nil && f.Resources != nil {
			got += fmt.Sprintf(" as %d with %s", f.User.UID, f.Resources.Limits.Cpu())
		}
		if f.ExitCode != 0 || f.OOM || f.Reason != "" || f.Message != "" {
			got += fmt.Sprintf(", %d %s %s: %q", f.ExitCode, map[bool]string{true: "OOM"}[f.OOM], f.Reason, f.Message)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestWhatAContainerIsHeldTo: what it is given, and nothing where that is nothing.
func TestWhatAContainerIsHeldTo(t *testing.T) {
	for name, tt := range map[string]struct {
		given corev1.ResourceRequirements
		want  bool
	}{
		"nothing":       {corev1.ResourceRequirements{}, false},
		"empty lists":   {corev1.ResourceRequirements{Limits: corev1.ResourceList{}}, false},
		"only requests": {corev1.ResourceRequirements{Requests: resources("1", "")}, true},
		"only limits":   {corev1.ResourceRequirements{Limits: resources("", "1Mi")}, true},
	} {
		c := &container{held: &corev1.ResourceRequirements{}}
		if c.hold(tt.given); (c.held != nil) != tt.want {
			t.Errorf("%s: held to %+v", name, c.held)
		}
	}
}

// TestTimesAreShownWhenTheyCome: and as another process would tell them.
func TestTimesAreShownWhenTheyCome(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		at   time.Time
		want bool
	}{
		"never": {time.Time{}, false}, "now": {now, true}, "before": {now.Add(-time.Hour), true},
		"a moment later": {now.Add(1), false},
	} {
		got := shown(tt.at, now)
		if got.IsZero() == tt.want || tt.want && !got.Equal(tt.at) || strings.Contains(got.String(), "m=") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFactsOfARemote: of all nodes, in the order of launching, with what was recorded of the pod.
func TestFactsOfARemote(t *testing.T) {
	r := New(Config{})
	for i, uid := range []string{"b", "a", "c"} {
		a := &attempt{node: uid, ref: backend.Ref{UID: "u", Name: uid, Attempt: i}}
		if r.insert(a); uid == "a" {
			a.gone = second(1)
		}
	}
	other := &attempt{ref: backend.Ref{UID: "other", Name: "d"}}
	r.insert(other)
	r.evicted["u"] = &backend.Eviction{Message: "over its limit"}
	var got []string
	for _, f := range r.Facts() {
		got = append(got, f.Ref.Name+map[bool]string{true: " evicted"}[f.Evicted != nil])
	}
	if want := "b evicted, c evicted, d"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
