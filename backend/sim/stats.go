package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// What the simulated host itself uses, and what each pod receives and sends.
const (
	hostMilliCPU    = 50
	hostMemory      = 256 << 20
	hostDisk        = 1 << 30
	hostProcesses   = 60
	rxBytesPerMilli = 2
	txBytesPerMilli = 1
	pageSize        = 4096
)

// statsView lends backend.Stats.
type statsView struct{ *view }

// Stats works out what each running container uses by now: what its command line
// says ("use cpu=250m memory=64Mi"), or a share of its requests. In the pod unit
// there is no host to measure: each attempt has its own.
func (v statsView) Stats(ctx context.Context) (backend.StatsFacts, error) {
	const op = "measure pods"
	if err := v.request(ctx, op); err != nil {
		return backend.StatsFacts{}, err
	}
	facts := v.measure()
	if err := v.reply(ctx, op); err != nil {
		return backend.StatsFacts{}, err
	}
	return facts, nil
}

func (v statsView) measure() backend.StatsFacts {
	now := v.lock()
	defer v.mu.Unlock()
	host := total{
		cpu: v.spent[v.node], memory: hostMemory, disk: hostDisk, processes: hostProcesses, milliCPU: hostMilliCPU,
	}
	host.cpu += coreNanos(hostMilliCPU, now.Sub(v.began))
	var facts backend.StatsFacts
	for _, a := range v.order {
		if a == nil || a.node != v.node {
			continue
		}
		host.cpu += a.spent(now)
		if p, sum := a.stats(v.volumesOf(a), now); len(p.Containers) > 0 {
			facts.Pods = append(facts.Pods, p)
			host.milliCPU += sum.milliCPU
			host.memory += sum.memory
			host.disk += sum.disk
			host.processes += sum.processes
		}
	}
	if !v.cfg.PodUnit {
		facts.Node = v.hostUsage(host, now)
		facts.Images = new(v.imageDisk())
		shareDisk(facts.Pods, facts.Node.Rootfs)
	}
	return facts
}

// total is what several containers use.
type total struct {
	milliCPU, cpu, memory, disk, processes uint64
}

func (v statsView) hostUsage(sum total, now time.Time) *backend.Usage {
	since := now.Sub(v.began)
	u := sum.usage(v.began, now)
	u.MemoryAvailable = left(v.cfg.Capacity, corev1.ResourceMemory, sum.memory)
	u.Rootfs = &backend.FilesystemUsage{
		Capacity:  left(v.cfg.Capacity, corev1.ResourceEphemeralStorage, 0),
		Available: left(v.cfg.Capacity, corev1.ResourceEphemeralStorage, sum.disk),
		Used:      new(sum.disk),
	}
	u.Network = traffic(since)
	u.Processes = new(sum.processes)
	return &u
}

// usage of CPU and memory: an eighth more than the working set is cached files,
// and an eighth of it is not the processes' own.
func (t total) usage(began, now time.Time) backend.Usage {
	return backend.Usage{
		Time: now.Round(0), StartTime: shown(began, now),
		CPUNanoCores: new(t.milliCPU * 1e6), CPUCoreNanoSeconds: new(t.cpu),
		MemoryUsage: new(t.memory + t.memory/8), MemoryWorkingSet: new(t.memory), MemoryRSS: new(t.memory - t.memory/8),
		Detail: &backend.UsageDetail{MemoryCache: new(t.memory / 8), MemorySwap: new(uint64(0))},
	}
}

// stats is what an attempt's running containers and its volumes use; none if no
// container runs.
func (a *attempt) stats(volumes map[string]*filesystem.Volume, now time.Time) (backend.PodStats, total) {
	p := backend.PodStats{Ref: a.ref}
	var sum total
	for _, c := range a.containers {
		if !c.runs(a, now) {
			continue
		}
		s, one := c.stats(now)
		p.Containers = append(p.Containers, s)
		sum.milliCPU += one.milliCPU
		sum.memory += one.memory
		sum.disk += one.disk
		sum.processes++
	}
	if len(p.Containers) == 0 {
		return p, sum
	}
	var local uint64
	p.Volumes, local = volumeStats(volumes, now)
	sum.disk += local
	sum.cpu = a.spent(now)
	p.Usage = sum.usage(a.ready, now)
	p.EphemeralStorage = &backend.FilesystemUsage{Used: new(sum.disk)}
	p.Processes = new(sum.processes)
	if a.release != "" || a.hostIPs != nil { // its own network
		p.Network = traffic(now.Sub(a.ready))
	}
	return p, sum
}

func (c *container) stats(now time.Time) (backend.ContainerStats, total) {
	ran := now.Sub(c.started)
	l, cpu := c.used(ran)
	logs, layer := c.logged(ran), c.layer(now)
	sum := total{milliCPU: l.milliCPU, cpu: cpu, memory: l.memory, disk: logs + layer, processes: 1}
	u := sum.usage(c.started, now)
	u.MemoryAvailable = left(c.spec.Container.Resources.Limits, corev1.ResourceMemory, l.memory)
	u.PageFaults, u.MajorPageFaults = new(c.peak(ran)/pageSize), new(uint64(0))
	u.Logs = &backend.FilesystemUsage{Used: &logs}
	u.Rootfs = &backend.FilesystemUsage{Used: &layer}
	return backend.ContainerStats{Name: c.name, Attempt: c.attempt, Usage: u}, sum
}

// peak is the most memory that the container ever used until then.
func (c *container) peak(ran time.Duration) uint64 {
	var most uint64
	for i, l := range c.loads() {
		if i == 0 || l.at <= ran {
			most = max(most, c.limited(l).memory)
		}
	}
	return most
}

// spent is the CPU time of all containers that the attempt ever had.
func (a *attempt) spent(now time.Time) uint64 {
	sum := a.burnt
	for _, c := range a.containers {
		sum += c.spent(a, now)
	}
	return sum
}

func (c *container) spent(a *attempt, now time.Time) uint64 {
	if !reached(c.started, now) {
		return 0
	}
	end := earliest(earliest(now, c.finished), a.gone)
	_, cpu := c.used(end.Sub(c.started))
	return cpu
}

// logged is the size of what it wrote to its log.
func (c *container) logged(ran time.Duration) uint64 {
	var n int
	for _, l := range c.program.lines {
		if l.at <= ran {
			n += len(l.text) + 1
		}
	}
	return uint64(n)
}

// layer is the size of the files that it wrote outside its volumes.
func (c *container) layer(now time.Time) uint64 {
	files := map[string][]byte{}
	for _, w := range c.program.writes {
		if w.Volume != nil || !w.Happened(c, now) {
			continue
		}
		old, there := files[w.Path]
		files[w.Path], _ = w.Apply(old, there)
	}
	var n int
	for _, data := range files {
		n += len(data)
	}
	return uint64(n)
}

// traffic is that of one interface after so long.
func traffic(d time.Duration) []backend.InterfaceUsage {
	ms := uint64(max(0, d.Milliseconds()))
	return []backend.InterfaceUsage{{
		Name: "eth0", RxBytes: new(ms * rxBytesPerMilli), TxBytes: new(ms * txBytesPerMilli),
		RxErrors: new(uint64(0)), TxErrors: new(uint64(0)),
	}}
}

// left of what a list has of a resource; nil where it has none.
func left(list corev1.ResourceList, name corev1.ResourceName, used uint64) *uint64 {
	q, ok := list[name]
	if !ok || q.Sign() <= 0 {
		return nil
	}
	return new(uint64(q.Value()) - min(used, uint64(q.Value())))
}
