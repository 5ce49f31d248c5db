package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// row is what became of a suite.
type row struct {
	Suite   string
	Started time.Time
	Seconds float64
	// Cores is how many cores were busy, on average, with this suite and those beside it; 0:
	// not known.
	Cores float64
	// Beside is the suite that ran longer at the same time; empty: none did.
	Beside string `json:",omitempty"`
	// Verdict is "ok", "FAIL", "CUT" (it took longer than its bound) or "not run".
	Verdict string
	results
}

// The verdicts.
const (
	ok     = "ok"
	failed = "FAIL"
	cut    = "CUT"
	notRun = "not run"
)

// maxFlaky is how many tests of a run may pass at the second try only.
const maxFlaky = 2

// readRows reads what earlier calls of this run left; none without a file.
func readRows(path string) ([]row, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var rows []row
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var r row
		switch err := dec.Decode(&r); {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, fmt.Errorf("read report %s: %w", path, err)
		}
		rows = append(rows, r)
	}
}

// addRow adds a suite to the file of the run, if there is one.
func addRow(path string, r row) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// flakyOf counts the flaky tests of a run.
func flakyOf(rows []row) int {
	n := 0
	for _, r := range rows {
		n += len(r.Flaky)
	}
	return n
}

// show prints what failed, what was flaky, and the table of suites. It returns
// whether the run is good.
func show(w io.Writer, rows []row) bool {
	var b strings.Builder
	good := true
	for _, r := range rows {
		good = good && r.Verdict == ok
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "\nFAIL %s %s\n%s", strings.TrimPrefix(f.Package, module+"/"), f.Test, digest(f.Output))
		}
		for _, race := range r.Races {
			fmt.Fprintf(&b, "\nFAIL %s: a data race\n%s", r.Suite, race)
		}
		for _, f := range r.Flaky {
			fmt.Fprintf(&b, "\nFLAKY %s %s failed, and passed when it was run once more. The failure:\n%s",
				strings.TrimPrefix(f.Package, module+"/"), f.Test, f.Output)
		}
	}
	if n := flakyOf(rows); n > maxFlaky {
		good = false
		fmt.Fprintf(&b, "\nFAIL: %d tests passed at the second try only; at most %d may\n", n, maxFlaky)
	}
	var total row
	var busy float64 // in core seconds
	fmt.Fprintf(
		&b, "\n%-30s %-8s %8s %6s %7s %7s %7s %6s\n", "suite", "", "seconds", "cores", "passed", "failed", "skipped", "flaky",
	)
	line := func(r row, flaky int) {
		fmt.Fprintf(
			&b, "%-30s %-8s %8.0f %6.1f %7d %7d %7d %6d\n", r.Suite, r.Verdict, r.Seconds, r.Cores, r.Passed, r.Failed,
			r.Skipped, flaky,
		)
	}
	for _, r := range rows {
		line(r, len(r.Flaky))
		if r.Beside == "" {
			busy += r.Cores * r.Seconds
			total.Seconds += r.Seconds
		}
		total.Passed += r.Passed
		total.Failed += r.Failed
		total.Skipped += r.Skipped
	}
	if total.Seconds > 0 {
		total.Cores = busy / total.Seconds
	}
	total.Suite, total.Verdict = "all", ok
	if !good {
		total.Verdict = failed
	}
	line(total, flakyOf(rows))
	for _, r := range rows {
		if r.Beside != "" {
			fmt.Fprintf(&b, "%s ran beside %s: the seconds of both are those of the latter\n", r.Suite, r.Beside)
		}
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed, %d skipped\n", total.Passed, total.Failed, total.Skipped)
	_, _ = io.WriteString(w, b.String()) // nobody is left to tell
	return good
}

// digest is what a test says itself, without what programs under test logged, and
// not too much of it.
func digest(output string) string {
	const most = 60
	var kept []string
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "time=") || strings.HasPrefix(line, `{"`) {
			continue
		}
		kept = append(kept, line)
	}
	if len(kept) > most {
		kept = append(append(kept[:most/2:most/2], "[...]\n"), kept[len(kept)-most/2:]...)
	}
	return strings.Join(kept, "")
}
