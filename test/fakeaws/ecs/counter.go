package ecs

import (
	"slices"
	"time"
)

// counter counts calls by action and, for the last hour, by second.
type counter map[string]*counted

type counted struct {
	n       int
	seconds []second
}

type second struct {
	at time.Time
	n  int
}

const countedFor = time.Hour

func (c counter) add(action string, now time.Time) {
	a := c[action]
	if a == nil {
		a = &counted{}
		c[action] = a
	}
	a.n++
	at := now.Truncate(time.Second)
	if k := len(a.seconds); k > 0 && a.seconds[k-1].at.Equal(at) {
		a.seconds[k-1].n++
		return
	}
	if len(a.seconds) > 0 && now.Sub(a.seconds[0].at) > 2*countedFor {
		i, _ := slices.BinarySearchFunc(
			a.seconds, now.Add(-countedFor), func(s second, t time.Time) int { return s.at.Compare(t) },
		)
		a.seconds = slices.Clone(a.seconds[i:])
	}
	a.seconds = append(a.seconds, second{at, 1})
}

func (c counter) total() int {
	n := 0
	for _, a := range c {
		n += a.n
	}
	return n
}

// within counts calls of an action in the last d.
func (c counter) within(action string, d time.Duration, now time.Time) int {
	n := 0
	if a := c[action]; a != nil {
		for i := len(a.seconds) - 1; i >= 0 && now.Sub(a.seconds[i].at) < d; i-- {
			n += a.seconds[i].n
		}
	}
	return n
}
