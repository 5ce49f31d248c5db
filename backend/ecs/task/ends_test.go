package task

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

func TestWhenALogIsReadForAReport(t *testing.T) {
	const s = time.Second
	all := []time.Duration{2 * s, 4 * s, 6 * s, 8 * s, 10 * s, 14 * s, 18 * s, 20 * s}
	for name, tc := range map[string]struct {
		supervised, watched bool
		seen, took          time.Duration // after the end; how long each reading takes
		want                []time.Duration
	}{
		"every 2 s, then every 4": {true, true, 0, 0, all},
		"seen a while later": {
			true, true, 3 * s, 0, []time.Duration{5 * s, 7 * s, 9 * s, 11 * s, 13 * s, 17 * s, 20 * s},
		},
		"seen just before the last": {true, true, 19 * s, 0, []time.Duration{19 * s, 20 * s}},
		"an old one: once":          {true, true, time.Hour, 0, []time.Duration{time.Hour}},
		"by a new process: at once": {true, false, 0, 0, append([]time.Duration{0}, all...)},
		"slow readings leave some out": {
			true, true, 0, 3 * s, []time.Duration{2 * s, 6 * s, 10 * s, 14 * s, 18 * s},
		},
		"without a supervisor: once it must show": {false, true, 0, 0, []time.Duration{LogLag}},
	} {
		t.Run(name, func(t *testing.T) {
			end := time.Unix(1000, 0)
			id := identity.Container{Name: "a", Supervised: tc.supervised, Fallback: true}
			o := newLogRead(
				"arn", id, backend.ContainerFacts{Name: "a", FinishedAt: end, ExitCode: 1}, end.Add(tc.seen), tc.watched,
			)
			var got []time.Duration
			for more := true; more && len(got) < 20; {
				got = append(got, o.due.Sub(end))
				o, more = o.Again(o.due.Add(tc.took))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestReadingsAreInTheOrderTheyAreDue(t *testing.T) {
	m := NewKnown(Config{Settle: time.Minute})
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	for i, due := range []int{5, 1, 3, 1, 5, 2} {
		arn := fmt.Sprint(i)
		m.tasks[arn] = &entry{}
		m.enqueue(LogRead{ARN: arn, due: at(due)})
	}
	delete(m.tasks, "5")
	var got []string
	for {
		o, due, until := m.NextLogRead(at(4))
		if !due {
			if !until.Equal(at(5)) {
				t.Errorf("the next is due at %v", until)
			}
			break
		}
		got = append(got, o.ARN)
	}
	if !slices.Equal(got, []string{"1", "3", "2"}) {
		t.Errorf("%v", got)
	}
}

func TestWhatIsShownOfAnEndThatIsHeldBack(t *testing.T) {
	now, yes := time.Unix(1000, 0), true
	ended := backend.ContainerFacts{
		Name: "a", StartedAt: now.Add(-time.Minute), FinishedAt: now, ExitCode: 137, OOM: true,
		Reason: "OOMKilled", Message: "why", Killed: "probe", HookFailed: "PreStop",
	}
	running := backend.ContainerFacts{Name: "a", StartedAt: ended.StartedAt, Healthy: &yes}
	for name, tc := range map[string]struct {
		at              time.Duration
		dead, dismissed bool
		want            backend.ContainerFacts
	}{
		"it runs as before":                  {want: running},
		"until just before the bound":        {at: endHold - 1, want: running},
		"and then it has ended":              {at: endHold, want: ended},
		"in a task that has stopped it ends": {dead: true, want: ended},
		"nor is it where nobody waits":       {dismissed: true, want: ended},
	} {
		t.Run(name, func(t *testing.T) {
			e := &entry{
				facts:     backend.PodFacts{Live: !tc.dead, Containers: []backend.ContainerFacts{ended}},
				id:        identity.Task{Containers: []identity.Container{{Name: "a"}}},
				dismissed: tc.dismissed,
			}
			e.holdEnd("a", &yes, now)
			if got := e.shown(now.Add(tc.at)); got.Containers[0] != tc.want || got.Live == tc.dead {
				t.Errorf("%+v", got)
			}
			if got := e.copied(); got.Containers[0] != ended {
				t.Errorf("what is known is another: %+v", got)
			}
		})
	}
}

// What waited for an init container's end cannot run before that end is shown.
func TestAnEndThatAnotherContainerWaitedForIsShown(t *testing.T) {
	now := time.Unix(1000, 0)
	ended := backend.ContainerFacts{Name: "a", StartedAt: now.Add(-time.Minute), FinishedAt: now}
	for name, tc := range map[string]struct {
		init, sidecar bool
		next          time.Time
		shown         bool
	}{
		"the next has not started":              {init: true},
		"the next has started":                  {init: true, next: now, shown: true},
		"a sidecar, for whose end no one waits": {init: true, sidecar: true, next: now},
		"an app container beside another one":   {next: now},
	} {
		t.Run(name, func(t *testing.T) {
			e := &entry{
				facts: backend.PodFacts{Live: true, Containers: []backend.ContainerFacts{ended, {Name: "b", StartedAt: tc.next}}},
				id: identity.Task{Containers: []identity.Container{
					{Name: "a", Init: tc.init, Sidecar: tc.sidecar}, {Name: "b"},
				}},
			}
			e.holdEnd("a", nil, now)
			if got := e.shown(now.Add(time.Second)); got.Containers[0].FinishedAt.IsZero() == tc.shown {
				t.Errorf("%+v", got)
			}
		})
	}
}
