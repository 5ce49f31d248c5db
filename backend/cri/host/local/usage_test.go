package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestNodeIsMeasured(t *testing.T) {
	boot := time.Unix(1767000000, 0)
	for name, tt := range map[string]struct {
		files map[string]string
		want  host.CgroupUsage
	}{
		"version 1: the root cgroup": {
			v1(map[string]string{
				"cpu,cpuacct/cpuacct.usage": "12345\n", "memory/memory.usage_in_bytes": "5000\n",
				"memory/memory.stat":           "inactive_file 9\ntotal_inactive_file 1000\ntotal_rss 2000\ntotal_pgfault 1\n",
				"memory/memory.limit_in_bytes": "9223372036854771712\n",
			}),
			host.CgroupUsage{
				StartTime: boot, CPUNanoseconds: new(uint64(12345)), Memory: new(uint64(5000)), WorkingSet: new(uint64(4000)),
				RSS: new(uint64(2000)), MemoryLimit: new(uint64(1000 << 10)), PageFaults: new(uint64(77)),
				MajorPageFaults: new(uint64(7)),
				CgroupDetail:    host.CgroupDetail{InactiveFile: new(uint64(1000)), Swap: new(uint64(20 << 10))},
			},
		},
		"version 2: the root has no memory of its own": {
			v2(map[string]string{"cpu.stat": "usage_usec 12\nuser_usec 5\n"}),
			host.CgroupUsage{
				StartTime: boot, CPUNanoseconds: new(uint64(12000)), Memory: new(uint64(700 << 10)),
				WorkingSet: new(uint64(600 << 10)),
				RSS:        new(uint64(50 << 10)), MemoryLimit: new(uint64(1000 << 10)), PageFaults: new(uint64(77)),
				MajorPageFaults: new(uint64(7)),
				CgroupDetail:    host.CgroupDetail{CPUUser: new(uint64(5000)), Swap: new(uint64(20 << 10))},
			},
		},
		"version 2 of an old kernel: /proc/stat": {
			v2(nil),
			host.CgroupUsage{
				StartTime: boot, CPUNanoseconds: new(uint64(1370e6)), Memory: new(uint64(700 << 10)),
				WorkingSet: new(uint64(600 << 10)),
				RSS:        new(uint64(50 << 10)), MemoryLimit: new(uint64(1000 << 10)), PageFaults: new(uint64(77)),
				MajorPageFaults: new(uint64(7)),
				CgroupDetail:    host.CgroupDetail{Swap: new(uint64(20 << 10))},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(Options{ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, tt.files)})
			u, err := h.Usage(t.Context(), host.UsageRequest{Root: t.TempDir(), Images: "/"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, u.Node); diff != "" {
				t.Error(diff)
			}
			if u.Processes != 345 || u.MaxProcesses != 1000 {
				t.Errorf("%d of %d processes, want 345 of 1000", u.Processes, u.MaxProcesses)
			}
			network := []host.Interface{
				{Name: "wan0", RxBytes: 50, RxPackets: 5, RxErrors: 3, TxBytes: 60, TxPackets: 6, TxErrors: 4},
				{Name: "eno9", RxBytes: 30, RxPackets: 3, RxErrors: 1, TxBytes: 40, TxPackets: 4, TxErrors: 2},
			}
			if diff := cmp.Diff(network, u.Network); diff != "" {
				t.Errorf("the default interface first, without loopback and pods': %s", diff)
			}
			if u.Root.Capacity == 0 || u.Images.Capacity == 0 {
				t.Errorf("file systems %+v, %+v", u.Root, u.Images)
			}
		})
	}
}

