package local

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	devices   = "   8       0 sda 1 2 3\n 259       1 nvme0n1p1 1 2 3\n"
	container = "0123abcd"
)

// below puts files of a cgroup where they belong.
func below(dir string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, data := range files {
		out[dir+name] = data
	}
	return out
}

var (
	containerV2 = map[string]string{
		"cpu.stat":       "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnr_periods 20\nnr_throttled 5\nthrottled_usec 9\n",
		"memory.current": "5000\n", "memory.max": "8192\n", "memory.swap.current": "70\n", "memory.peak": "6000\n",
		"memory.stat":   "anon 2000\nfile 3000\nfile_mapped 30\nactive_file 400\ninactive_file 1000\n",
		"memory.events": "low 0\nhigh 0\nmax 11\noom 2\noom_kill 1\noom_group_kill 0\n",
		"io.stat":       "8:0 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=0 dios=0\n253:7 \n259:1 rbytes=1 wbytes=2 rios=1 wios=2 dbytes=0 dios=0\n9:9 rbytes=5\n",
	}
	detailV2 = host.CgroupDetail{
		CPUUser: new(uint64(4000)), CPUSystem: new(uint64(3000)),
		Periods: new(uint64(20)), ThrottledPeriods: new(uint64(5)), ThrottledTime: new(uint64(9000)),
		Cache: new(uint64(3000)), Swap: new(uint64(70)), MappedFile: new(uint64(30)), ActiveFile: new(uint64(400)),
		InactiveFile: new(uint64(1000)),
		MostMemory:   new(uint64(6000)), MemoryFailures: new(uint64(11)), OOMKills: new(uint64(1)),
		Disks: []host.Disk{
			{Device: "/dev/sda", ReadBytes: 100, WriteBytes: 200, Reads: 3, Writes: 4},
			{Device: "/dev/nvme0n1p1", ReadBytes: 1, WriteBytes: 2, Reads: 1, Writes: 2},
			{Device: "9:9", ReadBytes: 5},
		},
	}
)

func treeV1(dir string) map[string]string {
	out := map[string]string{}
	for tree, files := range map[string]map[string]string{
		"cpu,cpuacct/": {
			"cpuacct.usage": "7000\n", "cpuacct.stat": "user 4\nsystem 3\n",
			"cpu.stat": "nr_periods 20\nnr_throttled 5\nthrottled_time 9000\n",
		},
		"memory/": {
			"memory.usage_in_bytes": "5000\n", "memory.max_usage_in_bytes": "6000\n", "memory.failcnt": "11\n",
			"memory.stat":        "cache 1\ntotal_cache 3000\ntotal_swap 70\ntotal_mapped_file 30\ntotal_active_file 400\ntotal_inactive_file 1000\n",
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		},
		"blkio/": {
			"blkio.throttle.io_service_bytes_recursive": "8:0 Read 100\n8:0 Write 200\n8:0 Total 300\nTotal 300\n",
			"blkio.throttle.io_service_bytes":           "8:0 Read 0\n",
			"blkio.throttle.io_serviced":                "8:0 Read 3\n8:0 Write 4\nTotal 7\n",
		},
	} {
		maps.Copy(out, below(tree+dir, files))
	}
	return out
}

// TestContainersAreMeasured in the cgroups of both versions, by the names that runtimes
// and drivers give them.
func TestContainersAreMeasured(t *testing.T) {
	detailV1 := detailV2
	detailV1.CPUUser, detailV1.CPUSystem = new(uint64(40e6)), new(uint64(30e6))
	detailV1.Disks = detailV2.Disks[:1]
	blkio := map[string]string{"blkio/cgroup.procs": ""}
	for name, tt := range map[string]struct {
		files map[string]string
		pod   host.Cgroup
		path  string
		want  host.CgroupDetail
	}{
		"version 2": {
			v2(below("top/podu/"+container+"/", containerV2)),
			host.Cgroup{Parent: "/top/podu"},
			"/top/podu/" + container,
			detailV2,
		},
		"version 2, containerd and systemd": {
			v2(below("top.slice/top-podu.slice/cri-containerd-"+container+".scope/", containerV2)),
			host.Cgroup{Parent: "top-podu.slice", Systemd: true},
			"/top.slice/top-podu.slice/cri-containerd-" + container + ".scope", detailV2,
		},
		"version 2, CRI-O and systemd": {
			v2(below("top.slice/top-podu.slice/crio-"+container+".scope/", containerV2)),
			host.Cgroup{Parent: "top-podu.slice", Systemd: true},
			"/top.slice/top-podu.slice/crio-" + container + ".scope", detailV2,
		},
		"version 1": {
			v1(mergeFiles(blkio, treeV1("top/podu/"+container+"/"))),
			host.Cgroup{Parent: "/top/podu"},
			"/top/podu/" + container,
			detailV1,
		},
		"nothing of it is known": {
			v2(map[string]string{"top/podu/" + container + "/": ""}),
			host.Cgroup{Parent: "/top/podu"},
			"/top/podu/" + container,
			host.CgroupDetail{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(Options{
				ProcRoot:   fakeProc(t, map[string]string{"diskstats": devices}, map[string][2]string{}),
				CgroupRoot: fakeTree(t, tt.files),
			})
			u, err := h.Usage(t.Context(), host.UsageRequest{Pods: []host.PodUsageRequest{{
				UID: "u", Cgroup: tt.pod, Containers: []string{container, "gone"},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			got := u.Pods["u"].Containers
			if len(got) != 1 || got[container].Path != tt.path {
				t.Fatalf("containers %+v, want the one at %s", got, tt.path)
			}
			if diff := cmp.Diff(tt.want, got[container].CgroupDetail); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func mergeFiles(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
