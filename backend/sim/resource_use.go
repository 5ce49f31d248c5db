package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a container uses that says nothing of it: half of its request, else of
// its limit, else this.
const (
	defaultMilliCPU = 10
	defaultMemory   = 16 << 20
)

// load is what a container asks for from an offset after its start on: CPU in
// thousandths of a core, memory in bytes.
type load struct {
	at               time.Duration
	milliCPU, memory uint64
	// settled is what the container got, whatever its limits are now.
	settled bool
}

// change makes the load another; nil leaves that part as it is.
func (l *load) change(milliCPU, memory *uint64) {
	if milliCPU != nil {
		l.milliCPU = *milliCPU
	}
	if memory != nil {
		l.memory = *memory
	}
}

// Use changes what the program uses from this time on.
func (m *paper) Use(milliCPU, memory *uint64) {
	loads := m.out.loads
	if len(loads) == 0 {
		loads = []load{m.container.defaultLoad()}
	}
	m.out.loads = withLoad(loads, m.out.RunFor, func(l *load) { l.change(milliCPU, memory) })
}

// Use changes what the container uses from now on.
func (l *live) Use(milliCPU, memory *uint64) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	c := l.container
	c.program.loads = withLoad(c.loads(), now.Sub(c.started), func(l *load) { l.change(milliCPU, memory) })
}

// withLoad changes what is used from an offset on. What was to change later
// still does.
func withLoad(loads []load, at time.Duration, change func(*load)) []load {
	i, _ := slices.BinarySearchFunc(loads, at, func(l load, at time.Duration) int {
		if l.at <= at {
			return -1
		}
		return 1
	})
	next := loads[i-1]
	next.at, next.settled = at, false
	change(&next)
	return slices.Insert(slices.Clip(loads), i, next)
}

// loads are in order; the first is from the start.
func (c *container) loads() []load {
	if len(c.program.loads) == 0 {
		return []load{c.defaultLoad()}
	}
	return c.program.loads
}

func (c *container) defaultLoad() load {
	return load{
		milliCPU: uint64(
			c.half(corev1.ResourceCPU, func(q *resource.Quantity) int64 { return q.MilliValue() }, defaultMilliCPU),
		),
		memory: uint64(c.half(corev1.ResourceMemory, (*resource.Quantity).Value, defaultMemory)),
	}
}

// half of what is requested of a resource, of its limit, or the default.
func (c *container) half(name corev1.ResourceName, value func(*resource.Quantity) int64, otherwise int64) int64 {
	r := &c.spec.Container.Resources
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			return max(1, value(&q)/2)
		}
	}
	return otherwise
}

// limited is what the container gets of a load: its limits hold.
func (c *container) limited(l load) load {
	if l.settled {
		return l
	}
	limits := c.spec.Container.Resources.Limits
	if q, ok := limits[corev1.ResourceCPU]; ok && q.Sign() > 0 {
		l.milliCPU = min(l.milliCPU, uint64(q.MilliValue()))
	}
	if q, ok := limits[corev1.ResourceMemory]; ok && q.Sign() > 0 {
		l.memory = min(l.memory, uint64(q.Value()))
	}
	return l
}

// used is what the container uses after so long, and the nanoseconds of a core
// that it used until then.
func (c *container) used(ran time.Duration) (now load, cpu uint64) {
	loads := c.loads()
	for i, l := range loads {
		if i > 0 && l.at > ran {
			break
		}
		now = c.limited(l)
		end := ran
		if i+1 < len(loads) {
			end = min(end, loads[i+1].at)
		}
		cpu += coreNanos(now.milliCPU, end-l.at)
	}
	return now, cpu
}

// coreNanos is the time of a core that a share of it takes in a while, without
// overflow for centuries.
func coreNanos(milliCPU uint64, d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	n := uint64(d)
	return n/1000*milliCPU + n%1000*milliCPU/1000
}
