package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// A class has the CPU shares of the pods in it together, whichever node they are of. One in
// which nothing runs any more counts no longer.
func TestAClassWeighsWhatItsPodsDo(t *testing.T) {
	const class = "top/burstable/"
	pod := host.Cgroup{Parent: "/" + class + "podu", Shares: 1024, QOSSum: true}
	for name, tt := range map[string]struct {
		files  map[string]string
		old    []string // directories of cgroups that were made long ago
		cgroup host.Cgroup
		want   map[string]string
	}{
		"version 1": {
			v1(map[string]string{
				"cpu,cpuacct/" + class + "podruns/cpu.shares": "512\n", "cpu,cpuacct/" + class + "podruns/cgroup.procs": "",
				"cpu,cpuacct/" + class + "podruns/pause/cgroup.procs": "77\n",
				"cpu,cpuacct/" + class + "podended/cpu.shares":        "4096\n",
				"cpu,cpuacct/" + class + "podended/cgroup.procs":      "",
				"cpu,cpuacct/" + class + "podstarts/cpu.shares":       "256\n",
			}),
			[]string{"cpu,cpuacct/" + class + "podruns", "cpu,cpuacct/" + class + "podended"},
			pod,
			map[string]string{
				"cpu,cpuacct/" + class + "cpu.shares": "1792", "cpu,cpuacct/" + class + "podu/cpu.shares": "1024",
				"cpu,cpuacct/top/cpu.shares": "",
			},
		},
		"no more than the kernel takes": {
			v1(map[string]string{"cpu,cpuacct/" + class + "podbig/cpu.shares": "262144\n"}), nil, pod,
			map[string]string{"cpu,cpuacct/" + class + "cpu.shares": "262144"},
		},
		// Of pods that an earlier burstlet made, the weight is known and not the shares.
		"version 2": {
			v2(map[string]string{
				class + "podruns/cpu.weight": "39\n", class + "podruns/cgroup.events": "populated 1\nfrozen 0\n",
				class + "podended/cpu.weight": "500\n", class + "podended/cgroup.events": "populated 0\nfrozen 0\n",
				class + "podidle/cpu.weight": "1\n",
			}),
			[]string{class + "podruns", class + "podended"},
			pod,
			// 1024, and 2 + 38.5 weights of 26.2 shares, and 2.
			map[string]string{class + "cpu.weight": "78", class + "podu/cpu.weight": "39"},
		},
		"a guaranteed pod has no class": {
			v1(nil), nil,
			host.Cgroup{Parent: "/top/podg", Shares: 8, QOSSum: true},
			map[string]string{"cpu,cpuacct/top/cpu.shares": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, tt.files)
			for _, dir := range tt.old {
				noError(t, os.Chtimes(filepath.Join(root, dir), time.Time{}, time.Now().Add(-time.Hour)))
			}
			h := New(Options{CgroupRoot: root})
			noError(t, h.makeCgroup(t.Context(), tt.cgroup))
			if diff := cmp.Diff(tt.want, contents(t, root, tt.want)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Weights of version 2 are rounded; their sum is made of what was asked for.
func TestManySmallPodsWeighTogetherWhatTheyAskFor(t *testing.T) {
	root := fakeTree(t, v2(nil))
	h := New(Options{CgroupRoot: root})
	want := map[string]string{"top/burstable/cpu.weight": "39"} // of 10 times 102, as on a kubelet
	for _, uid := range "abcdefghij" {
		noError(
			t, h.makeCgroup(t.Context(), host.Cgroup{Parent: "/top/burstable/pod" + string(uid), Shares: 102, QOSSum: true}),
		)
	}
	if diff := cmp.Diff(want, contents(t, root, want)); diff != "" {
		t.Error(diff)
	}
	// One is resized: what was noted of it before does not count.
	noError(t, only(h.Limit(t.Context(), host.Cgroup{Parent: "/top/burstable/poda", Shares: 1024, QOSSum: true})))
	want["top/burstable/cpu.weight"] = "74"
	if diff := cmp.Diff(want, contents(t, root, want)); diff != "" {
		t.Error(diff)
	}
}

// The class weighs less when a pod goes, whichever node it was of.
func TestRealClassWeighsLessWithoutAPod(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	noError(t, err)
	hi, ok := hs.with(controllerCPU)
	if !ok {
		need.Missing(t, "the kernel has no controller cpu")
	}
	class := []string{top, "burstable"}
	weighs := func(want int64) {
		t.Helper()
		if got, err := hi.shares(hi.at(class)); err != nil || got != want && cpuWeight(got) != cpuWeight(want) {
			t.Errorf("the class has %d shares, want %d: %v", got, want, err)
		}
	}
	a := host.Cgroup{Parent: "/" + top + "/burstable/poda", Shares: 512, QOSSum: true}
	b := host.Cgroup{Parent: "/" + top + "/burstable/podb", Shares: 1024, QOSSum: true}
	noError(t, h.makeCgroup(t.Context(), a))
	noError(t, New(Options{}).makeCgroup(t.Context(), b)) // of another process
	weighs(1536)
	noError(t, h.removeCgroup(t.Context(), *host.Ownership{Cgroup: a.Parent}.PodCgroup(), spared))
	weighs(1024)
	noError(t, h.removeCgroup(t.Context(), *host.Ownership{Cgroup: b.Parent}.PodCgroup(), spared))
	weighs(2)
}
