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
	// Raced says that the race detector found something.
	Raced bool `json:",omitempty"`
}

// maxOutput is how much is kept of what one test prints, in bytes.
const maxOutput = 64 << 10

// readResults reads the events of a run and of the runs that repeat what failed.
func readResults(r io.Reader) (results, error) {
	type id struct{ pkg, test string }
	type state struct {
		output strings.Builder
		first  string // what it printed until it failed first
		failed bool   // ever
		last   string // action
	}
	var res results
	tests := map[id]*state{}
	var order []id
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return results{}, fmt.Errorf("read events of tests: %w", err)
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue // the last line of a run that was cut off
		}
		if strings.Contains(e.Output, "WARNING: DATA RACE") {
			res.Raced = true
		}
		key := id{e.Package, e.Test}
		s := tests[key]
		if s == nil {
			s = &state{}
			tests[key] = s
			order = append(order, key)
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
	for _, key := range order {
		s := tests[key]
		if key.test == "" {
			// A package fails with its tests; without any, it did not build, ran out of
			// time or failed in TestMain.
			if s.last == "fail" && !slices.ContainsFunc(order, func(other id) bool {
				o := tests[other]
				return other.pkg == key.pkg && other.test != "" && (o.failed || o.last == "")
			}) {
				res.Failed++
				res.Failures = append(res.Failures, failure{key.pkg, "", s.first})
			}
			continue
		}
		leaf := !slices.ContainsFunc(order, func(other id) bool {
			return other.pkg == key.pkg && strings.HasPrefix(other.test, key.test+"/") && tests[other].failed
		})
		switch s.last {
		case "pass":
			res.Passed++
			if s.failed && leaf {
				res.Flaky = append(res.Flaky, failure{key.pkg, key.test, s.first})
			}
		case "skip":
			res.Skipped++
		default: // it failed, or never ended
			res.Failed++
			if leaf {
				output := s.first
				if !s.failed {
					output = s.output.String() + "(it did not end)\n"
				}
				res.Failures = append(res.Failures, failure{key.pkg, key.test, output})
			}
		}
	}
	return res, nil
}
