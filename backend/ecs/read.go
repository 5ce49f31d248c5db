package ecs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/containerd/log"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// List reads all tasks of this node: those that ECS lists under its name, and
// those known that are not listed any more because they stop.
func (p *pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	arns, err := p.remote.list(ctx, awsecs.ListTasksInput{StartedBy: &p.startedBy})
	if err != nil {
		return nil, err
	}
	if !p.mem.isSwept() {
		// A new process: tasks that stop, and so are not listed by startedBy, which
		// cannot be combined with a status (ECS API, ListTasks). Those of others
		// are left out when they are described.
		stopped, err := p.remote.list(ctx, awsecs.ListTasksInput{DesiredStatus: types.DesiredStatusStopped})
		if err != nil {
			return nil, err
		}
		arns = append(arns, stopped...)
	}
	if err := p.refresh(ctx, p.mem.toDescribe(arns, true)); err != nil {
		return nil, err
	}
	p.mem.listed(time.Now())
	return p.mem.known(nil, true), nil
}

// Inspect reads the tasks known of the pods named. The first call of a process
// lists.
func (p *pods) Inspect(ctx context.Context, uids []ktypes.UID) ([]backend.PodFacts, error) {
	if !p.mem.isSwept() {
		if _, err := p.List(ctx); err != nil {
			return nil, err
		}
		return p.mem.known(uids, false), nil
	}
	if err := p.refresh(ctx, p.mem.toDescribe(p.mem.arns(uids), false)); err != nil {
		return nil, err
	}
	return p.mem.known(uids, false), nil
}

// refresh describes tasks and notes what ECS says.
func (p *pods) refresh(ctx context.Context, arns []string) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	tasks, missing, err := p.remote.describe(ctx, arns)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, t := range tasks {
		p.note(ctx, t, now)
	}
	for _, arn := range missing {
		p.mem.missed(arn, now)
	}
	return nil
}

// note takes over what ECS says of a task, if it is ours.
func (p *pods) note(ctx context.Context, t types.Task, now time.Time) {
	arn := aws.ToString(t.TaskArn)
	id, known := p.mem.identity(arn)
	if !known {
		if aws.ToString(t.StartedBy) != p.startedBy {
			return
		}
		var err error
		if id, err = identityIn(t); err != nil {
			if p.mem.ignore(arn) {
				log.G(ctx).WithField("task", arn).WithError(err).Warn("Ignoring a task under this node's name that is no pod")
			}
			return
		}
	}
	p.mem.observed(p.observation(id, t, now))
}

func (p *pods) observation(id identity, t types.Task, now time.Time) *observation {
	return &observation{id: id, task: t, clock: &p.remote.clock, now: now}
}
