package task

import (
	"time"

	"github.com/burstlet/burstlet/backend"
)

// graceSlack is how far the end of containers may be from when it is asked for before
// anybody is troubled: what is left of a grace shrinks on its way here, and a session takes
// seconds to open.
const graceSlack = 5 * time.Second

// End is how a task would end that is asked to.
type End struct {
	// By is when its containers are killed at the latest; zero where that is not known.
	By time.Time
	// Stopping is true once ECS was asked to stop it, NoExec where ECS Exec is turned off:
	// then nothing in it can be reached.
	Stopping, NoExec bool
	// Running are its containers that run.
	Running []string
	// Late is true where they would be killed later than they should, Early where sooner.
	Late, Early bool
}

// End compares when the containers of a task would be killed, if it was stopped now, with
// when they should be. Where none runs there is nothing to compare.
func (m *Known) End(arn string, by, now time.Time) End {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	if e == nil {
		return End{}
	}
	end := End{By: e.endsBy, NoExec: e.id.NoExec, Stopping: e.stopping}
	for _, c := range e.facts.Containers {
		if c.State() == backend.Running {
			end.Running = append(end.Running, c.Name)
		}
	}
	asked := !e.endsBy.IsZero()
	if !asked {
		if e.stopping || e.id.Grace == 0 { // when somebody else asked, or for how long, is not known
			return end
		}
		end.By = now.Add(time.Duration(e.id.Grace) * time.Second)
	}
	if len(end.Running) > 0 {
		sooner := func(than time.Time) bool { return by.Add(graceSlack).Before(than) }
		end.Late = sooner(end.By) && (!asked || sooner(e.askedBy))
		end.Early = !asked && end.By.Add(graceSlack).Before(by)
	}
	return end
}

// EndAsked notes that ECS was asked to stop a task, so that its containers are killed by
// endsBy at the latest, when they should be by askedBy: of that nobody is told again.
func (m *Known) EndAsked(arn string, endsBy, askedBy time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	if e == nil || endsBy.IsZero() {
		return
	}
	if e.endsBy.IsZero() || endsBy.Before(e.endsBy) {
		e.endsBy = endsBy
	}
	if e.askedBy.IsZero() || askedBy.Before(e.askedBy) {
		e.askedBy = askedBy
	}
}

// Left is how long the containers have, seen from now.
func (e End) Left(now time.Time) time.Duration { return e.By.Sub(now).Round(time.Second) }
