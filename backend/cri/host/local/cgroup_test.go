package local

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// fakeTree writes files below a directory of the test's; a name that ends with a
// slash is a directory.
func fakeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// contents are the files named in want, as they are.
func contents(t *testing.T, root string, want map[string]string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		got[name] = string(data)
	}
	return got
}

// v1 are hierarchies as a distribution without systemd mounts them.
func v1(extra map[string]string) map[string]string {
	files := map[string]string{
		"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "pids/cgroup.procs": "", "freezer/cgroup.procs": "",
		"cpuset/cgroup.procs": "", "cpuset/cpuset.cpus": "0-3\n", "cpuset/cpuset.mems": "0\n",
	}
	maps.Copy(files, extra)
	return files
}

// v2 is one with a top and a class that were made before: the kernel makes the
// files of a new cgroup, a fake does not.
func v2(extra map[string]string) map[string]string {
	files := map[string]string{
		"cgroup.controllers":                   "cpuset cpu io memory hugetlb pids rdma\n",
		"cgroup.subtree_control":               "cpuset cpu memory pids\n",
		"top/cgroup.subtree_control":           "cpuset cpu hugetlb memory\n",
		"top/burstable/cgroup.subtree_control": "cpu cpuset hugetlb memory pids\n",
	}
	maps.Copy(files, extra)
	return files
}

func TestCgroupLevels(t *testing.T) {
	for _, tt := range []struct {
		parent  string
		systemd bool
		want    string // empty: refused
	}{
		{"/top/burstable/podu1", false, "top burstable podu1"},
		{"/top/podu1", false, "top podu1"},
		{"/top", false, ""},
		{"/", false, ""},
		{"", false, ""},
		{"top/podu1", false, ""},
		{"/top/../etc/x", false, ""},
		{"/top//podu1", false, ""},
		{"top-burstable-podu_1.slice", true, "top.slice top-burstable.slice top-burstable-podu_1.slice"},
		{"top.slice", true, ""},
		{"top--podu.slice", true, ""},
		{"/top/podu", true, ""},
		{"a/b-c.slice", true, ""},
	} {
		got, err := cgroupLevels(host.Cgroup{Parent: tt.parent, Systemd: tt.systemd})
		if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q (systemd %v): got %v and error %v, want %q", tt.parent, tt.systemd, got, err, tt.want)
		}
	}
}

