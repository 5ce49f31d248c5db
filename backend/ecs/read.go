package ecs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/containerd/log"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

// List returns all tasks of this node, and reads of them what is due (package task). It
// may be called as often as one likes.
func (p *pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	if err := p.listIfDue(ctx); err != nil {
		return nil, err
	}
	if err := p.refresh(ctx, p.known.Moving(time.Now())); err != nil {
		return nil, err
	}
	return p.known.All(time.Now()), nil
}

// Inspect reads the tasks known of the pods named, but for those that ECS told of
// a moment ago.
func (p *pods) Inspect(ctx context.Context, uids []ktypes.UID) ([]backend.PodFacts, error) {
	if err := p.listIfDue(ctx); err != nil {
		return nil, err
	}
	if err := p.refresh(ctx, p.known.Asked(uids, time.Now())); err != nil {
		return nil, err
	}
	return p.known.Of(uids, time.Now()), nil
}

// listIfDue lists all tasks if that is due.
func (p *pods) listIfDue(ctx context.Context) error {
	if now := time.Now(); p.known.ListDue(now) {
		return p.listSince(ctx, now)
	}
	return nil
}

// listSince returns once a complete listing was read that began no earlier than
// since: one serves all that wait for it.
func (p *pods) listSince(ctx context.Context, since time.Time) error {
	select {
	case p.listing <- struct{}{}:
		defer func() { <-p.listing }()
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "wait for another listing: %w", ctx.Err())
	}
	if p.known.ListedSince(since) {
		return nil
	}
	return p.listAll(ctx)
}

// listAll reads all tasks of this node: those that ECS lists under its name, and
// those known that are not listed any more because they stop.
func (p *pods) listAll(ctx context.Context) error {
	from := time.Now()
	arns, err := p.remote.list(ctx, awsecs.ListTasksInput{StartedBy: &p.startedBy})
	if err != nil {
		return err
	}
	if !p.known.IsListed() {
		// A new process: tasks that stop, and so are not listed by startedBy, which
		// cannot be combined with a status (ECS API, ListTasks). Those of others
		// are left out when they are described.
		stopped, err := p.remote.list(ctx, awsecs.ListTasksInput{DesiredStatus: types.DesiredStatusStopped})
		if err != nil {
			return err
		}
		arns = append(arns, stopped...)
	}
	err = p.refresh(ctx, p.known.Unread(arns))
	if errors.Is(err, errUnread) && p.known.Partly(from) {
		p.unread.Do(func() {
			log.G(ctx).WithError(err).Warn("ECS does not describe a task that is not known; the others are read without it")
		})
		return nil
	}
	if err != nil {
		return err
	}
	p.known.Listed(from, time.Now())
	return nil
}

// errUnread is in the chain of an error about tasks that are not known, of which ECS says
// nothing, where all others were read.
var errUnread = errors.New("ECS says nothing of it")

// refresh describes tasks and notes what ECS says. Of a task that is known and of which it
// says nothing, what was known stays; of another that is an error, since it must not count
// as read.
func (p *pods) refresh(ctx context.Context, arns []string) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	var unread error
	for len(arns) > 0 {
		n := min(len(arns), batch)
		got, err := p.remote.describe(ctx, arns[:n])
		if err != nil {
			return err
		}
		now := time.Now()
		for _, t := range got.tasks {
			p.note(ctx, t, now)
		}
		for _, arn := range got.missing {
			p.known.Missed(arn, now)
		}
		for _, arn := range slices.Sorted(maps.Keys(got.failed)) {
			why := got.failed[arn]
			switch known, first := p.known.Unanswered(arn, why, now); {
			case !known:
				unread = backend.Errorf(backend.ErrUnavailable, "describe task %s: %w: %s", arn, errUnread, why)
			case first:
				log.G(ctx).WithField("task", arn).WithField("reason", why).Warn(
					"ECS does not describe a task; what was known of it stays",
				)
			}
		}
		arns = arns[n:]
	}
	return unread
}

// note takes over what ECS says of a task, if it is ours.
func (p *pods) note(ctx context.Context, t types.Task, now time.Time) {
	arn := aws.ToString(t.TaskArn)
	id, known := p.known.Identity(arn)
	if !known {
		if aws.ToString(t.StartedBy) != p.startedBy {
			return
		}
		var err error
		if id, err = identity.Read(t); err != nil {
			if p.known.Ignore(arn) {
				log.G(ctx).WithField("task", arn).WithError(err).Warn("ignoring a task under this node's name that is no pod")
			}
			return
		}
		if p.payloads != nil {
			p.payloads.Observed(id.Ref(arn), t)
		}
	}
	p.known.Observed(p.observation(id, t, now))
}

func (p *pods) observation(id identity.Task, t types.Task, now time.Time) *task.Observation {
	p.meter.Observe(t, p.remote.clock.local, now)
	return task.Observe(id, t, p.remote.clock.local, now)
}
