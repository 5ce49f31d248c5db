package cost

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// Kinds of capacity, as values of a label.
const (
	capacityOnDemand = "on-demand"
	capacitySpot     = "spot"
)

// Numbers of what is billed ("AWS Fargate Pricing": per second from the start of
// the pull to the stop of the task, with a minimum of a minute).
const (
	minBilled = time.Minute
	// costMemory is how long a task that is not seen any more counts on.
	costMemory = 15 * time.Minute
	// attributeArch is the attribute of a task that names its architecture.
	attributeArch = "ecs.cpu-architecture"
	// attachmentEBS is the type of a volume (ECS API, Attachment).
	attachmentEBS = "AmazonElasticBlockStorage"
)

// Meter counts what tasks cost. Each task is counted from the start of this
// process, so that the sums over processes are right.
type Meter struct {
	rates fargate.Rates
	born  time.Time

	mu    sync.Mutex
	tasks map[string]*metered
	// billed are the sums, by capacity.
	billed map[string]*backend.CostFacts
}

// metered is a task that is billed.
type metered struct {
	capacity        string
	vcpu, gb, price float64 // price is dollars an hour
	start, until    time.Time
	seen            time.Time
}

// New makes a Meter that begins now.
func New(rates fargate.Rates) *Meter {
	return &Meter{rates: rates, born: time.Now(), tasks: map[string]*metered{}, billed: map[string]*backend.CostFacts{
		capacityOnDemand: {Capacity: capacityOnDemand}, capacitySpot: {Capacity: capacitySpot},
	}}
}

// Observe counts a task as ECS showed it, whose times local makes this machine's.
func (m *Meter) Observe(t types.Task, local func(*time.Time) time.Time, now time.Time) {
	arn := aws.ToString(t.TaskArn)
	start, stop := local(t.PullStartedAt), local(t.StoppedAt)
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.tasks[arn]
	if known == nil {
		if start.IsZero() || !stop.IsZero() && !stop.After(m.born) {
			return // nothing is billed yet, or all of it was before
		}
		known = m.meteredOf(t)
		known.start = start
		if known.until = start; start.Before(m.born) {
			known.until = m.born
		}
		m.tasks[arn] = known
	}
	known.seen = now
	if stop.IsZero() {
		return
	}
	if least := known.start.Add(minBilled); stop.Before(least) {
		stop = least
	}
	m.bill(known, stop)
	delete(m.tasks, arn)
}

// bill adds what a task used up to a time.
func (m *Meter) bill(t *metered, until time.Time) {
	hours := until.Sub(t.until).Hours()
	if hours <= 0 {
		return
	}
	t.until = until
	u := m.billed[t.capacity]
	u.VCPUHours += hours * t.vcpu
	u.GBHours += hours * t.gb
	u.Dollars += hours * t.price
}

func (m *Meter) meteredOf(t types.Task) *metered {
	size := fargate.Size{CPU: number(t.Cpu), MemoryMiB: number(t.Memory)}
	arch := fargate.X86
	for _, a := range t.Attributes {
		if aws.ToString(a.Name) == attributeArch && aws.ToString(a.Value) == "arm64" {
			arch = fargate.ARM
		}
	}
	storage := int32(0)
	if t.EphemeralStorage != nil {
		storage = t.EphemeralStorage.SizeInGiB
	}
	out := &metered{
		capacity: capacityOnDemand, vcpu: float64(size.CPU) / 1024, gb: float64(size.MemoryMiB) / 1024,
		price: m.rates.PerHour(size, arch, storage),
	}
	if aws.ToString(t.CapacityProviderName) == "FARGATE_SPOT" {
		out.capacity = capacitySpot
		out.price *= m.rates.SpotFactor
	}
	if slices.ContainsFunc(t.Attachments, func(a types.Attachment) bool { return aws.ToString(a.Type) == attachmentEBS }) {
		if id, err := identity.Read(t); err == nil { // a foreign task's volume has no size here
			out.price += m.rates.DiskPerHour(id.Disk)
		}
	}
	return out
}

// number reads what ECS writes as a string; what is none is 0.
func number(s *string) int64 {
	n, err := strconv.ParseInt(aws.ToString(s), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Facts are what tasks use now, and what was billed until now.
func (m *Meter) Facts(now time.Time) []backend.CostFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := map[string]backend.CostFacts{}
	for arn, t := range m.tasks {
		if now.Sub(t.seen) >= costMemory {
			m.bill(t, t.seen)
			delete(m.tasks, arn)
			continue
		}
		m.bill(t, now)
		u := live[t.capacity]
		u.Live++
		u.DollarsPerHour += t.price
		live[t.capacity] = u
	}
	out := make([]backend.CostFacts, 0, len(m.billed))
	for _, capacity := range []string{capacityOnDemand, capacitySpot} {
		u := *m.billed[capacity]
		u.Live, u.DollarsPerHour, u.Prices = live[capacity].Live, live[capacity].DollarsPerHour, m.rates.Of
		out = append(out, u)
	}
	return out
}

// Annotation is the Node's with what its tasks cost an hour.
const Annotation = "ecs.burstlet.dev/cost-per-hour"

// Annotations are the Node's. The sum is rounded, so that it does not change with
// every small pod of many.
func (m *Meter) Annotations(now time.Time) map[string]string {
	sum := 0.0
	for _, u := range m.Facts(now) {
		sum += u.DollarsPerHour
	}
	return map[string]string{Annotation: "USD " + strconv.FormatFloat(rounded(sum), 'f', -1, 64)}
}

// rounded has two significant digits, and whole cents at least.
func rounded(dollars float64) float64 {
	step := 0.01
	for dollars/step >= 100 {
		step *= 10
	}
	return math.Round(math.Round(dollars/step)*step*100) / 100
}
