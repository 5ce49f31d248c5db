package awscall

import (
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
)

func rowsOfErrors(t *testing.T) map[string]string {
	t.Helper()
	rows, err := ecstest.ErrorRows("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// looks is what a pod's row says of an answer of each class.
var looks = map[string]string{
	"Throttled":   "| – | ",
	"Denied":      "tried again after 10 s to 5 min",
	"Unavailable": "`BackendUnreachable`, after 40 s | – |",
	"Unsupported": "Failed, `UnsupportedByBackend`",
	"Capacity":    "`InsufficientCapacity` | Warning InsufficientCapacity",
	"Exists":      "Warning FailedCreatePodSandBox",
	"Transient":   "tried again after 1 to 10 s | Warning FailedCreatePodSandBox",
}

// What users see of each of AWS's errors that is told apart stands in the runbook, and is
// what comes of its class.
func TestEachErrorHasItsRow(t *testing.T) {
	rows := rowsOfErrors(t)
	check := func(words string, class error) {
		row, ok := rows[strings.ToLower(words)]
		want := looks[backend.Class(class)]
		if class == nil {
			want = looks["Transient"]
		}
		switch {
		case !ok:
			t.Errorf("no row of %s", words)
		case class == ErrUnknown: //nolint:errorlint // a table's value
			if !strings.Contains(row, "by the words") {
				t.Errorf("%s: %s", words, row)
			}
		case want == "" || !strings.Contains(row, want):
			t.Errorf("the row of %s lacks %q: %s", words, want, row)
		}
	}
	for code, class := range classByCode {
		check(code, class)
	}
	for _, c := range classByText {
		check(c.text, c.class)
	}
}

// What burstlet advises is in the row of what it is advised for.
func TestEachAdviceHasItsRow(t *testing.T) {
	rows := rowsOfErrors(t)
	for _, a := range adviceByText {
		known := false
		for words := range rows {
			known = known || strings.Contains(words, a.text)
		}
		if !known && a.text != "cluster not found" { // told by its code
			t.Errorf("no row of %q, which is advised about", a.text)
		}
	}
}