func TestWeightIsTheKubelets(t *testing.T) {
	for shares, want := range map[int64]int64{0: 1, 2: 1, 102: 4, 1024: 39, 2048: 79, 262144: 10000, 999999: 10000} {
		if got := cpuWeight(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
}

func TestPodIsLimited(t *testing.T) {
	const pod = "top/burstable/podu"
	pods := host.Cgroup{
		Parent: "/" + pod, Shares: 1024, Quota: 50000, Period: 100000, Memory: 64 << 20, PIDs: 100, QOSShares: 512,
		HugePages: map[string]int64{"2MB": 4 << 20},
	}
	free := host.Cgroup{Parent: "/" + pod}
	huge := func(dir, suffix string) map[string]string {
		return map[string]string{
			dir + "hugetlb.2MB" + suffix: "?", dir + "hugetlb.2MB.rsvd" + suffix: "?", dir + "hugetlb.1GB" + suffix: "?",
		}
	}
	withHuge := func(files, more map[string]string) map[string]string {
		maps.Copy(files, more)
		return files
	}
	for name, tt := range map[string]struct {
		files  map[string]string
		cgroup host.Cgroup
		want   map[string]string
	}{
		"version 1": {
			withHuge(v1(map[string]string{"hugetlb/cgroup.procs": ""}), huge("hugetlb/"+pod+"/", ".limit_in_bytes")), pods,
			map[string]string{
				"cpu,cpuacct/" + pod + "/cpu.shares": "1024", "cpu,cpuacct/" + pod + "/cpu.cfs_quota_us": "50000",
				"cpu,cpuacct/" + pod + "/cpu.cfs_period_us": "100000", "cpu,cpuacct/top/burstable/cpu.shares": "512",
				"cpu,cpuacct/top/cpu.shares":               "",
				"memory/" + pod + "/memory.limit_in_bytes": "67108864", "memory/top/burstable/memory.limit_in_bytes": "",
				"pids/" + pod + "/pids.max": "100",
				"cpuset/top/cpuset.cpus":    "0-3", "cpuset/" + pod + "/cpuset.cpus": "0-3", "cpuset/" + pod + "/cpuset.mems": "0",
				"hugetlb/" + pod + "/hugetlb.2MB.limit_in_bytes":      "4194304",
				"hugetlb/" + pod + "/hugetlb.2MB.rsvd.limit_in_bytes": "4194304",
				"hugetlb/" + pod + "/hugetlb.1GB.limit_in_bytes":      "0",
			},
		},
		"version 1, limits go away": {
			v1(map[string]string{
				"cpu,cpuacct/" + pod + "/cpu.shares": "512", "cpu,cpuacct/" + pod + "/cpu.cfs_quota_us": "50000",
				"memory/" + pod + "/memory.limit_in_bytes": "4096", "pids/" + pod + "/pids.max": "7",
				"cpu,cpuacct/top/burstable/cpu.shares": "99",
			}), free,
			map[string]string{
				"cpu,cpuacct/" + pod + "/cpu.shares": "1024", "cpu,cpuacct/" + pod + "/cpu.cfs_quota_us": "-1",
				"memory/" + pod + "/memory.limit_in_bytes": "-1", "pids/" + pod + "/pids.max": "max",
				"cpu,cpuacct/top/burstable/cpu.shares": "99",
			},
		},
		"version 2": {
			withHuge(v2(nil), huge(pod+"/", ".max")), pods,
			map[string]string{
				pod + "/cpu.weight": "39", pod + "/cpu.max": "50000 100000", "top/burstable/cpu.weight": "20", "top/cpu.weight": "",
				pod + "/memory.max": "67108864", pod + "/pids.max": "100", pod + "/hugetlb.2MB.max": "4194304",
				pod + "/hugetlb.2MB.rsvd.max": "4194304", pod + "/hugetlb.1GB.max": "0",
				"cgroup.subtree_control": "+hugetlb", "top/cgroup.subtree_control": "+pids",
				"top/burstable/cgroup.subtree_control": "cpu cpuset hugetlb memory pids\n",
			},
		},
		"version 2, limits go away": {
			v2(map[string]string{
				pod + "/cpu.weight": "1", pod + "/cpu.max": "1 2", pod + "/memory.max": "1", pod + "/pids.max": "1",
			}), free,
			map[string]string{
				pod + "/cpu.weight": "100", pod + "/cpu.max": "max 100000", pod + "/memory.max": "max", pod + "/pids.max": "max",
			},
		},
		"a guaranteed pod has no class": {
			v1(nil),
			host.Cgroup{Parent: "/top/podg", Shares: 8, QOSShares: 512},
			map[string]string{"cpu,cpuacct/top/podg/cpu.shares": "8", "cpu,cpuacct/top/cpu.shares": ""},
		},
		"version 1 with 2 beside it": {
			v1(map[string]string{
				"unified/cgroup.procs": "", "unified/cgroup.controllers": "hugetlb\n", "unified/cgroup.subtree_control": "",
				"systemd/cgroup.procs": "",
			}),
			host.Cgroup{Parent: "/" + pod, Shares: 2, Memory: 4096},
			map[string]string{
				"cpu,cpuacct/" + pod + "/cpu.shares": "2", "memory/" + pod + "/memory.limit_in_bytes": "4096",
				"unified/cgroup.subtree_control": "",
			},
		},
		"a controller in version 2 alone is used when it is asked for": {
			func() map[string]string {
				files := v1(map[string]string{
					"unified/cgroup.procs": "", "unified/cgroup.controllers": "pids\n", "unified/cgroup.subtree_control": "",
					"unified/top/cgroup.subtree_control": "pids\n", "unified/top/burstable/cgroup.subtree_control": "pids\n",
				})
				delete(files, "pids/cgroup.procs")
				return files
			}(),
			host.Cgroup{Parent: "/" + pod, Shares: 2, PIDs: 9},
			map[string]string{"unified/" + pod + "/pids.max": "9", "unified/cgroup.subtree_control": "+pids"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, tt.files)
			h := New(Options{CgroupRoot: root})
			if err := h.makeCgroup(t.Context(), tt.cgroup); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, contents(t, root, tt.want)); diff != "" {
				t.Error(diff)
			}
			for again, err := range map[string]error{
				"make": h.makeCgroup(t.Context(), tt.cgroup), "limit": only(h.Limit(t.Context(), tt.cgroup)),
			} {
				if err != nil {
					t.Errorf("%s again: %v", again, err)
				}
			}
			for _, tree := range []string{"freezer", "systemd", "unified"} {
				if exists(filepath.Join(root, tree)) && !exists(filepath.Join(root, tree, tt.cgroup.Parent)) {
					t.Errorf("the cgroup is not in %s", tree)
				}
			}
		})
	}
}

