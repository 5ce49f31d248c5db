package soak

import (
	"math"
	"testing"
	"time"
)

func TestOnTime(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, began.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	for _, tt := range []struct {
		name            string
		renewals, kills []time.Time
		end             int
		ok              bool
	}{
		{"every 10 s", at(0, 10, 20, 30), nil, 40, true},
		{"one is missed", at(0, 10, 30, 40), nil, 50, true},
		{"two are missed", at(0, 10, 40, 50), nil, 60, false},
		{"the last are missed", at(0, 10, 20), nil, 50, false},
		{"the leader is killed", at(0, 10, 45), at(12), 50, true},
		{"the lease runs out after a kill", at(0, 10, 55), at(12), 60, false},
		{"a kill excuses its own gap alone", at(0, 30, 40), at(35), 50, false},
		{"none", nil, nil, 50, false},
	} {
		if err := onTime(gaps(tt.renewals, tt.kills, began.Add(time.Duration(tt.end)*time.Second))); (err == nil) != tt.ok {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
	found := gaps(at(0, 10, 45), at(12), began.Add(50*time.Second))
	if with, without := longest(found, true), longest(found, false); with != 35*time.Second || without != 10*time.Second {
		t.Errorf("the longest are %v and %v", with, without)
	}
}

func TestFlat(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts [][]float64
		ok    bool
	}{
		{"the same", [][]float64{{100, 101, 90}, {100}, {100, 99}}, true},
		{"a peak is no growth", [][]float64{{100, 100, 100}, {300}, {100, 300, 100}}, true},
		{"it grows", [][]float64{{100}, {110}, {121}}, false},
		{"within the slack", [][]float64{{100}, {119}}, true},
		{"not sampled", [][]float64{{100}, {}}, false},
		{"one part", [][]float64{{100}}, false},
	} {
		if err := flat("it", tt.parts, 10); (err == nil) != tt.ok {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
}

func TestQuantiles(t *testing.T) {
	numbers := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(numbers, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of none: %g", got)
	}
	before := []bucket{{0.1, 10}, {1, 10}, {math.Inf(1), 10}}
	after := []bucket{{0.1, 109}, {1, 110}, {math.Inf(1), 110}}
	for q, want := range map[float64]float64{0.5: 0.1, 0.99: 0.1, 0.995: 1} {
		if got, count := within(since(before, after), q); got != want || count != 100 {
			t.Errorf("quantile %g is within %g of %g, want %g", q, got, count, want)
		}
	}
	if _, count := within(nil, 0.5); count != 0 {
		t.Errorf("%g of nothing", count)
	}
}
