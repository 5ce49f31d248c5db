package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// TestLimitsAreRaised: what is more than asked for stays, and no limit is more than any.
func TestLimitsAreRaised(t *testing.T) {
	const pod = "top/burstable/podu"
	type files = map[string]string
	first := func(quota, memory string) files {
		return v1(files{
			"cpu,cpuacct/" + pod + "/cpu.cfs_quota_us": quota, "cpu,cpuacct/" + pod + "/cpu.cfs_period_us": "100000\n",
			"memory/" + pod + "/memory.limit_in_bytes": memory,
		})
	}
	wantFirst := func(quota, memory string) files {
		return files{
			"cpu,cpuacct/" + pod + "/cpu.cfs_quota_us": quota, "memory/" + pod + "/memory.limit_in_bytes": memory,
		}
	}
	second := func(cpu, memory string) files {
		return v2(files{pod + "/cpu.max": cpu, pod + "/memory.max": memory})
	}
	wantSecond := func(cpu, memory string) files { return files{pod + "/cpu.max": cpu, pod + "/memory.max": memory} }
	asked := host.Cgroup{Parent: "/" + pod, Quota: 50000, Period: 100000, Memory: 64 << 20, Raise: true}
	free := host.Cgroup{Parent: "/" + pod, Raise: true}
	for name, tt := range map[string]struct {
		files  files
		cgroup host.Cgroup
		want   files
	}{
		"version 1, less":        {first("20000\n", "33554432\n"), asked, wantFirst("50000", "67108864")},
		"version 1, more":        {first("90000\n", "134217728\n"), asked, wantFirst("90000", "134217728")},
		"version 1, one of each": {first("90000\n", "33554432\n"), asked, wantFirst("90000", "67108864")},
		"version 1, no limits":   {first("-1\n", "9223372036854771712\n"), asked, wantFirst("-1", "-1")},
		"version 1, limits go":   {first("20000\n", "33554432\n"), free, wantFirst("-1", "-1")},
		"version 2, less":        {second("20000 100000\n", "33554432\n"), asked, wantSecond("50000 100000", "67108864")},
		"version 2, more": {
			second("90000 100000\n", "134217728\n"), asked, wantSecond("90000 100000", "134217728"),
		},
		"version 2, another period":  {second("9000 10000\n", "33554432\n"), asked, wantSecond("90000 100000", "67108864")},
		"version 2, no limits":       {second("max 100000\n", "max\n"), asked, wantSecond("max 100000", "max")},
		"version 2, not limited yet": {v2(files{pod + "/": ""}), asked, wantSecond("50000 100000", "67108864")},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, tt.files)
			h := New(Options{CgroupRoot: root})
			noError(t, only(h.Limit(t.Context(), tt.cgroup)))
			if diff := cmp.Diff(tt.want, contents(t, root, tt.want)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, wrong := range map[string]files{
		"version 1, cpu": first("many", "67108864"), "version 1, memory": first("20000", "many"),
		"version 2, cpu": second("many 100000", "67108864"), "version 2, memory": second("20000 100000", "many"),
	} {
		if err := only(New(Options{CgroupRoot: fakeTree(t, wrong)}).Limit(t.Context(), asked)); err == nil {
			t.Errorf("%s is no number, and that is no error", name)
		}
	}
}

// TestRealPodIsRaisedForItsContainers: no container may have more of the processors than
// its pod, so the pod's cgroup is raised first and lowered last.
func TestRealPodIsRaisedForItsContainers(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	noError(t, err)
	pod := host.Cgroup{Parent: "/" + top + "/podu", Shares: 2, Quota: 20000, Period: 100000, Memory: 64 << 20}
	noError(t, h.makeCgroup(t.Context(), pod))
	hi, ok := hs.with(controllerCPU)
	if !ok {
		t.Fatal("the kernel has no controller of cpu")
	}
	container := filepath.Join(hi.at([]string{top, "podu"}), "container")
	noError(t, os.Mkdir(container, 0o755))
	quota := func(q int64) error {
		if hi.unified {
			return nil // each is limited by itself
		}
		return setQuotaV1(container, q, 100000)
	}
	noError(t, quota(20000))
	for _, c := range []struct{ pod, container int64 }{{50000, 50000}, {10000, 10000}, {30000, 30000}} {
		pod.Quota, pod.Raise = c.pod, true
		noError(t, only(h.Limit(t.Context(), pod)))
		noError(t, quota(c.container))
		pod.Raise = false
		noError(t, only(h.Limit(t.Context(), pod)))
		if got, _, err := quotaOf(hi.at([]string{top, "podu"}), hi.unified); err != nil || got != c.pod {
			t.Errorf("the pod has %d, and error %v, want %d", got, err, c.pod)
		}
	}
}
