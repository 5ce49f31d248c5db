package task

import (
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// Bounds of what burstlet-agent tells.
const (
	// toldFresh is how long it is believed: it is told every five minutes at least.
	toldFresh = 11 * time.Minute
	// toldAgainst is how long ECS may say something new and else: what it shows is late by
	// half a minute, but an agent that has died says nothing any more.
	toldAgainst = time.Minute
)

// told is what the burstlet-agent of a task says of its containers.
type told struct {
	// key is what it signs with, empty where it was given none.
	key string
	seq int64
	at  time.Time
	// ready are its verdicts by name, nil where it has none.
	ready map[string]*bool
	// lives are the ends that it told, by name, running since when ECS shows as
	// running what has ended by them.
	lives   map[string]intask.Life
	running map[string]time.Time
	// ecs are the last verdicts of ECS, late those that it showed when something was told,
	// until they change: it is behind then. against is since when another is not what was
	// told.
	ecs, late map[string]*bool
	against   time.Time
}

// keyOf is what the burstlet-agent of a task signs with, in its overrides; empty where ECS
// does not say.
func keyOf(t types.Task) string {
	if t.Overrides == nil {
		return ""
	}
	for _, c := range t.Overrides.ContainerOverrides {
		if aws.ToString(c.Name) != identity.AgentName {
			continue
		}
		for _, kv := range c.Environment {
			if aws.ToString(kv.Name) == intask.EnvReportKey {
				return aws.ToString(kv.Value)
			}
		}
	}
	return ""
}

// heed notes what ECS says of the health of a task's containers, in whose place stands what
// its agent told.
func (e *entry) heed(o *Observation) {
	if key := keyOf(o.task); key != "" {
		e.told.key = key
	}
	e.told.ecs = map[string]*bool{}
	for _, c := range e.facts.Containers {
		e.told.ecs[c.Name] = c.Healthy
	}
	e.local = o.local
	e.contradicted(o.now)
	e.live(o.now)
	e.judge(o.now)
}

// isTold is true while what the agent told is to be believed.
func (e *entry) isTold(now time.Time) bool {
	return !e.told.at.IsZero() && now.Sub(e.told.at) < toldFresh &&
		(e.told.against.IsZero() || now.Sub(e.told.against) < toldAgainst)
}

// judge gives running containers the verdict of the agent, or of ECS.
func (e *entry) judge(now time.Time) {
	differs := false
	for name, ready := range e.told.ready {
		ecs := e.told.ecs[name]
		if late, known := e.told.late[name]; known && same(ecs, late) {
			continue
		}
		delete(e.told.late, name)
		differs = differs || ready != nil && ecs != nil && *ready != *ecs
	}
	switch {
	case !differs:
		e.told.against = time.Time{}
	case e.told.against.IsZero():
		e.told.against = now
	}
	believed := e.isTold(now)
	for i := range e.facts.Containers {
		c := &e.facts.Containers[i]
		if c.State() != backend.Running {
			continue
		}
		c.Healthy = e.told.ecs[c.Name]
		if ready := e.told.ready[c.Name]; ready != nil && believed {
			c.Healthy = ready
		}
	}
}

func same(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }

// Told notes what the burstlet-agent of a task says of its containers. It returns the pod
// where that is something new. Errors: of a task that is not known, and of what is not
// signed with its key.
func (m *Known) Told(r intask.Readiness, verify func(key string) error, now time.Time) (ktypes.UID, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[r.Task]
	if e == nil {
		return "", false, nil
	}
	if err := verify(e.told.key); err != nil {
		return "", false, err
	}
	if r.Seq <= e.told.seq {
		return "", false, nil
	}
	before, worded := e.shown(now), make([]bool, len(e.facts.Containers))
	for i, id := range e.id.Containers {
		worded[i] = e.facts.Containers[i].State() == backend.Exited && e.termination(id) != Termination{}
	}
	e.told.seq, e.told.at, e.told.ready, e.told.lives, e.told.late = r.Seq, now, r.Ready, r.Lives, maps.Clone(e.told.ecs)
	e.live(now)
	e.judge(now)
	for i, id := range e.id.Containers {
		c := &e.facts.Containers[i]
		if c.State() == backend.Exited && e.endTold(id) != nil {
			delete(e.held, c.Name)
			if !worded[i] {
				e.termination(id).complete(c)
			}
		}
	}
	isNew := false
	for i, c := range e.shown(now).Containers {
		ended := before.Containers[i].State() != c.State()
		isNew = isNew || ended || !same(before.Containers[i].Healthy, c.Healthy)
		e.settled = e.settled && !ended // its task may end by it
	}
	if !isNew {
		return "", false, nil
	}
	return e.id.UID, true, nil
}
