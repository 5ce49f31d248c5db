package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestPressure(t *testing.T) {
	const zero = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	pod := []string{"top", "podu"}
	for name, tt := range map[string]struct {
		files  map[string]string
		levels []string
		want   host.Pressure
		fails  bool
	}{
		"a pod": {
			v2(map[string]string{
				"top/podu/cpu.pressure": "some avg10=1.50 avg60=0.25 avg300=0.01 total=123456\n" +
					"full avg10=0.50 avg60=0.00 avg300=0.00 total=23\n",
				"top/podu/memory.pressure": zero + "full avg10=100.00 avg60=9.00 avg300=1.00 total=7\n",
				"top/podu/io.pressure":     zero + "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
				"cpu.pressure":             zero,
			}), pod,
			host.Pressure{
				CPU: &host.Stalls{
					Some: host.StallTime{Total: 123456, Avg10: 1.5, Avg60: .25, Avg300: .01},
					Full: host.StallTime{Total: 23, Avg10: .5},
				},
				Memory: &host.Stalls{Full: host.StallTime{Total: 7, Avg10: 100, Avg60: 9, Avg300: 1}},
				IO:     &host.Stalls{},
			},
			false,
		},
		"the host": {
			v2(map[string]string{"memory.pressure": "some avg10=2.00 avg60=0.00 avg300=0.00 total=5\n"}), nil,
			host.Pressure{Memory: &host.Stalls{Some: host.StallTime{Total: 5, Avg10: 2}}},
			false,
		},
		"a kernel without it": {v2(map[string]string{"top/podu/cpu.stat": ""}), pod, host.Pressure{}, false},
		// What is added to a file later does not matter.
		"a newer kernel": {
			v2(map[string]string{"top/podu/cpu.pressure": "some avg10=0.00 avg1000=1 total=5\nmost avg10=1.00\n"}), pod,
			host.Pressure{CPU: &host.Stalls{Some: host.StallTime{Total: 5}}},
			false,
		},
		"version 1": {v1(map[string]string{"memory/top/podu/memory.pressure": zero}), pod, host.Pressure{}, false},
		"damaged":   {v2(map[string]string{"top/podu/cpu.pressure": "some avg10=x\n"}), pod, host.Pressure{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			hs, err := New(Options{CgroupRoot: fakeTree(t, tt.files)}).hierarchies()
			noError(t, err)
			got, err := hs.pressure(tt.levels)
			if (err != nil) != tt.fails {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
