package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func quantity(text string) *Value { return &Value{Quantity: new(resource.MustParse(text))} }

func share(s float32) *Value { return &Value{Share: s} }

// TestParse: helpers_test.go TestParseThresholdConfig, and what it leaves out.
func TestParse(t *testing.T) {
	type m = map[string]string
	for name, tt := range map[string]struct {
		settings Settings
		want     []Threshold
	}{
		"none": {},
		"a kubelet's defaults": {
			Settings{Hard: DefaultHard()},
			[]Threshold{
				{Signal: MemoryAvailable, Value: *quantity("100Mi")},
				{Signal: AllocatableMemoryAvailable, Value: *quantity("100Mi")},
				{Signal: NodeFSAvailable, Value: *share(.1)},
				{Signal: NodeFSInodesFree, Value: *share(.05)},
				{Signal: ImageFSAvailable, Value: *share(.15)},
				{Signal: ImageFSInodesFree, Value: *share(.05)},
			},
		},
		"hard, soft, and what is wanted back": {
			Settings{
				Hard: m{"memory.available": "150Mi"}, Soft: m{"memory.available": "30%"},
				SoftGracePeriod: m{"memory.available": "30s"},
				MinimumReclaim:  m{"memory.available": "1Gi", "nodefs.available": "5%"},
			},
			[]Threshold{
				{Signal: MemoryAvailable, Value: *quantity("150Mi"), Reclaim: quantity("1Gi")},
				{Signal: MemoryAvailable, Value: *share(.3), Grace: 30 * time.Second, Reclaim: quantity("1Gi")},
				{Signal: AllocatableMemoryAvailable, Value: *quantity("150Mi")},
			},
		},
		"0% and 100% are none": {
			Settings{Hard: m{"memory.available": "0%", "nodefs.available": "100%"}, Soft: m{"pid.available": "0%"}}, nil,
		},
		"what pods may have together, of its own": {
			Settings{Hard: m{"memory.available": "1Gi", "allocatableMemory.available": "2Gi"}},
			[]Threshold{
				{Signal: MemoryAvailable, Value: *quantity("1Gi")}, {Signal: AllocatableMemoryAvailable, Value: *quantity("2Gi")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := Parse(nil, tt.settings)
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseRefuses: each by its path, with what to do.
func TestParseRefuses(t *testing.T) {
	type m = map[string]string
	for want, settings := range map[string]Settings{
		`eviction.evictionHard[disk]: Unsupported value: "disk": supported values: "memory.available", "allocatableMemory.available"`: {Hard: m{"disk": "1"}},
		`eviction.evictionHard[containerfs.available]: Forbidden: a kubelet takes the thresholds of nodefs`: {
			Hard: m{"containerfs.available": "1"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "much": must be a quantity, as in 100Mi`: {
			Hard: m{"memory.available": "much"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "x%": must be a quantity`: {
			Hard: m{"memory.available": "x%"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "NaN%": must be a quantity`: {
			Hard: m{"memory.available": "NaN%"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "101%": must be between 0% and 100%`: {
			Hard: m{"memory.available": "101%"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "-1%": must be between`: {
			Hard: m{"memory.available": "-1%"},
		},
		`eviction.evictionHard[memory.available]: Invalid value: "0": must be positive`: {
			Hard: m{"memory.available": "0"},
		},
		`eviction.evictionSoft[memory.available]: Invalid value: "-1Mi": must be positive`: {
			Soft: m{"memory.available": "-1Mi"},
		},
		`eviction.evictionSoftGracePeriod[memory.available]: Required value: grace period must be specified`: {
			Soft: m{"memory.available": "1"},
		},
		`eviction.evictionSoftGracePeriod[memory.available]: Invalid value: "soon": must be a duration`: {
			SoftGracePeriod: m{"memory.available": "soon"},
		},
		`eviction.evictionSoftGracePeriod[memory.available]: Invalid value: "-1s": must not be negative`: {
			SoftGracePeriod: m{"memory.available": "-1s"},
		},
		`eviction.evictionMinimumReclaim[memory.available]: Invalid value: "0%": must be positive`: {
			MinimumReclaim: m{"memory.available": "0%"},
		},
		`eviction.evictionMinimumReclaim[memory.available]: Invalid value: "-1": must not be negative`: {
			MinimumReclaim: m{"memory.available": "-1"},
		},
		`eviction.evictionMinimumReclaim[cpu]: Unsupported value: "cpu"`: {MinimumReclaim: m{"cpu": "1"}},
	} {
		_, errs := Parse(field.NewPath("eviction"), settings)
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("got %v, want %s", errs, want)
		}
	}
}
