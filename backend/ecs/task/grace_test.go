package task

import (
	"slices"
	"testing"
	"time"
)

// TestEnd: when the containers of a task would be killed, beside when they should be.
func TestEnd(t *testing.T) {
	const second = time.Second
	for name, tt := range map[string]struct {
		state       string
		asked, ends time.Duration // of an earlier stop; zero: there was none
		by          time.Duration
		want        string
	}{
		"the task's own":                          {"RUNNING", 0, 0, 30 * second, ""},
		"what is left of it":                      {"RUNNING", 0, 0, 26 * second, ""},
		"a shorter one":                           {"RUNNING", 0, 0, 20 * second, "late"},
		"a longer one":                            {"RUNNING", 0, 0, 60 * second, "early"},
		"asked before, for as long":               {"RUNNING", 28 * second, 30 * second, 28 * second, ""},
		"asked before, and now for less":          {"RUNNING", 28 * second, 30 * second, 10 * second, "late"},
		"asked before for no more, and not heard": {"RUNNING", 5 * second, 30 * second, 4 * second, ""},
		"asked before, and now for longer":        {"RUNNING", 10 * second, 10 * second, 60 * second, ""},
		"nothing runs":                            {"STOPPED", 0, 0, second, ""},
		"somebody else stopped it":                {"STOPPING", 0, 0, second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, at := knownNow()
			seen(t, m, "a 0 0 "+tt.state, at(0))
			if tt.ends > 0 {
				m.EndAsked("a", at(tt.ends), at(tt.asked))
			}
			end := m.End("a", at(tt.by), at(0))
			if got := map[bool]string{true: "late"}[end.Late] + map[bool]string{true: "early"}[end.Early]; got != tt.want {
				t.Errorf("%+v: %q, want %q", end, got, tt.want)
			}
			if tt.want != "" && (len(end.Running) != 1 || end.Left(at(0)) != 30*second) {
				t.Errorf("%+v", end)
			}
		})
	}
	m, at := knownNow()
	m.EndAsked("none", at(1), at(1))
	if end := m.End("none", at(1), at(0)); end.Late || end.Early {
		t.Errorf("of a task that is not known: %+v", end)
	}
	seen(t, m, "a 0 0 RUNNING", at(0))
	m.tasks["a"].id.Grace = 0
	if end := m.End("a", at(1), at(0)); end.Late || end.Early || !end.By.IsZero() {
		t.Errorf("of an earlier version's: %+v", end)
	}
	m.EndAsked("a", at(10*second), at(10*second))
	m.EndAsked("a", at(40*second), at(40*second))
	if end := m.End("a", at(0), at(0)); end.Left(at(0)) != 10*second || !slices.Equal(end.Running, []string{"app"}) {
		t.Errorf("a later deadline took the place of a sooner one: %+v", end)
	}
}
