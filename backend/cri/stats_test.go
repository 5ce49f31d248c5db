package cri

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// measuringHost is a host whose Usage is given.
type measuringHost struct {
	host.Host
	mu    sync.Mutex
	ahead time.Duration // of its clock
	asked []host.UsageRequest
	usage func(host.UsageRequest) (host.Usage, error)
}

func (h *measuringHost) Usage(_ context.Context, r host.UsageRequest) (host.Usage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r)
	return h.usage(r)
}

// Facts has the host's clock.
func (h *measuringHost) Facts(ctx context.Context) (host.Facts, error) {
	f, err := h.Host.Facts(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	f.Now = f.Now.Add(h.ahead)
	return f, err
}

// last is the last request.
func (h *measuringHost) last() host.UsageRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[len(h.asked)-1]
}

// measuring connects to a fake runtime on a host whose pods all use the same.
func measuring(t *testing.T, pod host.PodUsage, set ...func(*fakecri.Server)) (*world, *remote, *measuringHost) {
	t.Helper()
	w := newWorld(t, set...)
	h := &measuringHost{Host: w.access.host, usage: func(r host.UsageRequest) (host.Usage, error) {
		u := host.Usage{
			Now: time.Now(),
			Node: host.CgroupUsage{
				StartTime: time.Unix(1000, 0), WorkingSet: new(uint64(30)), Memory: new(uint64(40)), MemoryLimit: new(uint64(100)),
			},
			Network:   []host.Interface{{Name: "eth0", RxBytes: 1, TxBytes: 2}},
			Root:      host.Filesystem{Capacity: 1000, Available: 400, Used: 600, Inodes: 10, InodesFree: 4, InodesUsed: 6},
			Images:    host.Filesystem{Capacity: 2000, Available: 1500, Used: 500},
			Processes: 77, Pods: map[string]host.PodUsage{},
		}
		for _, p := range r.Pods {
			u.Pods[p.UID] = pod
		}
		return u, nil
	}}
	w.access.host = h
	r, _ := w.connect(t)
	return w, r, h
}

func measure(t *testing.T, r *remote) backend.StatsFacts {
	t.Helper()
	facts, err := r.stats.Stats(t.Context())
	must(t, err)
	return facts
}

