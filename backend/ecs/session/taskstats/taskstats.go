package taskstats

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// metadataTask is what is needed of the metadata endpoint's answer of /task (ECS
// developer guide, "Task metadata endpoint version 4").
type metadataTask struct {
	Containers []struct {
		DockerID  string `json:"DockerId"`
		Name      string
		StartedAt time.Time
	}
}

// dockerStats is a container's of /task/stats (Docker Engine API, ContainerStats).
type dockerStats struct {
	Read    time.Time `json:"read"`
	PreRead time.Time `json:"preread"`
	CPU     dockerCPU `json:"cpu_stats"`
	PreCPU  dockerCPU `json:"precpu_stats"`
	Memory  struct {
		Usage *uint64           `json:"usage"`
		Limit uint64            `json:"limit"`
		Most  *uint64           `json:"max_usage"`
		Fails *uint64           `json:"failcnt"`
		Stats map[string]uint64 `json:"stats"`
	} `json:"memory_stats"`
	Pids struct {
		Current *uint64 `json:"current"`
	} `json:"pids_stats"`
	Blkio struct {
		Bytes      []dockerBlkio `json:"io_service_bytes_recursive"`
		Operations []dockerBlkio `json:"io_serviced_recursive"`
	} `json:"blkio_stats"`
	Networks map[string]struct {
		RxBytes   uint64  `json:"rx_bytes"`
		RxErrors  uint64  `json:"rx_errors"`
		RxPackets *uint64 `json:"rx_packets"`
		RxDropped *uint64 `json:"rx_dropped"`
		TxBytes   uint64  `json:"tx_bytes"`
		TxErrors  uint64  `json:"tx_errors"`
		TxPackets *uint64 `json:"tx_packets"`
		TxDropped *uint64 `json:"tx_dropped"`
	} `json:"networks"`
}

type dockerCPU struct {
	Usage struct {
		Total  uint64  `json:"total_usage"`
		User   *uint64 `json:"usage_in_usermode"`
		Kernel *uint64 `json:"usage_in_kernelmode"`
	} `json:"cpu_usage"`
	Throttling *struct {
		Periods   uint64 `json:"periods"`
		Throttled uint64 `json:"throttled_periods"`
		Time      uint64 `json:"throttled_time"`
	} `json:"throttling_data"`
}

type dockerBlkio struct {
	Major uint64 `json:"major"`
	Minor uint64 `json:"minor"`
	Op    string `json:"op"`
	Value uint64 `json:"value"`
}

// unlimited is a limit that is none: more memory than a machine has.
const unlimited = 1 << 60

// Decode reads what a task says of its containers that run, which f names; local turns
// a time of the task's clock into one of this machine's. It is an error if the task
// says nothing of any of them.
func Decode(said intask.TaskStats, f backend.PodFacts, local func(*time.Time) time.Time) (backend.PodStats, error) {
	var task metadataTask
	if err := json.Unmarshal(said.Task, &task); err != nil {
		return backend.PodStats{}, fmt.Errorf("decode the task's metadata: %w", err)
	}
	var stats map[string]*dockerStats
	if err := json.Unmarshal(said.Stats, &stats); err != nil {
		return backend.PodStats{}, fmt.Errorf("decode the task's statistics: %w", err)
	}
	out := backend.PodStats{Ref: f.Ref}
	var processes uint64
	for _, c := range task.Containers {
		s := stats[c.DockerID]
		if s == nil {
			continue
		}
		if s.Pids.Current != nil {
			processes += *s.Pids.Current
		}
		// All containers of a task have the same interfaces.
		if len(out.Network) == 0 {
			out.Network = s.interfaces()
		}
		for _, facts := range f.Containers {
			if facts.Name != c.Name || facts.State() != backend.Running {
				continue
			}
			usage := s.usage(local)
			if usage.StartTime = local(&c.StartedAt); usage.StartTime.IsZero() {
				usage.StartTime = facts.StartedAt
			}
			out.Containers = append(out.Containers,
				backend.ContainerStats{Name: c.Name, Attempt: facts.Attempt, Usage: usage})
			out.Time = later(out.Time, usage.Time)
			out.StartTime = earlier(out.StartTime, usage.StartTime)
		}
	}
	if len(out.Containers) == 0 {
		return out, fmt.Errorf("the task's statistics have none of a container that runs")
	}
	if processes > 0 {
		out.Processes = &processes
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlier ignores a zero a.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// usage is a container's.
func (s *dockerStats) usage(local func(*time.Time) time.Time) backend.Usage {
	u := backend.Usage{Time: local(&s.Read), CPUCoreNanoSeconds: &s.CPU.Usage.Total, Detail: s.detail()}
	if since := s.Read.Sub(s.PreRead); !s.PreRead.IsZero() && since > 0 && s.CPU.Usage.Total >= s.PreCPU.Usage.Total {
		u.CPUNanoCores = new(uint64(float64(s.CPU.Usage.Total-s.PreCPU.Usage.Total) / since.Seconds()))
	}
	if s.Memory.Usage == nil {
		return u
	}
	used := *s.Memory.Usage
	// What the kubelet calls the working set: without what can be dropped at once.
	set := used - min(used, s.first("total_inactive_file", "inactive_file"))
	u.MemoryUsage, u.MemoryWorkingSet = &used, &set
	if limit := s.Memory.Limit; limit > 0 && limit < unlimited {
		u.MemoryAvailable = new(limit - min(limit, set))
	}
	u.MemoryRSS = s.counter("total_rss", "anon")
	u.PageFaults, u.MajorPageFaults = s.counter("total_pgfault", "pgfault"), s.counter("total_pgmajfault", "pgmajfault")
	return u
}

// counter is one of memory's, under its name in cgroups v1 or v2.
func (s *dockerStats) counter(names ...string) *uint64 {
	for _, name := range names {
		if n, ok := s.Memory.Stats[name]; ok {
			return &n
		}
	}
	return nil
}

func (s *dockerStats) first(names ...string) uint64 {
	if n := s.counter(names...); n != nil {
		return *n
	}
	return 0
}

// interfaces are by name: a task has one beside the loopback.
func (s *dockerStats) interfaces() []backend.InterfaceUsage {
	var out []backend.InterfaceUsage
	for _, name := range slices.Sorted(maps.Keys(s.Networks)) {
		n := s.Networks[name]
		out = append(out, backend.InterfaceUsage{
			Name: name, RxBytes: &n.RxBytes, RxErrors: &n.RxErrors, TxBytes: &n.TxBytes, TxErrors: &n.TxErrors,
			RxPackets: n.RxPackets, RxDropped: n.RxDropped, TxPackets: n.TxPackets, TxDropped: n.TxDropped,
		})
	}
	return out
}
