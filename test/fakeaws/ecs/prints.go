package ecs

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// prints are the lines that a container writes: some once, and some again and
// again. They are not stored but found by their number.
type prints struct {
	once, cycle []printed
	// from is when the first cycle starts, period how long one takes; 0: none.
	from, period time.Duration
}

// printed are lines written at once, at an offset from the start of the container
// or of the cycle.
type printed struct {
	at   time.Duration
	text string
	n    int
	// numbers is true for the lines 1 to n instead of n times text.
	numbers bool
}

// withoutEmpty is the same without empty lines, which the awslogs driver leaves out.
func (p prints) withoutEmpty() prints {
	empty := func(l printed) bool { return l.text == "" && !l.numbers }
	p.once = slices.DeleteFunc(slices.Clone(p.once), empty)
	p.cycle = slices.DeleteFunc(slices.Clone(p.cycle), empty)
	return p
}

// again makes each run's lines come again every period.
func (p prints) again(period time.Duration) prints {
	return prints{cycle: p.once, period: period}
}

func total(ps []printed) int {
	n := 0
	for _, p := range ps {
		n += p.n
	}
	return n
}

// until counts the lines of a list written at an offset or before.
func until(ps []printed, at time.Duration) int {
	n := 0
	for _, p := range ps {
		if p.at <= at {
			n += p.n
		}
	}
	return n
}

// count is how many lines were written at an offset or before.
func (p prints) count(at time.Duration) int {
	n := until(p.once, at)
	if p.period > 0 && len(p.cycle) > 0 && at >= p.from {
		rounds := (at - p.from) / p.period
		n += int(rounds)*total(p.cycle) + until(p.cycle, at-p.from-rounds*p.period)
	}
	return n
}

// line is line i, counted from 0, and when it was written.
func (p prints) line(i int) (time.Duration, string) {
	if n := total(p.once); i < n {
		return pick(p.once, i, 0)
	} else if n := i - n; len(p.cycle) > 0 {
		per := total(p.cycle)
		at, text := pick(p.cycle, n%per, n/per)
		return p.from + time.Duration(n/per)*p.period + at, text
	}
	return never, ""
}

func pick(ps []printed, i, round int) (time.Duration, string) {
	for _, p := range ps {
		if i < p.n {
			if p.numbers {
				return p.at, strconv.Itoa(i + 1)
			}
			return p.at, strings.ReplaceAll(p.text, "$i", strconv.Itoa(round))
		}
		i -= p.n
	}
	return never, ""
}
