package logs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

func TestTheEndOfALogAsAMessage(t *testing.T) {
	lines := func(n int, text string) (out []logLine) {
		for range n {
			out = append(out, logLine{text: text})
		}
		return out
	}
	for name, tc := range map[string]struct {
		lines []logLine
		want  string
	}{
		"nothing":                {nil, ""},
		"a line":                 {lines(1, "a"), "a\n"},
		"a line with its end":    {lines(1, "a\n"), "a\n"},
		"as many lines as count": {lines(80, "a"), strings.Repeat("a\n", 80)},
		"more lines":             {append(lines(2, "x"), lines(80, "a")...), strings.Repeat("a\n", 80)},
		"as many bytes as count": {lines(1, strings.Repeat("a", 2047)), strings.Repeat("a", 2047) + "\n"},
		"more bytes": {lines(1, strings.Repeat("x", 9)+strings.Repeat("a", 2047)), strings.Repeat("a", 2047) +
			"\n"},
		"cut in a character": {lines(1, "é"+strings.Repeat("a", 2046)), strings.Repeat("a", 2046) + "\n"},
	} {
		if got := endOfLog(tc.lines); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(tc.want))
		}
	}
}

// What the log of a container that ended says of its end.
func TestWhatALogSaysOfAnEnd(t *testing.T) {
	const fromLogs = "\x1eburstlet {\"exit\":1,\"fromLogs\":true}\n"
	for name, tc := range map[string]struct {
		pages    [][]string
		fallback bool
		want     string
		found    bool
	}{
		"the report":                       {[][]string{{"a", report}}, true, "why", true},
		"beside the last line":             {[][]string{{"a" + report}}, true, "why", true},
		"before what came late":            {[][]string{{report, "late"}}, true, "why", true},
		"it refers to the log":             {[][]string{{"a", "b", fromLogs}}, true, "a\nb\n", true},
		"which is no message":              {[][]string{{"a", fromLogs}}, false, "", true},
		"no report":                        {[][]string{{"a", "b"}}, true, "a\nb\n", false},
		"no report that is waited for":     {[][]string{{"a", "b"}}, false, "", false},
		"nothing at all":                   {nil, true, "", false},
		"an empty page after it":           {[][]string{{"a", report}, {}}, true, "why", true},
		"several empty pages after it":     {[][]string{{"a", report}, {}, {}, {}}, true, "why", true},
		"no more than the kubelet's lines": {[][]string{{strings.Repeat("a\n", 3), report}}, true, "why", true},
	} {
		l := New(&paged{pages: tc.pages}, "", "g", known("STOPPED", time.Now()), &tasks{})
		got, found, err := l.end(t.Context(), task.LogRead{ARN: "arn", Container: "app", Fallback: tc.fallback})
		if err != nil || found != tc.found || got.Message != tc.want {
			t.Errorf("%s: %+v, %v, %v", name, got, found, err)
		}
	}
}

// A log that cannot be read now is read later, ever less often; one that never can be is
// said to be so, as the kubelet does.
func TestLogsOfContainersThatEndedAreReadAgain(t *testing.T) {
	throttled, denied := awsError("ThrottlingException", "no"), awsError("AccessDeniedException", "no")
	for name, tc := range map[string]struct {
		errors []error
		pages  [][]string
		at     []int // seconds after the end
		want   string
	}{
		"the report is there": {nil, [][]string{{report}}, []int{0}, "why"},
		"it never comes":      {nil, [][]string{{"a"}}, []int{0, 2, 4, 6, 8, 10, 14, 18, 20}, "a\n"},
		"throttled":           {[]error{throttled, throttled, throttled}, [][]string{{report}}, []int{0, 1, 3, 7}, "why"},
		"throttled for long": {
			slices.Repeat([]error{throttled}, 7),
			[][]string{{report}},
			[]int{0, 1, 3, 7, 15, 31, 61, 91},
			"why",
		},
		"away, then not there": {[]error{errors.New("reset"), nil}, [][]string{{report}}, []int{0, 1}, "why"},
		"it is not allowed to be read": {
			[]error{denied}, nil, []int{0}, "Error on reading termination message from logs: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				api := &timed{paged: paged{pages: tc.pages, errors: tc.errors}, begun: begun}
				m := known("STOPPED", begun)
				l := New(api, "", "g", m, &tasks{})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- l.Run(ctx) }()
				if err := sleep(t.Context(), 5*time.Minute); err != nil {
					t.Fatal(err)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if !slices.Equal(api.at, tc.at) {
					t.Errorf("read after %v s, want %v", api.at, tc.at)
				}
				c := m.Facts("uid")[0].Containers[0]
				if c.State() != backend.Exited || !strings.HasPrefix(c.Message, tc.want) || tc.want == "" {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}
