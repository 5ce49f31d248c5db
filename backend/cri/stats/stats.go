package stats

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Sources are what a measurement is put together from.
type Sources struct {
	Config  criconfig.Config
	Runtime runtimeapi.RuntimeServiceClient
	Host    host.Host
	Convert convert.Converter
	// Ours is a time of the host in our clock; the zero time stays.
	Ours func(time.Time) time.Time
	// Attempts lists this node's pods.
	Attempts func(context.Context) ([]Attempt, error)
	// Status is that of a container that runs, asked once. Nil without an error: it has gone.
	Status func(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
	// MemoryLimit is what the runtime holds a container to, in bytes; 0 where it is not known.
	MemoryLimit func(id string) int64
	// ImageMount is a path on the file system of images. Errors: Unsupported where the
	// runtime does not say.
	ImageMount func(context.Context) (string, error)
	// CgroupDriver is that of the runtime.
	CgroupDriver func(context.Context) (string, error)
}

// Attempt is one attempt of a pod, as the runtime lists it.
type Attempt struct {
	Ref backend.Ref
	// Sandbox is nil when only containers are left; Ready is true while it runs.
	Sandbox    *runtimeapi.PodSandbox
	Ready      bool
	Containers []*runtimeapi.Container
}

// Measurer implements [backend.Stats] and [backend.Signals].
type Measurer struct {
	from     Sources
	measured measurements
}

// New has measured nothing yet.
func New(from Sources) *Measurer { return &Measurer{from: from} }

// fromNanos is a time of CRI's in our clock: the zero time for its "not yet".
func (s *Measurer) fromNanos(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return s.from.Ours(time.Unix(0, ns))
}

// orElse guards against a runtime that does not say when.
func orElse(t, other time.Time) time.Time {
	if t.IsZero() {
		return other
	}
	return t
}

// Stats makes one call for the containers and one host operation for all else,
// and a few more calls for what it sees for the first time.
func (s *Measurer) Stats(ctx context.Context) (backend.StatsFacts, error) {
	reply, err := s.from.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: s.from.Convert.Selector("")},
	})
	if err != nil {
		return backend.StatsFacts{}, transport.Failed(err, "measure containers")
	}
	pods, err := s.running(ctx, reply.GetStats())
	if err != nil {
		return backend.StatsFacts{}, err
	}
	images, err := s.imagesPath(ctx)
	if err != nil {
		return backend.StatsFacts{}, err
	}
	usage, err := s.from.Host.Usage(ctx, s.usageRequest(pods, images))
	if err != nil {
		return backend.StatsFacts{}, fmt.Errorf("measure the host: %w", err)
	}
	s.measured.mu.Lock()
	defer s.measured.mu.Unlock()
	s.measured.rates.begin()
	facts := backend.StatsFacts{Node: s.nodeUsage(&usage)}
	if images != "" {
		facts.Images = new(Filesystem(usage.Images))
	}
	for _, p := range pods {
		facts.Pods = append(facts.Pods, s.podStats(p, &usage))
	}
	s.measured.rates.end()
	return facts, nil
}

// usageRequest asks for each pod once: attempts of one share a cgroup and
// directories, and the network is that of the last.
func (s *Measurer) usageRequest(pods []*measuredPod, images string) host.UsageRequest {
	r := host.UsageRequest{Root: s.from.Config.PodsDir, Images: images}
	for _, p := range pods {
		if !p.last || p.box.cgroup == "" {
			continue
		}
		request := host.PodUsageRequest{
			UID:    string(p.box.ref.UID),
			Cgroup: host.Cgroup{Parent: p.box.cgroup, Systemd: isSlice(p.box.cgroup)},
			NetPID: p.box.netPID, LogDir: s.from.Convert.LogDir(p.box.ref), Dir: s.from.Convert.PodDir(p.box.ref.UID),
		}
		for _, c := range p.containers {
			request.Containers = append(request.Containers, c.stats.GetAttributes().GetId())
		}
		r.Pods = append(r.Pods, request)
	}
	return r
}

func (s *Measurer) nodeUsage(u *host.Usage) *backend.Usage {
	out := s.cgroupUsage("node", u.Now, &u.Node)
	out.StartTime = s.from.Ours(u.Node.StartTime)
	out.Rootfs = new(Filesystem(u.Root))
	out.Network = network(u.Network)
	out.Processes = &u.Processes
	out.Detail = detail("/", &u.Node)
	return &out
}

func (s *Measurer) podStats(p *measuredPod, u *host.Usage) backend.PodStats {
	out := backend.PodStats{Ref: p.box.ref, SandboxImage: p.box.image}
	used, known := u.Pods[string(p.box.ref.UID)]
	known = known && p.last
	if known {
		out.Usage = s.cgroupUsage(
			fmt.Sprintf("pod %s attempt %d", p.box.ref.UID, p.box.ref.Attempt), u.Now, &used.CgroupUsage,
		)
		out.Network = network(used.Network)
		out.Processes = used.PIDs
		out.Detail = detail(used.Path, &used.CgroupUsage)
	}
	out.Time, out.StartTime = s.from.Ours(u.Now), s.fromNanos(p.box.created)
	var layers []host.Filesystem
	for _, c := range p.containers {
		var logs *host.Filesystem
		if l, ok := used.Logs[c.stats.GetAttributes().GetMetadata().GetName()]; ok && known {
			logs = &l
		}
		one := s.containerStats(c, logs, u)
		if of, ok := used.Containers[c.stats.GetAttributes().GetId()]; ok && known {
			one.Detail, one.Pressure = detail(of.Path, &of.CgroupUsage), pressure(of.Pressure)
		}
		layers = append(layers, layerOf(c.stats))
		if out.StartTime.IsZero() || one.StartTime.Before(out.StartTime) {
			out.StartTime = one.StartTime
		}
		out.Containers = append(out.Containers, one)
	}
	if known && !used.MeasuredAt.IsZero() {
		out.Volumes = make(map[string]backend.FilesystemUsage, len(used.Volumes))
		for name, v := range used.Volumes {
			out.Volumes[name] = Filesystem(v)
		}
		ephemeral, disk := used.Ephemeral(layers...), u.Root
		disk.Used, disk.InodesUsed = ephemeral.Used, ephemeral.InodesUsed
		out.EphemeralStorage = new(Filesystem(disk))
	}
	return out
}

