package ecs

import (
	"testing"
	"time"
)

// What a supervisor says at the end is the last line of its container's log.
func TestASupervisorReportsTheEnd(t *testing.T) {
	own := reportMark + `{"exit":4,"message":"bye"}`
	for name, tc := range map[string]struct {
		script     string
		supervised bool
		lost       bool
		want       []string
	}{
		"a failure": {
			"echo a; sleep 5; exit 4", true, false, []string{"a", reportMark + `{"exit":4,"fromLogs":true}`},
		},
		"a success":             {"echo a; sleep 5", true, false, []string{"a", reportMark + `{"exit":0,"fromLogs":false}`}},
		"one of its own":        {"sleep 5; echo '" + own + "'; exit 4", true, false, []string{own}},
		"its host was lost":     {"echo a; sleep 5", true, true, []string{"a"}},
		"it has no supervisor":  {"echo a; sleep 5; exit 4", false, false, []string{"a"}},
		"it runs for ever":      {"echo a; sleep inf", true, false, []string{"a"}},
		"it ends after a cycle": {"while true; do sleep 2; echo $i; done", true, false, []string{"0", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := script(tc.script)
			c := containerLife{
				does: &b, start: time.Second, end: sum(time.Second, b.after), exit: b.exit, supervised: tc.supervised,
				lost: tc.lost,
			}
			l := c.lines()
			if n := l.count(4 * time.Second); n > len(tc.want) || n == len(tc.want) && tc.want[n-1][0] == reportMark[0] {
				t.Errorf("%d lines before it ends", n)
			}
			var got []string
			for i := range l.count(5 * time.Second) {
				at, text := l.line(i)
				if at > 5*time.Second {
					t.Errorf("%q at %s", text, at)
				}
				got = append(got, text)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("%q, want %q", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("%q, want %q", got, tc.want)
				}
			}
		})
	}
}