// wantUsage compares all but the time of the measurement, which is now.
func wantUsage(t *testing.T, what string, got, want backend.Usage) {
	t.Helper()
	if age := time.Since(got.Time); age < 0 || age > time.Minute {
		t.Errorf("%s: measured %v ago", what, age)
	}
	got.Time = time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func TestStatsTellAllThatIsMeasured(t *testing.T) {
	pod := host.PodUsage{
		CgroupUsage: host.CgroupUsage{
			CPUNanoseconds: new(uint64(9000)), Memory: new(uint64(500)), WorkingSet: new(uint64(400)), RSS: new(uint64(300)),
			MemoryLimit: new(uint64(1000)), PageFaults: new(uint64(5)), MajorPageFaults: new(uint64(1)), PIDs: new(uint64(4)),
		},
		Path: "/burstlet/besteffort/podu1",
		Network: []host.Interface{{
			Name: "eth0", RxBytes: 10, RxErrors: 1, TxBytes: 20, TxErrors: 2, RxPackets: 3, RxDropped: 4, TxPackets: 5,
			TxDropped: 6,
		}},
		Logs: map[string]host.Filesystem{"main": {Capacity: 1000, Available: 400, Used: 50, InodesUsed: 2}},
		Volumes: map[string]host.Filesystem{
			"disk":   {Capacity: 1000, Available: 400, Used: 70, InodesUsed: 3},
			"memory": {Capacity: 64, Available: 60, Used: 4, Inodes: 9, InodesFree: 8, InodesUsed: 1},
		},
		Files:  host.Filesystem{Used: 6, InodesUsed: 1},
		OnDisk: []string{"disk"}, MeasuredAt: time.Now(),
	}
	pod.Containers = map[string]host.ContainerUsage{}
	pod.Logs["ended"] = host.Filesystem{Used: 3, InodesUsed: 1}
	w, r, h := measuring(t, pod)
	ref := runPod(t, r, testPod("u1"), "main")
	id, _ := w.fake.Container("main")
	pod.Containers[id] = host.ContainerUsage{Path: "/burstlet/besteffort/podu1/" +
		id, CgroupUsage: host.CgroupUsage{Pressure: host.Pressure{
		IO: &host.Stalls{Some: host.StallTime{Total: 18, Avg10: .5}, Full: host.StallTime{Total: 19}},
	}, CgroupDetail: host.CgroupDetail{
		CPUUser: new(uint64(1)), CPUSystem: new(uint64(2)), Periods: new(uint64(3)), ThrottledPeriods: new(uint64(4)),
		ThrottledTime: new(uint64(5)),
		Cache:         new(uint64(6)), Swap: new(uint64(7)), MappedFile: new(uint64(8)), ActiveFile: new(uint64(9)),
		InactiveFile: new(uint64(10)),
		MostMemory:   new(uint64(11)), MemoryFailures: new(uint64(12)), OOMKills: new(uint64(13)),
		Disks: []host.Disk{{Device: "/dev/sda", ReadBytes: 14, WriteBytes: 15, Reads: 16, Writes: 17}},
	}}}
	inspect(t, r, ref.UID) // which is told of no limit by this runtime
	r.details.enforce(id, &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 3 << 20})
	facts := measure(t, r)

	wantUsage(t, "node", *facts.Node, backend.Usage{
		StartTime: time.Unix(1000, 0), MemoryAvailable: new(uint64(70)), MemoryUsage: new(uint64(40)),
		MemoryWorkingSet: new(uint64(30)),
		Rootfs: &backend.FilesystemUsage{
			Capacity: new(uint64(1000)), Available: new(uint64(400)), Used: new(uint64(600)),
			Inodes: new(uint64(10)), InodesFree: new(uint64(4)), InodesUsed: new(uint64(6)),
		},
		Network: []backend.InterfaceUsage{{
			Name: "eth0", RxBytes: new(uint64(1)), RxErrors: new(uint64(0)), TxBytes: new(uint64(2)), TxErrors: new(uint64(0)),
			RxPackets: new(uint64(0)), RxDropped: new(uint64(0)), TxPackets: new(uint64(0)), TxDropped: new(uint64(0)),
		}},
		Processes: new(uint64(77)), Detail: &backend.UsageDetail{Cgroup: "/"},
	})
	images := &backend.FilesystemUsage{Capacity: new(uint64(2000)), Available: new(uint64(1500)), Used: new(uint64(500))}
	if diff := cmp.Diff(images, facts.Images); diff != "" {
		t.Errorf("images: %s", diff)
	}
	if len(facts.Pods) != 1 || len(facts.Pods[0].Containers) != 1 {
		t.Fatalf("pods: %+v", facts.Pods)
	}
	p := facts.Pods[0]
	seen := inspect(t, r, ref.UID)
	if diff := cmp.Diff(seen.Ref, p.Ref); diff != "" {
		t.Error(diff)
	}
	wantUsage(t, "pod", p.Usage, backend.Usage{
		StartTime: seen.CreatedAt, CPUCoreNanoSeconds: new(uint64(9000)),
		MemoryUsage: new(uint64(500)), MemoryWorkingSet: new(uint64(400)), MemoryRSS: new(uint64(300)),
		MemoryAvailable: new(uint64(600)),
		PageFaults:      new(uint64(5)), MajorPageFaults: new(uint64(1)), Processes: new(uint64(4)),
		Network: []backend.InterfaceUsage{{
			Name: "eth0", RxBytes: new(uint64(10)), RxErrors: new(uint64(1)), TxBytes: new(uint64(20)), TxErrors: new(uint64(2)),
			RxPackets: new(uint64(3)), RxDropped: new(uint64(4)), TxPackets: new(uint64(5)), TxDropped: new(uint64(6)),
		}},
		Detail: &backend.UsageDetail{Cgroup: "/burstlet/besteffort/podu1"},
		// Layer, logs, files beside them and the volume on disk.
		EphemeralStorage: &backend.FilesystemUsage{
			Capacity: new(uint64(1000)), Available: new(uint64(400)), Used: new(uint64(4096 + 50 + 3 + 6 + 70)),
			Inodes: new(uint64(10)), InodesFree: new(uint64(4)), InodesUsed: new(uint64(1 + 2 + 1 + 1 + 3)),
		},
	})
	volumes := map[string]backend.FilesystemUsage{
		"disk": {Capacity: new(uint64(1000)), Available: new(uint64(400)), Used: new(uint64(70)), InodesUsed: new(uint64(3))},
		"memory": {
			Capacity: new(uint64(64)), Available: new(uint64(60)), Used: new(uint64(4)),
			Inodes: new(uint64(9)), InodesFree: new(uint64(8)), InodesUsed: new(uint64(1)),
		},
	}
	if diff := cmp.Diff(volumes, p.Volumes); diff != "" {
		t.Error(diff)
	}
	c := p.Containers[0]
	if c.Name != "main" || c.Attempt != 0 || c.CPUCoreNanoSeconds == nil {
		t.Errorf("container: %+v", c)
	}
	wantUsage(t, "container", c.Usage, backend.Usage{
		StartTime: seen.Containers[0].StartedAt, CPUCoreNanoSeconds: c.CPUCoreNanoSeconds,
		MemoryWorkingSet: new(uint64(1 << 20)), MemoryAvailable: new(uint64(2 << 20)),
		Rootfs: &backend.FilesystemUsage{
			Capacity: new(uint64(2000)), Available: new(uint64(1500)), Used: new(uint64(4096)), InodesUsed: new(uint64(1)),
		},
		Logs: &backend.FilesystemUsage{
			Capacity: new(uint64(1000)), Available: new(uint64(400)), Used: new(uint64(50)), InodesUsed: new(uint64(2)),
		},
		Pressure: backend.Pressure{
			IO: &backend.Stalls{Some: backend.StallTime{Total: 18, Avg10: .5}, Full: backend.StallTime{Total: 19}},
		},
		Detail: &backend.UsageDetail{
			Cgroup: "/burstlet/besteffort/podu1/" + id, CPUUser: new(uint64(1)), CPUSystem: new(uint64(2)),
			CFS:         &backend.CFSUsage{Periods: 3, ThrottledPeriods: 4, ThrottledTime: 5},
			MemoryCache: new(uint64(6)), MemorySwap: new(uint64(7)), MemoryMappedFile: new(uint64(8)),
			MemoryActiveFile: new(uint64(9)), MemoryInactiveFile: new(uint64(10)),
			MostMemory: new(uint64(11)), MemoryFailures: new(uint64(12)), OOMKills: new(uint64(13)),
			Disks: []backend.DiskUsage{{Device: "/dev/sda", ReadBytes: 14, WriteBytes: 15, Reads: 16, Writes: 17}},
		},
	})

	want := host.UsageRequest{Root: r.cfg.PodsDir, Images: fakecri.ImagesPath, Pods: []host.PodUsageRequest{{
		UID: "u1", Cgroup: host.Cgroup{Parent: "/burstlet/besteffort/podu1"}, NetPID: fakecri.SandboxPID,
		Containers: []string{id},
		LogDir:     r.convert.LogDir(ref), Dir: r.convert.PodDir("u1"),
	}}}
	if diff := cmp.Diff(want, h.last()); diff != "" {
		t.Error(diff)
	}
}