func TestPodIsMeasured(t *testing.T) {
	pod := host.CgroupUsage{
		CPUNanoseconds: new(uint64(7000)), Memory: new(uint64(5000)), WorkingSet: new(uint64(4000)), RSS: new(uint64(2000)),
		MemoryLimit: new(uint64(8192)), PageFaults: new(uint64(6)), MajorPageFaults: new(uint64(1)), PIDs: new(uint64(3)),
		CgroupDetail: host.CgroupDetail{InactiveFile: new(uint64(1000))},
	}
	free := pod
	free.MemoryLimit = nil
	for name, tt := range map[string]struct {
		files map[string]string
		want  host.CgroupUsage
	}{
		"version 1": {
			v1(map[string]string{
				"cpu,cpuacct/top/podu/cpuacct.usage": "7000\n", "memory/top/podu/memory.usage_in_bytes": "5000\n",
				"memory/top/podu/memory.limit_in_bytes": "8192\n",
				"memory/top/podu/memory.stat":           "rss 0\ntotal_inactive_file 1000\ntotal_rss 2000\ntotal_pgfault 6\ntotal_pgmajfault 1\n",
				"pids/top/podu/pids.current":            "3\n",
			}), pod,
		},
		"version 1 without limit": {
			v1(map[string]string{
				"cpu,cpuacct/top/podu/cpuacct.usage": "7000\n", "memory/top/podu/memory.usage_in_bytes": "5000\n",
				"memory/top/podu/memory.limit_in_bytes": "9223372036854771712\n",
				"memory/top/podu/memory.stat":           "total_inactive_file 1000\ntotal_rss 2000\ntotal_pgfault 6\ntotal_pgmajfault 1\n",
				"pids/top/podu/pids.current":            "3\n",
			}), free,
		},
		"version 2": {
			v2(map[string]string{
				"top/podu/cpu.stat": "usage_usec 7\n", "top/podu/memory.current": "5000\n", "top/podu/memory.max": "8192\n",
				"top/podu/pids.current": "3\n",
				"top/podu/memory.stat":  "anon 2000\ninactive_file 1000\npgfault 6\npgmajfault 1\n",
			}), pod,
		},
		"version 2 without limit": {
			v2(map[string]string{
				"top/podu/cpu.stat": "usage_usec 7\n", "top/podu/memory.current": "5000\n", "top/podu/memory.max": "max\n",
				"top/podu/pids.current": "3\n",
				"top/podu/memory.stat":  "anon 2000\ninactive_file 1000\npgfault 6\npgmajfault 1\n",
			}), free,
		},
		"being removed": {v2(map[string]string{"top/podu/": ""}), host.CgroupUsage{}},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(Options{ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, tt.files)})
			u, err := h.Usage(t.Context(), host.UsageRequest{Pods: []host.PodUsageRequest{
				{UID: "u", Cgroup: host.Cgroup{Parent: "/top/podu"}}, {UID: "gone", Cgroup: host.Cgroup{Parent: "/top/podgone"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Pods) != 1 {
				t.Errorf("%d pods are measured, want the one that is there", len(u.Pods))
			}
			if diff := cmp.Diff(tt.want, u.Pods["u"].CgroupUsage); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllPodsAreMeasured: by the cgroup above theirs, and where none was made yet, not.
func TestAllPodsAreMeasured(t *testing.T) {
	files := v2(map[string]string{
		"top/memory.current": "5000\n", "top/memory.max": "max\n", "top/memory.stat": "inactive_file 1000\n",
		"top_a.slice/memory.current": "600\n", "top_a.slice/memory.stat": "inactive_file 100\n",
	})
	h := New(Options{ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, files)})
	for name, tt := range map[string]struct {
		top  host.Cgroup
		want *uint64
	}{
		"cgroupfs": {host.Cgroup{Parent: "/top"}, new(uint64(4000))},
		"systemd":  {host.Cgroup{Parent: "top_a.slice", Systemd: true}, new(uint64(500))},
		"not made": {host.Cgroup{Parent: "/none"}, nil},
		"unasked":  {host.Cgroup{}, nil},
	} {
		u, err := h.Usage(t.Context(), host.UsageRequest{PodsCgroup: tt.top})
		if err != nil {
			t.Fatal(err)
		}
		var got *uint64
		if u.PodsCgroup != nil {
			got = u.PodsCgroup.WorkingSet
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestImagesApart: by the device of what is there, or will be.
func TestImagesApart(t *testing.T) {
	h := New(Options{ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, v2(nil))})
	dir := t.TempDir()
	for images, want := range map[string]bool{dir: false, filepath.Join(dir, "not/made/yet"): false, "/proc": true} {
		u, err := h.Usage(t.Context(), host.UsageRequest{Root: filepath.Join(dir, "pods"), Images: images})
		if err != nil {
			t.Fatal(err)
		}
		if u.ImagesApart != want {
			t.Errorf("images on %s: another file system: %v", images, u.ImagesApart)
		}
	}
}

// TestPodsNetwork: its own namespace, never another's by mistake.
func TestPodsNetwork(t *testing.T) {
	const table = "x\ny\n lo: 1 1 1 0 0 0 0 0 1 1 1 0 0 0 0 0\n tunl0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n eth0: 5 1 2 0 0 0 0 0 6 1 3 0 0 0 0 0\n"
	h := New(Options{ProcRoot: fakeTree(t, map[string]string{
		"6/net/dev": table, "6/cgroup": "0::/top/burstable/podu\n",
		"7/net/dev": table, "7/cgroup": "4:memory:/top/burstable/podu/abc\n0::/top/burstable/podu/abc\n",
		"8/net/dev": table, "8/cgroup": "0::/top/burstable/podu2/abc\n", "9/cgroup": "0::/top/burstable/podu\n",
	})})
	own := []host.Interface{
		{Name: "eth0", RxBytes: 5, RxPackets: 1, RxErrors: 2, TxBytes: 6, TxPackets: 1, TxErrors: 3}, {Name: "tunl0"},
	}
	for pid, want := range map[int][]host.Interface{
		6: own, 7: own,
		8:  nil, // another pod's
		9:  nil, // going
		99: nil, // gone
		0:  nil,
	} {
		got, err := h.podInterfaces(pid, []string{"top", "burstable", "podu"})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("process %d: %s", pid, diff)
		}
	}
}

// diskPod is a pod with logs and volumes below a directory of the test's.
func diskPod(t *testing.T) (host.PodUsageRequest, string) {
	t.Helper()
	dir := t.TempDir()
	return host.PodUsageRequest{
		UID: "u", Cgroup: host.Cgroup{Parent: "/top/podu"}, LogDir: filepath.Join(dir, "logs"),
		Dir: host.PodDir{Root: filepath.Join(dir, "pods"), UID: "u"},
	}, dir
}

func writeFile(t *testing.T, path string, size int) {
	t.Helper()
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o644),
	); err != nil {
		t.Fatal(err)
	}
}

// wantUsed allows a block for each directory: some file systems take none.
func wantUsed(t *testing.T, what string, f host.Filesystem, bytes, inodes uint64) {
	t.Helper()
	if f.Used < bytes || f.Used > bytes+inodes*4096 || f.InodesUsed != inodes || f.Capacity == 0 {
		t.Errorf("%s: want %d bytes and %d inodes: %+v", what, bytes, inodes, f)
	}
}

func TestDisksAreMeasuredAsDu(t *testing.T) {
	pod, dir := diskPod(t)
	writeFile(t, filepath.Join(pod.LogDir, "main/0.log"), 8192)
	writeFile(t, filepath.Join(pod.LogDir, ".burstlet-node"), 1)
	writeFile(t, filepath.Join(pod.LogDir, ".etc-hosts"), 4096)
	writeFile(t, filepath.Join(pod.LogDir, ".termination-messages/main_0"), 1<<20)
	scratch := pod.Dir.Volume("scratch")
	writeFile(t, filepath.Join(scratch, "a/b/file"), 16384)
	writeFile(t, filepath.Join(dir, "outside/big"), 1<<20)
	if err := errors.Join(
		os.Link(filepath.Join(scratch, "a/b/file"), filepath.Join(scratch, "again")),
		os.Symlink(filepath.Join(dir, "outside"), filepath.Join(scratch, "link")),
		os.Symlink(filepath.Join(dir, "outside"), pod.Dir.Volume("link")),
	); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(pod.Dir.Volume("nfs"), "big"), 1<<20)
	writeFile(t, filepath.Join(pod.Dir.Volume("own"), "file"), 4096)
	mount := func(path, fstype string) string { return "1 1 0:1 / " + path + " rw - " + fstype + " x rw\n" }
	h := New(Options{
		CgroupRoot: fakeTree(t, v2(map[string]string{"top/podu/": ""})),
		ProcRoot: fakeProc(t, map[string]string{
			"self/mountinfo": mount(pod.Dir.Volume("nfs"), "nfs4") + mount(pod.Dir.Volume("own"), "ext4"),
		}, map[string][2]string{}),
	})
	var got host.PodUsage
	synctest.Test(t, func(t *testing.T) { // a slow machine has time for it, too
		u, err := h.Usage(t.Context(), host.UsageRequest{Pods: []host.PodUsageRequest{pod}})
		if err != nil {
			t.Fatal(err)
		}
		got = u.Pods["u"]
	})
	if len(got.Logs) != 1 || len(got.Volumes) != 2 {
		t.Fatalf("logs %v, volumes %v: want main, and scratch and own", got.Logs, got.Volumes)
	}
	wantUsed(t, "logs", got.Logs["main"], 8192, 2)
	if f := got.Files; f.Used < 1<<20+4096 || f.Used > 1<<20+3*4096 || f.InodesUsed != 3 {
		t.Errorf("what containers may write to beside the logs: %+v", f)
	}
	wantUsed(t, "a file with two names once, a link, no mount", got.Volumes["scratch"], 16384, 5)
	if f := got.Volumes["own"]; f.Used <= 1<<20 {
		t.Errorf("a file system of its own is asked: %+v", f)
	}
	if diff := cmp.Diff([]string{"scratch"}, got.OnDisk); diff != "" {
		t.Error(diff)
	}
}

func TestDisksAreMeasuredOnceAMinute(t *testing.T) {
	pod, _ := diskPod(t)
	proc := fakeProc(t, nil, map[string][2]string{})
	cgroups := fakeTree(t, v2(map[string]string{"top/podu/": ""}))
	writeFile(t, filepath.Join(pod.LogDir, "main/0.log"), 4096)
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{ProcRoot: proc, CgroupRoot: cgroups})
		size := func() host.PodUsage {
			u, err := h.Usage(t.Context(), host.UsageRequest{Pods: []host.PodUsageRequest{pod}})
			if err != nil {
				t.Fatal(err)
			}
			return u.Pods["u"]
		}
		first := size()
		if !first.MeasuredAt.Equal(time.Now()) {
			t.Errorf("measured at %v, want now", first.MeasuredAt)
		}
		writeFile(t, filepath.Join(pod.LogDir, "main/1.log"), 40960)
		time.Sleep(59 * time.Second)
		if diff := cmp.Diff(first, size()); diff != "" {
			t.Errorf("within a minute it is not walked again: %s", diff)
		}
		time.Sleep(time.Second)
		if now := size(); now.Logs["main"].Used < 45056 || !now.MeasuredAt.Equal(time.Now()) {
			t.Errorf("after a minute: %+v", now)
		}
		time.Sleep(forgetAfter + time.Second)
		if _, err := h.Usage(t.Context(), host.UsageRequest{}); err != nil {
			t.Fatal(err)
		}
		if len(h.usage.pods) != 0 {
			t.Error("a pod that nobody asks for is remembered")
		}
	})
}

