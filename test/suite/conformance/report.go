package conformance

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
)

var (
	//go:embed testdata/baseline.txt
	kubeletBaseline string
	//go:embed testdata/baseline-ecs.txt
	ecsBaseline string
	//go:embed testdata/baseline-features.txt
	featuresBaseline string
)

// Baseline are the names of the tests that pass with the default focus, sorted: on
// containers those that a kubelet passes on this platform, a cluster of the same
// control plane, containerd and images; on tasks those that passed before, for no
// kubelet runs there.
func Baseline(backend string) []string {
	text := kubeletBaseline
	if backend == BackendECS {
		text = ecsBaseline
	}
	return namesOf(text)
}

// namesOf are the lines of a baseline, sorted.
func namesOf(text string) []string {
	names := slices.DeleteFunc(strings.Split(text, "\n"), func(name string) bool { return name == "" })
	slices.Sort(names)
	return names
}

// Report is the outcome of a run; names are sorted.
type Report struct {
	Passed, Failed []string
	// Why holds the message of each failed test.
	Why map[string]string
}

// junit is the part of a JUnit file that is read.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Status  string    `xml:"status,attr"`
			Skipped *struct{} `xml:"skipped"`
			Failure *message  `xml:"failure"`
			Error   *message  `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// specPrefix starts the names of tests; others are the suite's own preparations.
const specPrefix = "[It] "

// readReport reads the JUnit file that the suite writes. What failed beside tests,
// such as the suite's preparations, counts as a failed test of its own.
func readReport(path string) (Report, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("read JUnit file: %w", err)
	}
	var parsed junit
	if err := xml.Unmarshal(content, &parsed); err != nil {
		return Report{}, fmt.Errorf("parse JUnit file %s: %w", path, err)
	}
	r := Report{Why: map[string]string{}}
	for _, suite := range parsed.Suites {
		for _, c := range suite.Cases {
			failure := c.Failure
			if failure == nil {
				failure = c.Error
			}
			switch {
			case failure != nil:
				r.Failed = append(r.Failed, c.Name)
				r.Why[c.Name] = strings.TrimSpace(failure.Message + "\n" + failure.Text)
			case c.Skipped == nil && strings.HasPrefix(c.Name, specPrefix):
				r.Passed = append(r.Passed, c.Name)
			}
		}
	}
	slices.Sort(r.Passed)
	slices.Sort(r.Failed)
	return r, nil
}

// Beside is a line for each test that ran, or that the baseline has: whether it passes there
// and here.
func (r Report) Beside(baseline []string) string {
	all := slices.Concat(baseline, r.Passed, r.Failed)
	slices.Sort(all)
	word := map[bool]string{true: "passes", false: "–"}
	var lines strings.Builder
	for _, name := range slices.Compact(all) {
		here := word[slices.Contains(r.Passed, name)]
		if slices.Contains(r.Failed, name) {
			here = "FAILS"
		}
		fmt.Fprintf(&lines, "%-7s %-7s %s\n", word[slices.Contains(baseline, name)], here, name)
	}
	return lines.String()
}

// Regressions are the tests of a baseline that failed, and with all also those
// that did not run.
func (r Report) Regressions(baseline []string, all bool) []string {
	var names []string
	for _, name := range baseline {
		_, passed := slices.BinarySearch(r.Passed, name)
		_, failed := slices.BinarySearch(r.Failed, name)
		if failed || all && !passed {
			names = append(names, name)
		}
	}
	return names
}