// TestStatsCostIsBounded: one call and one operation, but for what is new.
func TestStatsCostIsBounded(t *testing.T) {
	w, r, h := measuring(t, host.PodUsage{})
	runPod(t, r, testPod("u1"), "a", "b")
	runPod(t, r, testPod("u2"), "c")
	measure(t, r)
	count := func() map[string]int {
		calls := map[string]int{"Usage": len(h.asked)}
		for _, method := range []string{
			"ListContainerStats", "ListContainers", "ListPodSandbox", "ContainerStatus", "PodSandboxStatus", "ImageFsInfo",
		} {
			calls[method] = w.fake.Calls(method)
		}
		return calls
	}
	more := func(before map[string]int) map[string]int {
		out := map[string]int{}
		for method, n := range count() {
			if n -= before[method]; n > 0 {
				out[method] = n
			}
		}
		return out
	}
	before := count()
	for range 3 {
		measure(t, r)
	}
	if diff := cmp.Diff(map[string]int{"ListContainerStats": 3, "Usage": 3}, more(before)); diff != "" {
		t.Errorf("pods that are known: %s", diff)
	}
	must(t, containers{r}.Start(
		t.Context(), backend.Ref{UID: "u2", Namespace: "ns", Name: "name-u2"}, containerSpec(testPod("u2"), "d", 0),
	))
	before = count()
	measure(t, r)
	want := map[string]int{
		"ListContainerStats": 1, "Usage": 1, "ListContainers": 1, "ListPodSandbox": 1, "ContainerStatus": 1,
	}
	if diff := cmp.Diff(want, more(before)); diff != "" {
		t.Errorf("a new container of a known sandbox: %s", diff)
	}
}