// TestLargeVolumeIsMeasuredInTurns: a walk that does not end in its time goes on
// in the next call, and what was known stays until then.
func TestLargeVolumeIsMeasuredInTurns(t *testing.T) {
	pod, _ := diskPod(t)
	const dirs = 40
	for i := range dirs {
		writeFile(t, filepath.Join(pod.Dir.Volume("v"), "d", string(rune('a'+i)), "f"), 10)
	}
	w, err := newPodWalk(pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if done, err := w.step(t.Context(), time.Now().Add(-time.Second)); err != nil || done {
			t.Fatalf("without time: done %v, error %v", done, err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.step(canceled, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a call that nobody waits for", err)
	}
	done, err := w.step(t.Context(), time.Now().Add(time.Hour))
	if err != nil || !done {
		t.Fatalf("with time: done %v, error %v", done, err)
	}
	if got := w.result().Volumes["v"].InodesUsed; got != 2+2*dirs {
		t.Errorf("%d inodes, want %d", got, 2+2*dirs)
	}
}

// TestVolumesBehindALink: what is mounted is known by other names.
func TestVolumesBehindALink(t *testing.T) {
	pod, dir := diskPod(t)
	writeFile(t, filepath.Join(pod.Dir.Volume("nfs"), "x"), 10)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "pods"), link); err != nil {
		t.Fatal(err)
	}
	mounted := pod.Dir.Volume("nfs")
	pod.Dir.Root = link
	w, err := newPodWalk(pod, map[string]string{mounted: "nfs"})
	if err != nil || len(w.trees) != 0 {
		t.Errorf("%d directories of a remote volume are walked, error %v", len(w.trees), err)
	}
}

// TestUnreadableIsLeftOut, and the rest is measured.
func TestUnreadableIsLeftOut(t *testing.T) {
	pod, _ := diskPod(t)
	writeFile(t, filepath.Join(pod.LogDir, "a/0.log"), 10)
	writeFile(t, filepath.Join(pod.LogDir, "b/0.log"), 10)
	w, err := newPodWalk(pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	// In the place of the directory stands a file now.
	if err := errors.Join(
		os.RemoveAll(filepath.Join(pod.LogDir, "a")), os.WriteFile(filepath.Join(pod.LogDir, "a"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	if done, err := w.step(t.Context(), time.Now().Add(time.Hour)); err != nil || !done {
		t.Fatalf("done %v, error %v", done, err)
	}
	if logs := w.result().Logs; len(logs) != 1 || logs["b"].InodesUsed != 2 {
		t.Errorf("%+v", logs)
	}
}

// TestWalkLeavesNoVolume: a pod that puts a link in a directory's place while it
// is walked does not have what is outside measured.
func TestWalkLeavesNoVolume(t *testing.T) {
	pod, dir := diskPod(t)
	volume := pod.Dir.Volume("v")
	writeFile(t, filepath.Join(volume, "a/b/c"), 10)
	writeFile(t, filepath.Join(dir, "outside/b/big"), 1<<20)
	w := &tree{root: volume}
	w.step()
	w.step() // it stands in a
	if err := errors.Join(
		os.RemoveAll(filepath.Join(volume, "a")), os.Symlink(filepath.Join(dir, "outside"), filepath.Join(volume, "a")),
	); err != nil {
		t.Fatal(err)
	}
	for !w.done {
		w.step()
	}
	if w.err != nil || w.used >= 1<<20 || w.inodes != 2 {
		t.Errorf("%d bytes, %d inodes: what is outside is measured", w.used, w.inodes)
	}
}
