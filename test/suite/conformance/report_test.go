package conformance

import (
	"os"
	"path/filepath"
	"regexp"
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
		"features": {
			Run{Features: true, Procs: 3},
			append([]string{"--procs=3", "--label-filter=", "--skip=" + skipOfFeatures}, "--focus="+features[0].tests,
				"--focus="+features[len(features)-1].tests),
			"NodeConformance",
		},
		"a feature": {
			Run{Features: true, Focus: "ImageVolume", Skip: "subpath"},
			[]string{"--focus=ImageVolume", "--skip=" + skipOfFeatures + "|subpath"},
			"Restart",
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

// Each test of the features' baseline is one of a feature, which has at least one.
func TestFeaturesBaseline(t *testing.T) {
	names := Run{Features: true}.Baseline(BackendCRI)
	if len(slices.Compact(slices.Clone(names))) != len(names) || len(names) == 0 {
		t.Errorf("the baseline has %d names, some of them twice", len(names))
	}
	skip := regexp.MustCompile(skipOfFeatures)
	for _, name := range names {
		if !strings.HasPrefix(name, specPrefix) || skip.MatchString(name) {
			t.Errorf("%q is no name of a test that runs", name)
		}
		matches := func(tests string) bool { return regexp.MustCompile(tests).MatchString(name) }
		if !slices.ContainsFunc(featureTests(), matches) {
			t.Errorf("%q is of no feature", name)
		}
	}
}

// TestExpected: what asks for the node's API on the host is of a kubelet alone.
func TestExpected(t *testing.T) {
	baseline := Run{Features: true}.Baseline(BackendCRI)
	expected := Expected(baseline)
	if left := len(baseline) - len(expected); left != 3 {
		t.Errorf("%d tests of the baseline are not burstlet's, want 3", left)
	}
	if slices.ContainsFunc(expected, func(name string) bool { return strings.Contains(name, "healthz") }) {
		t.Error(expected)
	}
}

func TestBeside(t *testing.T) {
	r := Report{Passed: []string{"both", "only here"}, Failed: []string{"neither", "only a kubelet"}}
	want := "passes  passes  both\n" + "–       FAILS   neither\n" + "passes  –       not run\n" +
		"passes  FAILS   only a kubelet\n" + "–       passes  only here\n"
	if got := r.Beside([]string{"both", "not run", "only a kubelet"}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