// containerStats takes what the runtime reports, and the limit and the log from
// elsewhere.
func (s *Measurer) containerStats(c measuredContainer, logs *host.Filesystem, u *host.Usage) backend.ContainerStats {
	attributes, cpu, memory := c.stats.GetAttributes(), c.stats.GetCpu(), c.stats.GetMemory()
	at := s.fromNanos(max(cpu.GetTimestamp(), memory.GetTimestamp()))
	out := backend.ContainerStats{
		Name: attributes.GetMetadata().GetName(), Attempt: int(attributes.GetMetadata().GetAttempt()),
		Usage: backend.Usage{
			Time:               orElse(at, s.from.Ours(u.Now)),
			StartTime:          orElse(s.fromNanos(c.status.GetStartedAt()), s.fromNanos(c.status.GetCreatedAt())),
			CPUCoreNanoSeconds: value(cpu.GetUsageCoreNanoSeconds()),
			CPUNanoCores:       value(cpu.GetUsageNanoCores()),
			MemoryUsage:        value(memory.GetUsageBytes()),
			MemoryWorkingSet:   value(memory.GetWorkingSetBytes()),
			MemoryRSS:          value(memory.GetRssBytes()),
			PageFaults:         value(memory.GetPageFaults()),
			MajorPageFaults:    value(memory.GetMajorPageFaults()),
		},
	}
	if out.CPUNanoCores == nil {
		out.CPUNanoCores = s.measured.rates.rate(
			"container "+attributes.GetId(), time.Unix(0, cpu.GetTimestamp()), out.CPUCoreNanoSeconds,
		)
	}
	out.MemoryAvailable = s.available(attributes.GetId(), memory)
	if layer := c.stats.GetWritableLayer(); layer != nil {
		f := backend.FilesystemUsage{}
		if u.Images.Capacity > 0 {
			f = Filesystem(u.Images)
		}
		f.Used, f.InodesUsed = value(layer.GetUsedBytes()), value(layer.GetInodesUsed())
		out.Rootfs = &f
	}
	if logs != nil {
		out.Logs = new(Filesystem(*logs))
	}
	return out
}

// available is what the limit leaves. The runtime says 0 also where there is no
// limit.
func (s *Measurer) available(id string, memory *runtimeapi.MemoryUsage) *uint64 {
	limit := s.from.MemoryLimit(id)
	switch set := memory.GetWorkingSetBytes(); {
	case limit > 0 && set != nil:
		return new(uint64(limit) - min(uint64(limit), set.GetValue()))
	case memory.GetAvailableBytes().GetValue() > 0:
		return value(memory.GetAvailableBytes())
	default:
		return nil
	}
}

// cgroupUsage is in our clock; what names the counter of its CPU time.
func (s *Measurer) cgroupUsage(what string, now time.Time, c *host.CgroupUsage) backend.Usage {
	out := backend.Usage{
		Time:         s.from.Ours(now),
		CPUNanoCores: s.measured.rates.rate(what, now, c.CPUNanoseconds), CPUCoreNanoSeconds: c.CPUNanoseconds,
		MemoryUsage: c.Memory, MemoryWorkingSet: c.WorkingSet, MemoryRSS: c.RSS,
		PageFaults: c.PageFaults, MajorPageFaults: c.MajorPageFaults, Pressure: pressure(c.Pressure),
	}
	if c.MemoryLimit != nil && c.WorkingSet != nil {
		out.MemoryAvailable = new(*c.MemoryLimit - min(*c.MemoryLimit, *c.WorkingSet))
	}
	return out
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return new(v.GetValue())
}

// network is nil where there is none of its own.
func network(all []host.Interface) []backend.InterfaceUsage {
	var out []backend.InterfaceUsage
	for _, i := range all {
		out = append(out, backend.InterfaceUsage{
			Name: i.Name, RxBytes: &i.RxBytes, RxErrors: &i.RxErrors, TxBytes: &i.TxBytes, TxErrors: &i.TxErrors,
			RxPackets: &i.RxPackets, RxDropped: &i.RxDropped, TxPackets: &i.TxPackets, TxDropped: &i.TxDropped,
		})
	}
	return out
}

// Filesystem has no inodes where the file system does not count them.
func Filesystem(f host.Filesystem) backend.FilesystemUsage {
	out := backend.FilesystemUsage{Available: &f.Available, Capacity: &f.Capacity, Used: &f.Used}
	if f.Inodes > 0 || f.InodesUsed > 0 {
		out.InodesUsed = &f.InodesUsed
	}
	if f.Inodes > 0 {
		out.Inodes, out.InodesFree = &f.Inodes, &f.InodesFree
	}
	return out
}

// layerOf is what a container has written to its layer, as far as the runtime says.
func layerOf(c *runtimeapi.ContainerStats) host.Filesystem {
	layer := c.GetWritableLayer()
	return host.Filesystem{Used: layer.GetUsedBytes().GetValue(), InodesUsed: layer.GetInodesUsed().GetValue()}
}
