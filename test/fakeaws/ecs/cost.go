package ecs

import "time"

// Cost is what tasks cost, by the prices of us-east-1 (AWS Fargate pricing,
// 2026-11-20).
type Cost struct {
	Dollars   float64 `json:"dollars"`
	VCPUHours float64 `json:"vcpuHours"`
	GBHours   float64 `json:"gbHours"`
	// PerHour is what the tasks that are billed now cost in an hour.
	PerHour float64 `json:"perHour"`
}

func (c *Cost) add(o Cost) {
	c.Dollars += o.Dollars
	c.VCPUHours += o.VCPUHours
	c.GBHours += o.GBHours
	c.PerHour += o.PerHour
}

// Prices an hour. That of Spot changes: "up to 70% off".
const (
	vcpuX86, gbX86 = 0.04048, 0.004445
	vcpuARM, gbARM = 0.03238, 0.00356
	storageGB      = 0.000111
	spotFactor     = 0.3
	// minimumBilled: per second, with a minimum of a minute.
	minimumBilled = time.Minute
)

// costOf is what a task has cost, from the start of the pull until it stopped.
func (s *Server) costOf(t *task, now time.Time) Cost {
	until := min(now.Sub(t.created), t.life.stopped)
	if until < t.life.attached || t.life.stopping < t.life.attached {
		return Cost{}
	}
	cpu, memory := t.size()
	vcpu, gb := float64(cpu)/1024, float64(memory)/1024
	perHour := vcpu*vcpuX86 + gb*gbX86
	if rp := t.def.RuntimePlatform; rp != nil && value(rp.CPUArchitecture) == "ARM64" {
		perHour = vcpu*vcpuARM + gb*gbARM
	}
	if t.place.provider == spot {
		perHour *= spotFactor
	}
	perHour += float64(max(0, t.storage()-standardStorage))*storageGB + t.volumePerHour()
	hours := max(until-t.life.attached, minimumBilled).Hours()
	c := Cost{Dollars: perHour * hours, VCPUHours: vcpu * hours, GBHours: gb * hours}
	if now.Sub(t.created) < t.life.stopped {
		c.PerHour = perHour
	}
	return c
}

// Cost is what all tasks so far have cost.
func (s *Server) Cost() Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cost(time.Now())
}

func (s *Server) cost(now time.Time) Cost {
	out := s.past
	for _, arn := range s.order {
		out.add(s.costOf(s.tasks[arn], now))
	}
	return out
}
