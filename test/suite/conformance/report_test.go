package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBaselineIsWhole(t *testing.T) {
	const want = 236
	names := Baseline(BackendCRI)
	if len(names) != want || len(slices.Compact(slices.Clone(names))) != want {
		t.Errorf("the baseline has %d names, want %d different ones", len(names), want)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, specPrefix) || !strings.Contains(name, "[NodeConformance]") {
			t.Errorf("%q is no name of a test for nodes", name)
		}
	}
}

// written puts a JUnit file of test cases somewhere.
func written(t *testing.T, cases string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "junit_01.xml")
	content := `<?xml version="1.0"?><testsuites><testsuite name="e2e">` + cases + `</testsuite></testsuites>`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReport(t *testing.T) {
	all := Baseline(BackendCRI)
	passed, failed := all[0], all[1]
	r, err := readReport(written(t, `<testcase name="[BeforeSuite]"/>`+
		`<testcase name="`+passed+`" status="passed"/>`+
		`<testcase name="`+failed+`" status="failed"><failure message="it did not">at line 7</failure></testcase>`+
		`<testcase name="[It] another" status="timedout"><error message="too late"/></testcase>`+
		`<testcase name="[It] left out" status="skipped"><skipped/></testcase>`))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Passed, []string{passed}) || !slices.Equal(r.Failed, []string{failed, "[It] another"}) {
		t.Errorf("passed %q, failed %q", r.Passed, r.Failed)
	}
	if got := r.Why[failed]; got != "it did not\nat line 7" {
		t.Errorf("failed because of %q", got)
	}
	if got := r.Regressions(all, false); !slices.Equal(got, []string{failed}) {
		t.Errorf("of a part of the tests these did not pass: %q", got)
	}
	if got := r.Regressions(all, true); len(got) != len(all)-1 || slices.Contains(got, passed) {
		t.Errorf("of all tests %d did not pass, want %d", len(got), len(all)-1)
	}
}

func TestReportOfPreparationsThatFailed(t *testing.T) {
	r, err := readReport(written(t, `<testcase name="[SynchronizedBeforeSuite]"><failure message="no node"/></testcase>`))
	if err != nil || !slices.Equal(r.Failed, []string{"[SynchronizedBeforeSuite]"}) {
		t.Errorf("failed %q, %v", r.Failed, err)
	}
}

func TestReportRefuses(t *testing.T) {
	if _, err := readReport(filepath.Join(t.TempDir(), "missing.xml")); err == nil {
		t.Error("a missing file was read")
	}
	if _, err := readReport(written(t, "<testcase")); err == nil {
		t.Error("half a file was read")
	}
}

func TestSelection(t *testing.T) {
	for name, want := range map[string]struct {
		run Run
		has []string
		not string
	}{
		"all": {
			Run{Procs: 6},
			[]string{"--procs=6", "--label-filter=NodeConformance", `--skip=` + skipAlways + "|" + serial},
			"--focus=",
		},
		"some": {
			Run{Focus: "Probing", Skip: "GRPC"},
			[]string{"--procs=1", "--focus=Probing", `--skip=` + skipAlways + "|" + serial + "|GRPC"},
			"",
		},
		"another label": {
			Run{Label: "Conformance", Focus: "Resize"},
			[]string{"--label-filter=Conformance", "--focus=Resize"},
			"NodeConformance",
		},
		"serial": {
			Run{Serial: true, Procs: 6},
			[]string{"--procs=1", "--label-filter=NodeConformance && Serial", "--skip=" + skipAlways},
			"--focus=",
		},
	} {
		want.run.Timeout = time.Minute
		got := want.run.selection()
		for _, flag := range want.has {
			if !slices.Contains(got, flag) {
				t.Errorf("%s: %q is missing in %q", name, flag, got)
			}
		}
		if want.not != "" && strings.Contains(strings.Join(got, " "), want.not) {
			t.Errorf("%s: %q is in %q", name, want.not, got)
		}
	}
}
