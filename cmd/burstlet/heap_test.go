package main

import (
	"slices"
	"testing"
)

func TestBurstsAreOverOnce(t *testing.T) {
	var b bursts
	var over []int
	for i, h := range []heap{
		{10, 4}, {1000, 100}, {1500, 400}, {1550, 400}, {1560, 400}, {1570, 400}, {3000, 400}, {3010, 400},
	} {
		if b.over(h) {
			over = append(over, i)
		}
	}
	if want := []int{3, 7}; !slices.Equal(over, want) {
		t.Errorf("over at %v, want %v", over, want)
	}
}

func TestTheHeapCanBeRead(t *testing.T) {
	before := readHeap()
	kept := make([]byte, 1<<20)
	kept[0] = 1
	if after := readHeap(); after.allocated < before.allocated+uint64(len(kept)) {
		t.Errorf("%d bytes allocated, %d after another MiB", before.allocated, after.allocated)
	}
	if stop := trimHeap(t.Context()); stop != nil {
		stop()
	}
}
