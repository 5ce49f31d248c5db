package local

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// procfs is a small host's /proc.
func procfs(extra map[string]string) map[string]string {
	files := map[string]string{
		"stat":                      "cpu  100 10 20 999 99 3 4 5 0 0\ncpu0 1 2\ncpu1 1 2\nintr 7 7\nbtime 1767000000\n",
		"meminfo":                   "MemTotal:       1000 kB\nMemFree:         300 kB\nInactive(file):  100 kB\nAnonPages:        50 kB\nSwapTotal:        20 kB\nHugePages_Total:       0\n",
		"vmstat":                    "pgfault 77\npgmajfault 7\n",
		"loadavg":                   "0.1 0.2 0.3 2/345 999\n",
		"filesystems":               "nodev\ttmpfs\nnodev\toverlay\n\text4\n",
		"sys/kernel/osrelease":      "6.1.0-18-amd64\n",
		"sys/kernel/hostname":       "worker.example.test\n",
		"sys/kernel/random/boot_id": "boot-1\n",
		"sys/kernel/pid_max":        "4194304\n",
		"sys/kernel/threads-max":    "1000\n",
		"self/status":               "Name:\tx\nCapEff:\t000001ffffffffff\n",
		"self/mountinfo":            "",
		"net/dev":                   "Inter-| x\n face |y\n    lo: 1 1 1 0 0 0 0 0 1 1 1 0 0 0 0 0\n  veth1: 2 2 2 0 0 0 0 0 2 2 2 0 0 0 0 0\n  eno9: 30 3 1 0 0 0 0 0 40 4 2 0 0 0 0 0\n  wan0: 50 5 3 0 0 0 0 0 60 6 4 0 0 0 0 0\n",
		"net/route":                 "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neno9\t000000C6\t0\t0001\t0\t0\t0\t00FFFFFF\nwan0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n",
	}
	maps.Copy(files, extra)
	return files
}

