package cost

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// testRates make sums easy to follow.
var testRates = fargate.Rates{VCPU: 1, GB: 0.1, ARMVCPU: 0.5, ARMGB: 0.05, StorageGB: 0.01, SpotFactor: 0.25}

func billedTask(arn string, start, stop time.Time, change ...func(*types.Task)) types.Task {
	t := types.Task{TaskArn: &arn, Cpu: aws.String("2048"), Memory: aws.String("4096")}
	if !start.IsZero() {
		t.PullStartedAt = &start
	}
	if !stop.IsZero() {
		t.StoppedAt = &stop
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

func onSpot(t *types.Task) { t.CapacityProviderName = aws.String("FARGATE_SPOT") }

func onARM(t *types.Task) {
	t.Attributes = []types.Attribute{{Name: aws.String("ecs.cpu-architecture"), Value: aws.String("arm64")}}
}

func sumOf(us []backend.CostFacts, capacity string) string {
	for _, u := range us {
		if u.Capacity == capacity {
			r := func(f float64) float64 { return math.Round(f*1e6) / 1e6 }
			return fmt.Sprintf(
				"%d live %v/h; %v vCPU-h %v GB-h %v", u.Live, r(u.DollarsPerHour), r(u.VCPUHours), r(u.GBHours), r(u.Dollars),
			)
		}
	}
	return "none"
}

func TestCostsAreOfWhatWasBilledHere(t *testing.T) {
	born := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return born.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		tasks []types.Task
		now   time.Time
		spot  bool
		want  string
	}{
		"live from the pull on": {
			[]types.Task{billedTask("a", at(30), time.Time{})}, at(60), false, "1 live 2.4/h; 1 vCPU-h 2 GB-h 1.2",
		},
		"not pulling yet": {
			[]types.Task{billedTask("a", time.Time{}, time.Time{})}, at(60), false, "0 live 0/h; 0 vCPU-h 0 GB-h 0",
		},
		"stopped": {
			[]types.Task{billedTask("a", at(0), time.Time{}), billedTask("a", at(0), at(30))},
			at(60), false,
			"0 live 0/h; 1 vCPU-h 2 GB-h 1.2",
		},
		"stopped and seen again": {
			[]types.Task{billedTask("a", at(-60), at(-30)), billedTask("a", at(-60), at(-30))},
			at(60), false,
			"0 live 0/h; 0 vCPU-h 0 GB-h 0",
		},
		"a minute at least": {
			[]types.Task{billedTask("a", at(1), at(1))}, at(60), false, "0 live 0/h; 0.033333 vCPU-h 0.066667 GB-h 0.04",
		},
		"what a process before counted does not": {
			[]types.Task{billedTask("a", at(-600), at(30))}, at(60), false, "0 live 0/h; 1 vCPU-h 2 GB-h 1.2",
		},
		"Spot": {
			[]types.Task{billedTask("a", at(0), time.Time{}, onSpot)}, at(60), true, "1 live 0.6/h; 2 vCPU-h 4 GB-h 0.6",
		},
		"ARM": {[]types.Task{billedTask("a", at(0), time.Time{}, onARM)}, at(60), false, "1 live 1.2/h; 2 vCPU-h 4 GB-h 1.2"},
		"storage beyond what is free": {[]types.Task{billedTask("a", at(0), time.Time{}, func(t *types.Task) {
			t.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: 30}
		})}, at(60), false, "1 live 2.5/h; 2 vCPU-h 4 GB-h 2.5"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(testRates)
			m.born = born
			for _, task := range c.tasks {
				m.Observe(task, here, c.now)
			}
			m.Facts(c.now.Add(-time.Second)) // asking changes nothing
			capacity := capacityOnDemand
			if c.spot {
				capacity = capacitySpot
			}
			if got := sumOf(m.Facts(c.now), capacity); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestATaskThatIsNotSeenAnyMoreStopsCosting(t *testing.T) {
	m := New(testRates)
	start := m.born
	m.Observe(billedTask("a", start, time.Time{}), here, start.Add(time.Minute))
	if got := sumOf(
		m.Facts(start.Add(10*time.Minute)), capacityOnDemand,
	); got != "1 live 2.4/h; 0.333333 vCPU-h 0.666667 GB-h 0.4" {
		t.Error(got)
	}
	if got := sumOf(
		m.Facts(start.Add(time.Hour)), capacityOnDemand,
	); got != "0 live 0/h; 0.333333 vCPU-h 0.666667 GB-h 0.4" {
		t.Error(got)
	}
}

// Costs say whose prices they are by.
func TestCostsSayWhosePricesTheyAreBy(t *testing.T) {
	for want, rates := range map[string]fargate.Rates{
		"us-east-1":    fargate.Rates{}.OrPublished("us-east-1"),
		"eu-central-1": fargate.Rates{}.OrPublished("eu-central-1"),
		"":             testRates.OrPublished("eu-central-1"),
	} {
		for _, c := range New(rates).Facts(time.Now()) {
			if c.Prices != want {
				t.Errorf("%+v, want prices of %q", c, want)
			}
		}
	}
}

func TestTheAnnotationChangesSeldom(t *testing.T) {
	for dollars, want := range map[float64]float64{
		0: 0, 0.004: 0, 0.0494: 0.05, 0.994: 0.99, 1.234: 1.2, 12.34: 12, 123.4: 120, 1234: 1200,
	} {
		if got := rounded(dollars); got != want {
			t.Errorf("%v becomes %v, want %v", dollars, got, want)
		}
	}
	m := New(testRates)
	now := m.born.Add(time.Minute)
	m.Observe(billedTask("a", m.born, time.Time{}), here, now)
	if got := m.Annotations(now)[Annotation]; got != "USD 2.4" {
		t.Errorf("%q", got)
	}
}

// here is for times that are this machine's.
func here(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func TestAForeignVolumeCostsNothingHere(t *testing.T) {
	m := New(fargate.PublishedRates(fargate.PricesRegion))
	task := types.Task{
		Cpu: aws.String("256"), Memory: aws.String("512"), Attachments: []types.Attachment{{Type: aws.String(attachmentEBS)}},
	}
	bare := task
	bare.Attachments = nil
	if got, want := m.meteredOf(task).price, m.meteredOf(bare).price; got != want {
		t.Error(fmt.Sprint(got, " instead of ", want))
	}
}
