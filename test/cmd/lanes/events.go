package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of "go test -json" (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
}

// failure is a test that failed, with what it printed.
type failure struct {
	Package, Test, Output string
}

// results is what the tests of a suite came to.
type results struct {
	Passed, Failed, Skipped int
	// Failures are tests that failed to the end, without those that failed only
	// because a subtest of theirs did.
	Failures []failure `json:",omitempty"`
	// Flaky are tests that failed first and passed when they were run once more, with
	// what they printed the first time.
	Flaky []failure `json:",omitempty"`
	// Races are the race detector's reports. The tests that run then fail without them:
	// a report is printed by no test of its own.
	Races []string `json:",omitempty"`
}

// maxOutput is how much is kept of what one test prints, in bytes.
const maxOutput = 64 << 10

// testID names a test; of a package as a whole the test is "".
type testID struct{ pkg, test string }

// testState is what is known of one test so far.
type testState struct {
	output strings.Builder
	first  string // what it printed until it failed first
	failed bool   // ever
	last   string // how it ended last: pass, fail, skip; "" while it runs
}

// collector takes the events of a run and of the runs that repeat what failed.
type collector struct {
	tests map[testID]*testState
	order []testID
	races []string
	// race is the report that a package is printing.
	race map[string]*strings.Builder
}

// readResults reads events to their end.
func readResults(r io.Reader) (results, error) {
	c := collector{tests: map[testID]*testState{}, race: map[string]*strings.Builder{}}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil { // the last line of a run that was cut off is none
			c.add(e)
		}
		if errors.Is(err, io.EOF) {
			for pkg := range c.race { // cut off
				c.endRace(pkg)
			}
			return c.results(), nil
		}
		if err != nil {
			return results{}, fmt.Errorf("read events of tests: %w", err)
		}
	}
}

func (c *collector) add(e event) {
	c.addRace(e)
	id := testID{e.Package, e.Test}
	s := c.tests[id]
	if s == nil {
		s = &testState{}
		c.tests[id] = s
		c.order = append(c.order, id)
	}
	switch e.Action {
	case "output":
		if s.output.Len() < maxOutput {
			s.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		s.last = e.Action
		if e.Action == "fail" && !s.failed {
			s.failed, s.first = true, s.output.String()
		}
		s.output.Reset()
	}
}

// addRace keeps what stands between the two lines of a report.
func (c *collector) addRace(e event) {
	report := c.race[e.Package]
	if report == nil {
		if !strings.Contains(e.Output, "WARNING: DATA RACE") {
			return
		}
		report = &strings.Builder{}
		c.race[e.Package] = report
	}
	if strings.HasPrefix(e.Output, "======") {
		c.endRace(e.Package)
	} else if report.Len() < maxOutput {
		report.WriteString(e.Output)
	}
}

func (c *collector) endRace(pkg string) {
	c.races = append(c.races, c.race[pkg].String())
	delete(c.race, pkg)
}

// any says whether it holds for some test of the package.
func (c *collector) any(pkg string, holds func(test string, s *testState) bool) bool {
	return slices.ContainsFunc(c.order, func(id testID) bool {
		return id.pkg == pkg && id.test != "" && holds(id.test, c.tests[id])
	})
}

// leaf says whether no subtest of the test failed. It looks through all tests, for those few that fail.
func (c *collector) leaf(id testID) bool {
	return !c.any(id.pkg, func(test string, t *testState) bool { return strings.HasPrefix(test, id.test+"/") && t.failed })
}

func (c *collector) results() results {
	res := results{Races: c.races}
	for _, id := range c.order {
		s := c.tests[id]
		if id.test == "" {
			// A package fails with its tests; without any, it did not build or failed in
			// TestMain.
			if s.last == "fail" && !c.any(id.pkg, func(_ string, t *testState) bool { return t.failed || t.last == "" }) {
				res.Failed++
				res.Failures = append(res.Failures, failure{id.pkg, "", s.first})
			}
			continue
		}
		switch s.last {
		case "pass":
			res.Passed++
			if s.failed && c.leaf(id) {
				res.Flaky = append(res.Flaky, failure{id.pkg, id.test, s.first})
			}
		case "skip":
			res.Skipped++
		default: // it failed, or never ended
			res.Failed++
			if c.leaf(id) {
				res.Failures = append(res.Failures, failure{id.pkg, id.test, s.lastWords()})
			}
		}
	}
	return res
}

// lastWords is what a test printed that failed, or that did not end.
func (s *testState) lastWords() string {
	if s.failed {
		return s.first
	}
	return s.output.String() + "(it did not end)\n"
}
