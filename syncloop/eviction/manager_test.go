package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

const (
	memoryPressure = corev1.NodeMemoryPressure
	diskPressure   = corev1.NodeDiskPressure
	pidPressure    = corev1.NodePIDPressure
)

func left(available, capacity uint64) backend.Level {
	return backend.Level{Available: available, Capacity: capacity}
}

// TestObserve: what is not known has no level, and cannot be met.
func TestObserve(t *testing.T) {
	full, level := resource.MustParse("1000"), left(1, 2)
	for name, tt := range map[string]struct {
		facts       backend.SignalFacts
		allocatable *resource.Quantity
		want        Observations
	}{
		"nothing": {want: Observations{}},
		"all": {
			backend.SignalFacts{
				Memory: &level, PodsMemory: new(uint64(400)), NodeFS: &level, NodeFSInodes: &level, ImageFS: &level,
				ImageFSInodes: &level, PIDs: &level,
			},
			&full,
			Observations{
				MemoryAvailable: level, NodeFSAvailable: level, NodeFSInodesFree: level, ImageFSAvailable: level,
				ImageFSInodesFree: level,
				PIDAvailable:      level, AllocatableMemoryAvailable: left(600, 1000),
			},
		},
		"pods that use more than they may": {
			backend.SignalFacts{PodsMemory: new(uint64(4000))}, &full, Observations{AllocatableMemoryAvailable: left(0, 1000)},
		},
		"a node that is not known yet":        {backend.SignalFacts{PodsMemory: new(uint64(4))}, nil, Observations{}},
		"no pod was ever made, for all known": {backend.SignalFacts{}, &full, Observations{}},
	} {
		if diff := cmp.Diff(tt.want, Observe(&tt.facts, tt.allocatable)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestMet: a threshold is met below it, not at it; what is wanted back counts only then.
func TestMet(t *testing.T) {
	disk := Threshold{Signal: NodeFSAvailable, Value: *share(.1), Reclaim: share(.05)}
	memory := Threshold{Signal: MemoryAvailable, Value: *quantity("100"), Reclaim: quantity("50")}
	for name, tt := range map[string]struct {
		threshold       Threshold
		level           backend.Level
		met, unresolved bool
	}{
		"above a share":    {disk, left(200, 1000), false, false},
		"at a share":       {disk, left(100, 1000), false, true},
		"below a share":    {disk, left(99, 1000), true, true},
		"above a quantity": {memory, left(150, 1000), false, false},
		"at a quantity":    {memory, left(100, 1000), false, true},
		"below a quantity": {memory, left(99, 1000), true, true},
		"nothing left":     {memory, left(0, 1000), true, true},
		"no capacity":      {disk, left(0, 0), false, false},
	} {
		o := Observations{tt.threshold.Signal: tt.level}
		if o.met(&tt.threshold, false) != tt.met || o.met(&tt.threshold, true) != tt.unresolved {
			t.Errorf("%s: met %v, with what is wanted back %v", name, o.met(&tt.threshold, false), o.met(&tt.threshold, true))
		}
		if (Observations{}).met(&tt.threshold, true) {
			t.Errorf("%s: what is not known is not met", name)
		}
	}
}

// TestJudge: eviction_manager.go synchronize, over time.
func TestJudge(t *testing.T) {
	type at struct {
		after      time.Duration
		memory     uint64 // of 1000
		disk       uint64 // of 1000
		conditions []corev1.NodeConditionType
		met        []Signal
	}
	type kinds = []corev1.NodeConditionType
	soft := Threshold{Signal: MemoryAvailable, Value: *quantity("300"), Grace: 30 * time.Second}
	hard := Threshold{Signal: MemoryAvailable, Value: *quantity("100"), Reclaim: quantity("50")}
	disk := Threshold{Signal: NodeFSAvailable, Value: *share(.1)}
	for name, tt := range map[string]struct {
		thresholds []Threshold
		steps      []at
	}{
		"a hard one is acted on at once, its condition stays for the transition period": {
			[]Threshold{hard},
			[]at{
				{0, 100, 500, nil, nil},
				{10 * time.Second, 99, 500, kinds{memoryPressure}, []Signal{MemoryAvailable}},
				{20 * time.Second, 149, 500, kinds{memoryPressure}, []Signal{MemoryAvailable}}, // not enough was had back
				{30 * time.Second, 150, 500, kinds{memoryPressure}, nil},
				{40 * time.Second, 149, 500, kinds{memoryPressure}, nil}, // it was had back once
				{20*time.Second + 5*time.Minute - 1, 500, 500, kinds{memoryPressure}, nil},
				{20*time.Second + 5*time.Minute, 500, 500, nil, nil},
			},
		},
		"a soft one after its grace, with its condition from the beginning": {
			[]Threshold{soft},
			[]at{
				{0, 299, 500, kinds{memoryPressure}, nil},
				{29 * time.Second, 299, 500, kinds{memoryPressure}, nil},
				{30 * time.Second, 299, 500, kinds{memoryPressure}, []Signal{MemoryAvailable}},
				{40 * time.Second, 300, 500, kinds{memoryPressure}, nil},
				{50 * time.Second, 299, 500, kinds{memoryPressure}, nil}, // the grace begins anew
				{79 * time.Second, 299, 500, kinds{memoryPressure}, nil},
				{80 * time.Second, 299, 500, kinds{memoryPressure}, []Signal{MemoryAvailable}},
			},
		},
		"memory before the disk": {
			[]Threshold{hard, disk},
			[]at{{0, 0, 0, kinds{memoryPressure, diskPressure}, []Signal{MemoryAvailable, NodeFSAvailable}}, {
				time.Second, 500, 99, kinds{memoryPressure, diskPressure}, []Signal{NodeFSAvailable},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, begin := NewManager(Policy{Thresholds: tt.thresholds, PressureTransitionPeriod: 5 * time.Minute}), time.Now()
			for _, s := range tt.steps {
				v := m.Judge(
					begin.Add(s.after), Observations{MemoryAvailable: left(s.memory, 1000), NodeFSAvailable: left(s.disk, 1000)},
				)
				var met []Signal
				for i := range v.Met {
					met = append(met, v.Met[i].Signal)
				}
				if diff := cmp.Diff(s.conditions, v.Conditions); diff != "" {
					t.Errorf("after %v: conditions: %s", s.after, diff)
				}
				if diff := cmp.Diff(s.met, met); diff != "" {
					t.Errorf("after %v: %s", s.after, diff)
				}
			}
		})
	}
}

// TestRelieved: only when no threshold is met, whatever its grace.
func TestRelieved(t *testing.T) {
	m := NewManager(Policy{Thresholds: []Threshold{
		{Signal: NodeFSAvailable, Value: *share(.1), Reclaim: share(.1)},
		{Signal: MemoryAvailable, Value: *quantity("100"), Grace: time.Hour},
	}})
	for want, o := range map[bool]Observations{
		true:  {NodeFSAvailable: left(200, 1000), MemoryAvailable: left(100, 1000)},
		false: {NodeFSAvailable: left(199, 1000), MemoryAvailable: left(100, 1000)},
	} {
		if m.Relieved(o) != want {
			t.Errorf("%v: relieved is not %v", o, want)
		}
	}
	if m.Relieved(Observations{NodeFSAvailable: left(200, 1000), MemoryAvailable: left(99, 1000)}) {
		t.Error("a soft threshold is met, and it is relieved")
	}
}