// fakeProc makes a /proc with processes: their executable and pid namespace.
func fakeProc(t *testing.T, extra map[string]string, processes map[string][2]string) string {
	t.Helper()
	root := fakeTree(t, procfs(extra))
	processes["self"] = [2]string{"/usr/bin/burstlet", "pid:[1]"}
	for pid, p := range processes {
		for link, target := range map[string]string{"exe": p[0], "ns/pid": p[1], "ns/net": "net:[1]"} {
			path := filepath.Join(root, pid, link)
			if target == "" {
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestFacts(t *testing.T) {
	proc := fakeProc(t, map[string]string{"8/comm": "kubelet\n", "9/comm": "kubelet\n"}, map[string][2]string{
		"2": {"/usr/bin/kubelet", "pid:[1]"},
		"3": {"/usr/bin/kubelet (deleted)", "pid:[1]"},
		"4": {"/usr/bin/kubelet", "pid:[2]"}, // in a container
		"5": {"/usr/bin/kubelet-proxy", "pid:[1]"},
		"8": {"", ""}, // of another user: nothing but its name can be read
		"9": {"/usr/bin/vim", "pid:[1]"},
	})
	h := New(Options{
		Root: filepath.Join(t.TempDir(), "not/there/yet"), ProcRoot: proc, MountCommand: "true",
		CgroupRoot: fakeTree(t, v1(map[string]string{"cpu,cpuacct/x": ""})),
		EtcRoot: fakeTree(
			t, map[string]string{"os-release": "NAME=x\nPRETTY_NAME=\"Debian 12\"\n", "machine-id": "machine-1\n"},
		),
		SysRoot: fakeTree(t, map[string]string{"class/dmi/id/product_uuid": "UUID-1\n"}),
		RunRoot: t.TempDir(),
	})
	got, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(got.Now); age < 0 || age > time.Minute {
		t.Errorf("it is %v there", got.Now)
	}
	if got.Disk.Capacity == 0 || got.Disk.Capacity < got.Disk.Available {
		t.Errorf("disk %+v", got.Disk)
	}
	want := host.Facts{
		Now: got.Now, Arch: runtime.GOARCH, Kernel: "6.1.0-18-amd64", OSImage: "Debian 12",
		MachineID: "machine-1", SystemUUID: "UUID-1", BootID: "boot-1", Hostname: "worker", CPUs: 2, Memory: 1000 << 10,
		Swap: 20 << 10, PIDs: 1000,
		Addresses: got.Addresses, CgroupRoot: h.opts.CgroupRoot, Controllers: []string{"cpu", "cpuset", "memory", "pids"},
		Kubelets: []host.Kubelet{{PID: 2}, {PID: 3}, {PID: 8}}, Disk: got.Disk,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFactsOfAHostThatKeepsItsIDs(t *testing.T) {
	h := New(Options{
		ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, v2(nil)), MountCommand: "true",
		EtcRoot: fakeTree(t, map[string]string{"machine-id": "machine-1\n"}), SysRoot: t.TempDir(),
		RunRoot: fakeTree(t, map[string]string{"systemd/system/": ""}), SystemctlCommand: "true",
	})
	got, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.SystemUUID != "machine-1" || got.OSImage != "Linux" || !got.CgroupV2 || !got.Systemd || len(got.Lacks) > 0 {
		t.Errorf("%+v", got)
	}
	if want := []string{"cpu", "cpuset", "hugetlb", "memory", "pids"}; !slices.Equal(got.Controllers, want) {
		t.Errorf("controllers %v, want %v", got.Controllers, want)
	}
}

func TestSwapIsLimitedWhereTheKernelCan(t *testing.T) {
	own := map[string]string{"self/cgroup": "0::/user.slice/session-1.scope\n"}
	for name, tt := range map[string]struct {
		proc, cgroups map[string]string
		want          bool
	}{
		"version 2, our own cgroup tells": {
			own, v2(map[string]string{"user.slice/session-1.scope/memory.swap.max": "max\n"}), true,
		},
		"version 2, in the root": {
			map[string]string{"self/cgroup": "0::/\n"}, v2(map[string]string{"system.slice/memory.swap.max": "max\n"}), true,
		},
		"version 2 without swap": {own, v2(map[string]string{"user.slice/session-1.scope/memory.max": "max\n"}), false},
		"version 1":              {nil, v1(map[string]string{"memory/memory.memsw.limit_in_bytes": "9\n"}), true},
		"version 1 without swap": {nil, v1(nil), false},
		"none":                   {nil, nil, false},
	} {
		o := Options{
			ProcRoot: fakeProc(t, tt.proc, map[string][2]string{}), CgroupRoot: fakeTree(t, tt.cgroups), MountCommand: "true",
			RunRoot: t.TempDir(),
		}
		if f, err := New(o).Facts(t.Context()); err != nil || f.SwapLimits != tt.want {
			t.Errorf("%s: %v, %v", name, f.SwapLimits, err)
		}
	}
}

// TestLacksSayWhatToDo: each lack names itself and a remedy.
func TestLacksSayWhatToDo(t *testing.T) {
	for name, tt := range map[string]struct {
		proc    map[string]string
		cgroups map[string]string
		set     func(*Options)
		want    []string
	}{
		"nothing": {nil, v1(nil), func(*Options) {}, nil},
		"no root": {
			map[string]string{"self/status": "CapEff:\t0000000000000002\n"},
			v1(nil), func(*Options) {},
			[]string{"lack CAP_CHOWN, CAP_FOWNER, CAP_SYS_ADMIN: log in as root"},
		},
		"no mount": {
			nil, v1(nil), func(o *Options) { o.MountCommand = "no-such-mount" }, []string{"no-such-mount is missing: install"},
		},
		"no cgroups": {nil, nil, func(*Options) {}, []string{"none are mounted"}},
		"no controllers": {nil, map[string]string{"cpu/cgroup.procs": ""}, func(*Options) {}, []string{
			"cgroup_enable=memory", "cgroup_enable=pids",
		}},
		"no file systems": {
			map[string]string{"filesystems": "ext4\n"}, v1(nil), func(*Options) {}, []string{"modprobe overlay", "CONFIG_TMPFS"},
		},
	} {
		o := Options{
			ProcRoot: fakeProc(t, tt.proc, map[string][2]string{}), CgroupRoot: fakeTree(t, tt.cgroups), MountCommand: "true",
			RunRoot: t.TempDir(),
		}
		tt.set(&o)
		f, err := New(o).Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ok := len(f.Lacks) == len(tt.want)
		for i := range tt.want {
			ok = ok && strings.Contains(f.Lacks[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%s: lacks %q, want %q", name, f.Lacks, tt.want)
		}
	}
}

func TestDefaultRoutes(t *testing.T) {
	const v4 = "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
	for table, want := range map[string]string{
		"":      "",
		v4:      "",
		"short": "",
		v4 + "a 00000000 1 0003 0 0 200 00000000\nb 00000000 1 0003 0 0 100 00000000\n": "b",
		v4 + "a 00000000 1 0203 0 0 0 00000000\nb 00000000 1 0003 0 0 100 00000000\n":   "b", // unreachable
		v4 + "a 0000000A 0 0001 0 0 0 000000FF\n":                                       "",
		v4 + "a 00000000 1 0000 0 0 0 00000000\n":                                       "", // down
	} {
		if got := defaultIPv4(table); got != want {
			t.Errorf("%q: got %q, want %q", table, got, want)
		}
	}
	const zero = "00000000000000000000000000000000"
	for table, want := range map[string]string{
		zero + " 00 " + zero + " 00 " + zero +
			" ffffffff 1 0 00200200 lo\n": "",
		zero + " 00 " + zero +
			" 00 fd000000000000000000000000000001 00000400 3 0 00000003 eth0\n": "eth0",
		"fd000000000000000000000000000000 40 " + zero + " 00 " + zero +
			" 00000100 1 0 00000001 eth0\n": "",
		zero + " 00 " + zero + " 00 " + zero + " 00000400 3 0 00000003 a\n" + zero + " 00 " + zero + " 00 " + zero +
			" 0000000a 3 0 00000003 b\n": "b",
	} {
		if got := defaultIPv6(table); got != want {
			t.Errorf("%q: got %q, want %q", table, got, want)
		}
	}
}

// TestFactsOfThisMachine reads the real files.
func TestFactsOfThisMachine(t *testing.T) {
	f, err := New(Options{}).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.CPUs < 1 || f.Memory < 1<<20 || f.Kernel == "" || f.BootID == "" || f.Hostname == "" || f.Disk.Capacity == 0 {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(Options{}).Facts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a call that nobody waits for", err)
	}
}

func TestTheRuntimeOfAKubelet(t *testing.T) {
	proc := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		file := filepath.Join(proc, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("1/cmdline", "kubelet\x00--container-runtime-endpoint=unix:///run/a.sock\x00")
	write("2/cmdline", "kubelet\x00--v\x002\x00--container-runtime-endpoint\x00/var/run/b.sock\x00")
	write("3/cmdline", "kubelet\x00--config=/etc/kubelet.yaml\x00")
	write(
		filepath.Join("3", "root", "etc", "kubelet.yaml"),
		"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: \"unix:///run/c.sock\"\n",
	)
	write("4/cmdline", "kubelet\x00--config=/etc/missing.yaml\x00")
	h := New(Options{ProcRoot: proc})
	for pid, socket := range map[string]string{
		"1": "/run/a.sock", "2": "/run/b.sock", "3": "/run/c.sock", "4": "/run/containerd/containerd.sock",
		"5": "/var/run/containerd/containerd.sock",
	} {
		k := host.Kubelet{Endpoint: h.kubeletEndpoint(pid, "kubelet")}
		if !k.Uses(socket) || k.Uses("/run/other.sock") {
			t.Errorf("kubelet %s with %q does not use %s, or uses any other", pid, k.Endpoint, socket)
		}
	}
}

// A kubelet's own word is not waited for, nor read without end: anybody may run what is
// called kubelet.
func TestTheWordOfAKubeletIsBounded(t *testing.T) {
	const root = "root" // of a process
	proc := fakeTree(t, map[string]string{
		"1/cmdline": "kubelet\x00--config=/pipe\x00", "2/cmdline": "kubelet\x00--config=/endless\x00",
		"3/cmdline": "kubelet\x00--config=/large\x00",
		"3/" + root + "/large": strings.Repeat(
			"# a line of a large file\n", 100_000,
		) + "containerRuntimeEndpoint: unix:///run/far.sock\n",
		"1/" + root + "/": "", "2/" + root + "/": "",
	})
	noError(t, unix.Mkfifo(filepath.Join(proc, "1", root, "pipe"), 0o600))
	noError(t, os.Symlink("/dev/zero", filepath.Join(proc, "2", root, "endless")))
	h := New(Options{ProcRoot: proc})
	for _, pid := range []string{"1", "2", "3"} {
		if got := h.kubeletEndpoint(pid, "kubelet"); got != "" {
			t.Errorf("%s: %q", pid, got)
		}
	}
}

// Distributions have the kubelet within a program of another name, with a runtime of its
// own.
func TestKubeletsOfDistributions(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"10/cmdline": "/usr/local/bin/k3s server\x00\x00\x00",
		"11/cmdline": "/usr/local/bin/k3s\x00agent\x00--container-runtime-endpoint=unix:///run/mine.sock\x00",
		"12/cmdline": "/usr/local/bin/k3s\x00kubectl\x00get\x00pods\x00",
		"13/cmdline": "/usr/local/bin/k3s server\x00", "13/root" + k3sConfig: "token: x\ndisable-agent: true\n",
		"14/cmdline": "/usr/local/bin/k3s agent\x00", "14/root" + k3sConfig: "container-runtime-endpoint: /run/theirs.sock\n",
		"15/comm": "k3s-agent\n", "16/cmdline": "/snap/microk8s/1/kubelite\x00",
	}, map[string][2]string{
		"10": {"/var/lib/rancher/k3s/data/x/bin/k3s", "pid:[1]"}, "11": {"/usr/local/bin/k3s", "pid:[1]"},
		"12": {"/usr/local/bin/k3s", "pid:[1]"}, "13": {"/usr/local/bin/k3s", "pid:[1]"},
		"14": {"/usr/local/bin/k3s", "pid:[1]"},
		"15": {"", "pid:[1]"}, "16": {"/snap/microk8s/1/kubelite", "pid:[1]"}, "17": {"/usr/local/bin/k3s", "pid:[2]"},
	})
	got, err := New(Options{ProcRoot: proc}).kubelets(t.Context())
	noError(t, err)
	want := []host.Kubelet{
		{PID: 10, Endpoint: k3sEndpoint},
		{PID: 11, Endpoint: "unix:///run/mine.sock"},
		{PID: 14, Endpoint: "/run/theirs.sock"},
		{PID: 15, Endpoint: k3sEndpoint},
		{PID: 16, Endpoint: "unix:///var/snap/microk8s/common/run/containerd.sock"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Huge pages are told of where cgroups limit them: of version 1, or of a tree that is the
// only one, for containers stand in no other.
func TestHugePagesOfTheHost(t *testing.T) {
	const sizes = "kernel/mm/hugepages/hugepages-"
	some := map[string]string{
		sizes + "2048kB/nr_hugepages": "4\n", sizes + "1048576kB/nr_hugepages": "0\n", "kernel/mm/hugepages/other/x": "1\n",
	}
	want := map[int64]int64{2 << 20: 8 << 20, 1 << 30: 0}
	beside := v1(map[string]string{"unified/cgroup.controllers": "hugetlb\n"})
	for name, tt := range map[string]struct {
		sys, cgroups map[string]string
		want         map[int64]int64
	}{
		"version 2":                     {some, v2(nil), want},
		"version 2, none in the kernel": {map[string]string{}, v2(nil), nil},
		"version 1":                     {some, v1(map[string]string{"hugetlb/cgroup.procs": ""}), want},
		"version 1 without them":        {some, v1(nil), nil},
		"beside version 1":              {some, beside, nil},
	} {
		h := New(Options{
			ProcRoot: fakeProc(t, nil, map[string][2]string{}), CgroupRoot: fakeTree(t, tt.cgroups), MountCommand: "true",
			EtcRoot: t.TempDir(), SysRoot: fakeTree(t, tt.sys), RunRoot: t.TempDir(),
		})
		got, err := h.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.HugePages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
