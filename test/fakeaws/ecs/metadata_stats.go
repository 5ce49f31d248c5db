package ecs

import (
	"context"
	"runtime"
	"time"
)

// dockerStats are a container's, in docker's shape (ECS developer guide, "Task
// metadata endpoint version 4": "/stats": Docker API, ContainerStats).
type dockerStats struct {
	Read     time.Time                `json:"read"`
	PreRead  time.Time                `json:"preread"`
	Name     string                   `json:"name"`
	ID       string                   `json:"id"`
	CPU      dockerCPU                `json:"cpu_stats"`
	PreCPU   dockerCPU                `json:"precpu_stats"`
	Memory   dockerMemory             `json:"memory_stats"`
	Networks map[string]dockerNetwork `json:"networks,omitempty"`
	Storage  dockerStorage            `json:"storage_stats"`
}

type dockerCPU struct {
	Usage struct {
		Total uint64 `json:"total_usage"` // nanoseconds
	} `json:"cpu_usage"`
	// System is the time of all cores, nanoseconds.
	System uint64 `json:"system_cpu_usage"`
	Online int    `json:"online_cpus"`
}

type dockerMemory struct {
	Usage uint64            `json:"usage"`
	Limit uint64            `json:"limit"`
	Stats map[string]uint64 `json:"stats"`
}

type dockerNetwork struct {
	RxBytes  uint64 `json:"rx_bytes"`
	RxErrors uint64 `json:"rx_errors"`
	TxBytes  uint64 `json:"tx_bytes"`
	TxErrors uint64 `json:"tx_errors"`
}

type dockerStorage struct {
	// RootBytes stand in the container's own layer. Docker on Linux leaves it out.
	RootBytes uint64 `json:"write_size_bytes"`
}

// stats are those of container i, nil if it does not run.
func (d *driver) stats(ctx context.Context, i int) *dockerStats {
	running, id, name, limit := d.sample(i)
	if running == nil {
		return nil
	}
	u, err := running.Usage(ctx)
	if err != nil { // it has just ended
		return nil
	}
	out := &dockerStats{
		Read: u.At, Name: name, ID: id, Storage: dockerStorage{u.RootBytes},
		Memory: dockerMemory{
			u.MemoryBytes, limit, map[string]uint64{"inactive_file": u.MemoryBytes - min(u.MemoryBytes, u.WorkingSetBytes)},
		},
	}
	out.CPU = cpuOf(u)
	if u.Interface != "" {
		// Fargate names it eth1; what the task sees itself is eth0 here.
		out.Networks = map[string]dockerNetwork{u.Interface: {u.RxBytes, u.RxErrors, u.TxBytes, u.TxErrors}}
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if last := d.parts[i].usage; !last.At.IsZero() {
		out.PreRead, out.PreCPU = last.At, cpuOf(last)
	}
	d.parts[i].usage = u
	return out
}

func cpuOf(u Usage) dockerCPU {
	var c dockerCPU
	c.Usage.Total = uint64(u.CPU)
	c.Online = runtime.NumCPU()
	// All cores together; only differences of it mean something.
	c.System = uint64(u.At.UnixNano()) * uint64(c.Online)
	return c
}

// sample is what is asked for a container's use, and its memory's bound in bytes.
func (d *driver) sample(i int) (running RunningContainer, id, name string, limit uint64) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	p := &d.parts[i]
	_, memory := d.t.size()
	if p.spec.MemoryMiB > 0 {
		memory = p.spec.MemoryMiB
	}
	return p.running, p.spec.ID, p.spec.Name, uint64(memory) << 20
}

// allStats are those of all containers by their ids; null where one does not run.
func (d *driver) allStats(ctx context.Context) map[string]*dockerStats {
	out := map[string]*dockerStats{}
	for i, def := range d.t.def.ContainerDefinitions {
		out[d.t.containerID(*def.Name)] = d.stats(ctx, i)
	}
	return out
}

// storage is how much of its ephemeral storage a task uses, in bytes: its volumes and
// what containers wrote beside them; that of images is not known.
func (d *driver) storage(ctx context.Context) uint64 {
	d.s.mu.Lock()
	run := d.run
	d.s.mu.Unlock()
	if run == nil {
		return 0
	}
	used, err := run.Storage(ctx)
	if err != nil { // the task is being removed
		used = 0
	}
	for i := range d.t.def.ContainerDefinitions {
		if running, _, _, _ := d.sample(i); running != nil {
			if u, err := running.Usage(ctx); err == nil {
				used += u.RootBytes
			}
		}
	}
	return used
}