func TestWhatHasEndedIsNotMeasured(t *testing.T) {
	w, r, h := measuring(t, host.PodUsage{})
	runPod(t, r, testPod("u1"), "a", "b")
	runPod(t, r, testPod("u2"), "c")
	measure(t, r)
	for _, name := range []string{"a", "c"} {
		id, _ := w.fake.Container(name)
		w.fake.Exit(id, 0, "Completed")
	}
	facts := measure(t, r)
	if len(facts.Pods) != 1 || len(facts.Pods[0].Containers) != 1 || facts.Pods[0].Containers[0].Name != "b" {
		t.Errorf("%+v", facts.Pods)
	}
	if asked := h.last().Pods; len(asked) != 1 || asked[0].UID != "u1" {
		t.Errorf("asked for %+v", asked)
	}
}

func TestPodOnTheHostsNetworkHasNoneOfItsOwn(t *testing.T) {
	_, r, h := measuring(t, host.PodUsage{})
	pod := testPod("u1")
	pod.Spec.HostNetwork = true
	runPod(t, r, pod, "main")
	measure(t, r)
	if got := h.last().Pods[0].NetPID; got != 0 {
		t.Errorf("its network is that of process %d", got)
	}
}

// TestPodWithoutMeasurementHasItsContainers: the sum of them stands for it.
func TestPodWithoutMeasurementHasItsContainers(t *testing.T) {
	_, r, h := measuring(t, host.PodUsage{})
	h.usage = func(host.UsageRequest) (host.Usage, error) { return host.Usage{Now: time.Now()}, nil }
	runPod(t, r, testPod("u1"), "main")
	p := measure(t, r).Pods[0]
	if p.CPUCoreNanoSeconds != nil || p.Network != nil || p.EphemeralStorage != nil || p.Volumes != nil ||
		p.Time.IsZero() || p.StartTime.IsZero() || len(p.Containers) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestAttemptsShareACgroup: what it uses is told once, of the newer one.
func TestAttemptsShareACgroup(t *testing.T) {
	_, r, h := measuring(t, host.PodUsage{CgroupUsage: host.CgroupUsage{WorkingSet: new(uint64(1))}})
	pod := testPod("u1")
	for attempt, name := range []string{"old", "new"} {
		spec := launchSpec(pod, attempt)
		must(t, pods{r}.Launch(t.Context(), t.Context(), spec))
		must(t, containers{r}.Start(t.Context(), spec.Ref(), containerSpec(pod, name, 0)))
	}
	got := measure(t, r).Pods
	if len(got) != 2 || got[0].Attempt != 0 || got[1].Attempt != 1 || got[0].MemoryWorkingSet != nil ||
		got[1].MemoryWorkingSet == nil {
		t.Errorf("%+v", got)
	}
	if asked := h.last().Pods; len(asked) != 1 {
		t.Errorf("asked for %+v", asked)
	}
}

// TestDisksNotYetMeasuredAreUnknown: not zero.
func TestDisksNotYetMeasuredAreUnknown(t *testing.T) {
	_, r, _ := measuring(t, host.PodUsage{CgroupUsage: host.CgroupUsage{WorkingSet: new(uint64(1))}})
	runPod(t, r, testPod("u1"), "main")
	if p := measure(t, r).Pods[0]; p.Volumes != nil || p.EphemeralStorage != nil || p.Containers[0].Logs != nil ||
		p.MemoryWorkingSet == nil {
		t.Errorf("%+v", p)
	}
}

func TestStatsInOurClock(t *testing.T) {
	_, r, h := measuring(t, host.PodUsage{})
	runPod(t, r, testPod("u1"), "main")
	usage := h.usage
	h.mu.Lock()
	h.ahead = time.Hour
	h.usage = func(q host.UsageRequest) (host.Usage, error) {
		u, err := usage(q)
		u.Now = u.Now.Add(time.Hour)
		return u, err
	}
	h.mu.Unlock()
	before := time.Now()
	r.clock.measured(before, before.Add(time.Hour), before)
	facts := measure(t, r)
	for what, at := range map[string]time.Time{"node": facts.Node.Time, "pod": facts.Pods[0].Time} {
		if off := time.Since(at); off.Abs() > time.Minute {
			t.Errorf("%s was measured %v ago", what, off)
		}
	}
	// The fake runtime has our clock: its times are then an hour ago.
	if off := time.Since(facts.Pods[0].Containers[0].Time); (off - time.Hour).Abs() > time.Minute {
		t.Errorf("container was measured %v ago, want its time to be converted", off)
	}
}

func TestStatsErrors(t *testing.T) {
	w, r, h := measuring(t, host.PodUsage{})
	runPod(t, r, testPod("u1"), "main")
	broken := errors.New("broken")
	usage := h.usage
	h.usage = func(host.UsageRequest) (host.Usage, error) { return host.Usage{}, broken }
	if _, err := r.stats.Stats(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error %v, want the host's", err)
	}
	h.usage = usage
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.stats.Stats(ctx)
	wantClass(t, err, backend.ErrUnavailable)
	if len(measure(t, r).Pods) != 1 || w.fake.Calls("ListContainerStats") < 2 {
		t.Error("after an error nothing is measured")
	}
}

// TestRuntimesRateIsTaken where there is one, containerd 1.7 and newer.
func TestRuntimesRateIsTaken(t *testing.T) {
	_, r, _ := measuring(t, host.PodUsage{}, func(s *fakecri.Server) {
		s.Measured = func(c *runtimeapi.ContainerStats) {
			c.Cpu.UsageNanoCores = &runtimeapi.UInt64Value{Value: 12345}
			c.Memory.AvailableBytes = &runtimeapi.UInt64Value{Value: 77}
		}
	})
	runPod(t, r, testPod("u1"), "main")
	c := measure(t, r).Pods[0].Containers[0]
	if c.CPUNanoCores == nil || *c.CPUNanoCores != 12345 || c.MemoryAvailable == nil || *c.MemoryAvailable != 77 {
		t.Errorf("%+v", c)
	}
}
