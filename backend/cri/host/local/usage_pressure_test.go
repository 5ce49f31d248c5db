package local

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
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

// TestRealPressure reads what this kernel counts for two processes that want one processor.
func TestRealPressure(t *testing.T) {
	need.Root(t)
	hs := unifiedTree(t)
	levels := []string{fmt.Sprintf("burstlet-test-pressure-%d", os.Getpid())}
	dir := hs[0].at(levels)
	if err := os.Mkdir(dir, 0o755); err != nil {
		need.Missing(t, "a cgroup of version 2 is needed: %v", err)
	}
	t.Cleanup(func() {
		// A process that was killed leaves its cgroup when its parent has waited for it.
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove the test's cgroup: %v", err)
		}
	})
	if p, err := hs.pressure(levels); err == nil && p.CPU == nil {
		need.Missing(t, "a kernel that counts pressure is needed (CONFIG_PSI, and psi=1 where that is not the default)")
	}
	for range 2 {
		spin(t, hs, levels)
	}
	wait.For(t, time.Minute, "the processes wait for their processor", func() error {
		p, err := hs.pressure(levels)
		switch {
		case err != nil:
			return err
		case p.CPU == nil || p.Memory == nil || p.IO == nil:
			return fmt.Errorf("processors %v, memory %v, disks %v: want all", p.CPU, p.Memory, p.IO)
		case p.CPU.Some.Total == 0:
			return errors.New("nothing waited for a processor")
		}
		return nil
	})
}

// unifiedTree is this machine's tree of version 2, also where version 1 stands beside it.
func unifiedTree(t *testing.T) hierarchies {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if hs, err := New(Options{CgroupRoot: dir}).hierarchies(); err == nil && hs.pure() {
			return hs
		}
	}
	need.Missing(t, "cgroups of version 2 are needed")
	return nil
}

// spin starts a process in the cgroup that never leaves the first processor it may have.
func spin(t *testing.T, hs hierarchies, levels []string) {
	t.Helper()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !all.IsSet(first) {
		first++
	}
	one.Set(first)
	process := occupy(t, hs, levels, "sh", "-c", "while :; do :; done")
	if err := unix.SchedSetaffinity(process.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
}
