// Package lane tells a test in which lane it runs. There are three, each holding all
// of the one before:
//
//   - test: what "make test" runs. Quick: what most changes break.
//   - gate: what must hold before a change lands ("make gate"). Plain "go test" is this.
//   - all: every count whole ("make test-all"), for nights.
//
// A test that is too slow for a lane says from which lane on it runs ([From]); one
// that only repeats less there picks its count ([Pick]).
package lane

import (
	"fmt"
	"os"
	"testing"
)

// Env names the environment variable that holds the lane: "test", "gate" or "all".
// Unset means gate.
const Env = "BURSTLET_LANE"

// Lane is one of the lanes, ordered by how much they run.
type Lane int

// The lanes.
const (
	Test Lane = iota + 1
	Gate
	All
)

// String is the lane's name, as in Env.
func (l Lane) String() string {
	switch l {
	case Test:
		return "test"
	case Gate:
		return "gate"
	case All:
		return "all"
	}
	return fmt.Sprintf("lane %d", int(l))
}

// Current returns the lane that Env names. It panics on a name that is none: a
// misspelt lane must not run fewer tests.
func Current() Lane {
	switch name := os.Getenv(Env); name {
	case "test":
		return Test
	case "", "gate":
		return Gate
	case "all":
		return All
	default:
		panic(fmt.Sprintf("%s=%q: want test, gate or all", Env, name))
	}
}

// From skips the test in the lanes before first.
func From(t testing.TB, first Lane) {
	t.Helper()
	if now := Current(); now < first {
		t.Skipf("lane %s: this test runs from lane %s on", now, first)
	}
}

// Thinned is true where a test does less because of the race detector, which takes several
// times as long: in the lanes that everybody waits for. Lane all leaves nothing out.
func Thinned() bool { return Raced && Current() < All }

// RacedFrom is [From] for a test that looks for data races: without the race detector
// it runs in every lane. It is for one whose calls another test, which has it in all of
// them, makes too, and for one that computes by itself.
func RacedFrom(t testing.TB, first Lane) {
	t.Helper()
	if now := Current(); Raced && now < first {
		t.Skipf("lane %s: with the race detector this test runs from lane %s on", now, first)
	}
}

// Pick returns the value for the current lane.
func Pick[T any](test, gate, all T) T {
	switch Current() {
	case Test:
		return test
	case Gate:
		return gate
	default:
		return all
	}
}