func TestWhatCannotBeLimitedIsRefused(t *testing.T) {
	pod := host.Cgroup{Parent: "/top/burstable/podu", Shares: 2}
	for name, tt := range map[string]struct {
		files map[string]string
		set   func(*host.Cgroup)
		want  string
	}{
		"no cgroups": {nil, func(*host.Cgroup) {}, "none are mounted"},
		"no controller": {
			map[string]string{"cpu/cgroup.procs": ""}, func(c *host.Cgroup) { c.PIDs = 1 }, "no cgroup controller pids",
		},
		"no pages of this size": {
			v1(map[string]string{"hugetlb/cgroup.procs": ""}), func(c *host.Cgroup) { c.HugePages = map[string]int64{"3MB": 1} },
			"no huge pages of 3MB",
		},
		"systemd does not run": {
			v1(nil), func(c *host.Cgroup) { c.Systemd, c.Parent = true, "top-podu.slice" }, "systemd does not run on this host",
		},
		"a path of somebody else": {v1(nil), func(c *host.Cgroup) { c.Parent = "/top" }, "is no pod's"},
	} {
		c := pod
		tt.set(&c)
		h := New(Options{CgroupRoot: fakeTree(t, tt.files), RunRoot: t.TempDir()})
		if err := h.makeCgroup(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

func TestLimitNeedsACgroup(t *testing.T) {
	h := New(Options{CgroupRoot: fakeTree(t, v1(nil))})
	took, err := h.Limit(t.Context(), host.Cgroup{Parent: "/top/podu", Memory: 1})
	if !errors.Is(err, fs.ErrNotExist) || took != 0 {
		t.Errorf("error %v after %s, want not exist", err, took)
	}
}

// TestOperationsOnCgroupsAreTimed: each says how long the cgroup took, also when it failed,
// and nothing where there was none to make or to remove.
func TestOperationsOnCgroupsAreTimed(t *testing.T) {
	h, pod := New(Options{CgroupRoot: fakeTree(t, v1(nil))}), host.Cgroup{Parent: "/top/podu", Shares: 2}
	bad := host.Cgroup{Parent: "podu"}
	made, err := h.Prepare(t.Context(), host.Preparation{Cgroup: &pod})
	noError(t, err)
	failed, err := h.Prepare(t.Context(), host.Preparation{Cgroup: &bad})
	if err == nil {
		t.Error("a cgroup without an absolute path is made")
	}
	limited, err := h.Limit(t.Context(), pod)
	noError(t, err)
	// The files of a false cgroup are not the kernel's: it cannot go.
	removed, err := h.Discard(t.Context(), host.Discard{Cgroup: &pod})
	if err == nil {
		t.Error("a directory with files is removed")
	}
	for what, took := range map[string]time.Duration{
		"made": made.Cgroup, "not made": failed.Cgroup, "limited": limited, "removed": removed.Cgroup,
	} {
		if took <= 0 || took > time.Minute {
			t.Errorf("%s: it took %s", what, took)
		}
	}
	none, err := h.Prepare(t.Context(), host.Preparation{Dirs: []string{t.TempDir()}})
	noError(t, err)
	nothing, err := h.Discard(t.Context(), host.Discard{Trees: []string{t.TempDir()}})
	noError(t, err)
	if none.Cgroup != 0 || nothing.Cgroup != 0 {
		t.Errorf("without a cgroup: %s to make, %s to remove", none.Cgroup, nothing.Cgroup)
	}
}

// TestLimitBelowUseIsRefused: version 2 would kill the pod instead.
func TestLimitBelowUseIsRefused(t *testing.T) {
	root := fakeTree(t, v2(map[string]string{
		"top/podu/memory.current": "5000\n", "top/podu/memory.stat": "anon 3000\ninactive_file 1000\n",
		"top/podu/memory.max": "9000\n",
	}))
	h := New(Options{CgroupRoot: root})
	pod := host.Cgroup{Parent: "/top/podu", Shares: 2, Memory: 3999}
	if err := only(h.Limit(t.Context(), pod)); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	want := map[string]string{"top/podu/memory.max": "9000\n"}
	if diff := cmp.Diff(want, contents(t, root, want)); diff != "" {
		t.Error(diff)
	}
	pod.Memory = 4000 // cached files go
	if err := only(h.Limit(t.Context(), pod)); err != nil {
		t.Error(err)
	}
}

func TestSlices(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	script := filepath.Join(t.TempDir(), "systemctl")
	body := "#!/bin/sh\necho \"$@\" >>" + log + "\ncase \"$*\" in *podbad*) echo no such slice; exit 1;; esac\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	said := func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	run := fakeTree(t, map[string]string{"systemd/system/": ""})
	pod := host.Cgroup{
		Parent: "top-burstable-podu.slice", Systemd: true, Shares: 1024, Quota: 12345, Period: 50000, Memory: 4096, PIDs: 7,
		QOSShares: 512,
	}
	v2slices := map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "cpu memory pids\n",
		"top.slice/cgroup.subtree_control":                     "cpu memory pids\n",
		"top.slice/top-burstable.slice/cgroup.subtree_control": "cpu memory pids\n",
	}
	for name, tt := range map[string]struct {
		files  map[string]string
		cgroup host.Cgroup
		want   []string
	}{
		"version 1": {v1(nil), pod, []string{
			"set-property --runtime top-burstable-podu.slice CPUAccounting=yes MemoryAccounting=yes TasksAccounting=yes " +
				"CPUShares=1024 MemoryLimit=4096 TasksMax=7 CPUQuota=25% CPUQuotaPeriodSec=50000us",
			"start top-burstable-podu.slice",
			"set-property --runtime top-burstable.slice CPUShares=512",
		}},
		"version 2 without limits": {v2slices, host.Cgroup{Parent: pod.Parent, Systemd: true, Shares: 2}, []string{
			"set-property --runtime top-burstable-podu.slice CPUAccounting=yes MemoryAccounting=yes TasksAccounting=yes " +
				"CPUWeight=1 MemoryMax=infinity TasksMax=infinity CPUQuota=",
			"start top-burstable-podu.slice",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, tt.files)
			h := New(Options{CgroupRoot: root, RunRoot: run, SystemctlCommand: script})
			if err := h.makeCgroup(t.Context(), tt.cgroup); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, said()); diff != "" {
				t.Error(diff)
			}
		})
	}
	root := fakeTree(t, map[string]string{"cpu/cgroup.procs": "", "cpu/top.slice/top-podu.slice/": ""})
	h := New(Options{CgroupRoot: root, RunRoot: run, SystemctlCommand: script})
	if err := h.removeCgroup(t.Context(), host.Cgroup{Parent: "top-podu.slice", Systemd: true}, spared); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"stop top-podu.slice", "revert top-podu.slice"}, said()); diff != "" {
		t.Error(diff)
	}
	err := h.makeCgroup(t.Context(), host.Cgroup{Parent: "top-podbad.slice", Systemd: true, Shares: 2})
	if err == nil || !strings.Contains(err.Error(), "no such slice") {
		t.Errorf("error %v, want systemd's words", err)
	}
}

func TestRemovedAreThePodsCgroupsAlone(t *testing.T) {
	root := fakeTree(t, map[string]string{
		"cpu/cgroup.procs": "", "memory/cgroup.procs": "",
		"cpu/top/burstable/podu/container/inner/": "", "cpu/top/burstable/podu2/": "", "memory/top/burstable/podu/": "",
		"top/burstable/podu/": "",
	})
	h := New(Options{CgroupRoot: root})
	pod := host.Cgroup{Parent: "/top/burstable/podu"}
	for range 2 { // what is gone is fine
		if err := h.removeCgroup(t.Context(), pod, spared); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && strings.Contains(path, "/top") {
			rel, _ := filepath.Rel(root, path)
			left = append(left, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	want := []string{
		"cpu/top", "cpu/top/burstable", "cpu/top/burstable/podu2", "memory/top", "memory/top/burstable", "top",
		"top/burstable", "top/burstable/podu",
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
	for _, parent := range []string{"/top", "/", "top", "/top/../cpu"} {
		if err := h.removeCgroup(t.Context(), host.Cgroup{Parent: parent}, spared); err == nil {
			t.Errorf("%s is removed", parent)
		}
	}
}
