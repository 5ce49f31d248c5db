package sim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

func resources(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

// TestWhatIsUsedByDefault: half of what is requested, else of the limit, else a little; limits
// hold what a program asks for.
func TestWhatIsUsedByDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		requests, limits corev1.ResourceList
		asked            *load
		milli, memory    uint64
	}{
		"nothing said":            {nil, nil, nil, defaultMilliCPU, defaultMemory},
		"requests":                {resources("1", "100"), resources("4", "400"), nil, 500, 50},
		"limits":                  {nil, resources("4", "400"), nil, 2000, 200},
		"each for itself":         {resources("1", ""), resources("", "400"), nil, 500, 200},
		"a request of nothing":    {resources("0", "0"), resources("4", "400"), nil, 2000, 200},
		"at least one":            {resources("1m", "1"), nil, nil, 1, 1},
		"a limit below its share": {resources("", ""), resources("1m", "1"), nil, 1, 1},
		"it asks for less":        {nil, resources("1", "100"), &load{milliCPU: 10, memory: 10}, 10, 10},
		"it asks for more":        {nil, resources("1", "100"), &load{milliCPU: 5000, memory: 500}, 1000, 100},
		"a limit of 0 is none":    {nil, resources("0", "0"), &load{milliCPU: 5000, memory: 500}, 5000, 500},
		"what it got, it got":     {nil, resources("1", "100"), &load{milliCPU: 5000, memory: 500, settled: true}, 5000, 500},
	} {
		c := &container{spec: backend.ContainerSpec{Container: corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: tt.requests, Limits: tt.limits},
		}}}
		if tt.asked != nil {
			c.program.loads = []load{*tt.asked}
		}
		if got, _ := c.used(0); got.milliCPU != tt.milli || got.memory != tt.memory {
			t.Errorf("%s: %d and %d, want %d and %d", name, got.milliCPU, got.memory, tt.milli, tt.memory)
		}
	}
}

// TestLoadsOverTime: each counts from its time to the next one's, whichever was said first.
func TestLoadsOverTime(t *testing.T) {
	of := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	set := func(milli uint64) func(*load) { return func(l *load) { l.milliCPU = milli } }
	loads := []load{{milliCPU: 1000, memory: 7}}
	loads = withLoad(loads, of(10), set(3000))
	earlier := withLoad(loads, of(5), set(2000))
	again := withLoad(earlier, of(10), set(0))
	for name, tt := range map[string]struct {
		loads []load
		after int
		milli uint64
		cores float64 // seconds of a core until then
	}{
		"the first":                  {loads, 4, 1000, 4},
		"as it changes":              {loads, 10, 3000, 10},
		"after the change":           {loads, 20, 3000, 40},
		"a change put in before":     {earlier, 7, 2000, 9},
		"what was to come still is":  {earlier, 20, 3000, 45},
		"the last of one time holds": {again, 20, 0, 15},
		"before it starts":           {loads, -3, 1000, 0},
	} {
		c := &container{program: program{loads: tt.loads}}
		now, cpu := c.used(of(tt.after))
		if now.milliCPU != tt.milli || now.memory != 7 || float64(cpu)/1e9 != tt.cores {
			t.Errorf("%s: %+v, %v s; want %dm, %v s", name, now, float64(cpu)/1e9, tt.milli, tt.cores)
		}
	}
	if fmt.Sprint(loads[1].milliCPU, len(loads)) != "3000 2" {
		t.Errorf("a change changed what it began with: %+v", loads)
	}
	const year = 365 * 24 * time.Hour
	if got := coreNanos(1500, 100*year); got != uint64(150*year) {
		t.Errorf("a century and a half of a core: %d", got)
	}
	if got := coreNanos(1, 1500); got != 1 {
		t.Errorf("a thousandth of 1500 ns: %d", got)
	}
}
