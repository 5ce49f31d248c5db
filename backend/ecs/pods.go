package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
)

// pods is backend.Pods on ECS.
type pods struct {
	cfg       Config
	startedBy string
	remote    *remote
	defs      *definitions
	mem       *memory
}

func newPods(cfg Config, r *remote) *pods {
	return &pods{cfg: cfg, startedBy: startedBy(cfg.NodeIdentity), remote: r, defs: newDefinitions(r), mem: newMemory(cfg.Settle)}
}

// Launch starts the task of an attempt. Called again it finds the first one by
// its client token, for an hour after it stopped.
func (p *pods) Launch(ctx context.Context, spec backend.LaunchSpec) error {
	ref := spec.Ref()
	if err := p.launch(ctx, spec); err != nil {
		return fmt.Errorf("launch pod %s/%s attempt %d: %w", ref.Namespace, ref.Name, ref.Attempt, err)
	}
	return nil
}

func (p *pods) launch(ctx context.Context, spec backend.LaunchSpec) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	if err := acceptable(spec); err != nil {
		return err
	}
	def, err := definitionOf(p.cfg, spec)
	if err != nil {
		return err
	}
	run, err := runOf(p.cfg, spec, *def.Family)
	if err != nil {
		return err
	}
	if err := p.defs.ensure(ctx, def); err != nil {
		return err
	}
	k, id := keyOf(spec.Ref()), identityOf(p.cfg.NodeIdentity, spec)
	task, err := p.remote.run(ctx, run)
	var conflict *types.ConflictException
	switch {
	case err == nil && task.TaskArn != nil:
		p.mem.launched(p.observation(id, task, time.Now()))
		return nil
	case err == nil:
		err = backend.Errorf(backend.ErrUnavailable, "run task: the answer names no task")
	case errors.As(err, &conflict):
		return p.adopt(ctx, id, conflict, err)
	case errors.Is(err, backend.ErrCapacity):
		p.mem.refused(k)
	case noDefinition(err):
		p.defs.forget(ctx, *def.Family)
	}
	if errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, errNotSent) {
		p.mem.unknownOutcome(k, time.Now())
	}
	return err
}

// acceptable refuses what Check refuses: nothing is dropped in silence.
func acceptable(spec backend.LaunchSpec) error {
	if len(spec.Containers) == 0 {
		return backend.Errorf(backend.ErrInvalid, "there is no container")
	}
	refusals := Check(spec.Pod)
	if len(refusals) == 0 {
		return nil
	}
	texts := make([]string, len(refusals))
	for i, r := range refusals {
		texts[i] = r.Field + ": " + r.Why
	}
	return backend.Errorf(backend.ErrUnsupported, "%s", strings.Join(texts, "; "))
}

// adopt takes over the task that an earlier launch of this attempt made with
// other parameters (before the configuration changed). If it has stopped, that is
// this attempt's end.
func (p *pods) adopt(ctx context.Context, id identity, conflict *types.ConflictException, cause error) error {
	k := key{id.UID, id.Attempt}
	if len(conflict.ResourceIds) == 0 {
		p.mem.unknownOutcome(k, time.Now())
		return backend.Errorf(backend.ErrUnavailable, "adopt the task of this token: ECS names none: %v", cause)
	}
	arn := conflict.ResourceIds[0]
	tasks, _, err := p.remote.describe(ctx, []string{arn})
	if err != nil || len(tasks) == 0 {
		p.mem.unknownOutcome(k, time.Now())
		if err == nil {
			err = errors.New("it does not show yet")
		}
		return backend.Errorf(backend.ErrUnavailable, "adopt task %s: %v", arn, err)
	}
	theirs, err := identityIn(tasks[0])
	if err != nil || theirs.UID != id.UID || theirs.Attempt != id.Attempt || aws.ToString(tasks[0].StartedBy) != p.startedBy {
		return backend.Errorf(backend.ErrExists, "adopt task %s: it is not this pod's", arn)
	}
	p.mem.launched(p.observation(theirs, tasks[0], time.Now()))
	return nil
}

// locate finds the tasks of an attempt, listing if they may exist unknown.
func (p *pods) locate(ctx context.Context, ref backend.Ref) ([]handle, error) {
	if found := p.mem.find(ref); len(found) > 0 || p.mem.certain(keyOf(ref), time.Now()) {
		return found, nil
	}
	if _, err := p.List(ctx); err != nil {
		return nil, err
	}
	return p.mem.find(ref), nil
}

// Stop asks ECS to stop the task. Its containers get the grace of their
// definition: ECS knows no other.
func (p *pods) Stop(ctx context.Context, ref backend.Ref, _ time.Duration) error {
	if err := p.stop(ctx, ref); err != nil {
		return fmt.Errorf("stop pod %s/%s attempt %d: %w", ref.Namespace, ref.Name, ref.Attempt, err)
	}
	return nil
}

func (p *pods) stop(ctx context.Context, ref backend.Ref) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	found, err := p.locate(ctx, ref)
	if err != nil {
		return err
	}
	if len(found) == 0 && p.mem.pending(keyOf(ref), time.Now()) {
		return backend.Errorf(backend.ErrUnavailable, "it is not known whether its task was made")
	}
	live := false
	for _, h := range found {
		live = live || h.live
		if err := p.end(ctx, h); err != nil {
			return err
		}
	}
	if !live {
		return backend.Errorf(backend.ErrNotFound, "no task of it is live")
	}
	return nil
}

// errNotShown: a task that ECS neither shows nor can be said to be gone.
var errNotShown = errors.New("ECS does not show its task now")

// end asks for the end of a task, once.
func (p *pods) end(ctx context.Context, h handle) error {
	if !h.live || h.stopping {
		return nil
	}
	task, err := p.remote.stop(ctx, h.arn, stopReason)
	if errors.Is(err, backend.ErrNotFound) {
		// Too new to show, or long forgotten: reads will tell. Of no class, for
		// NotFound would say that it is gone.
		return fmt.Errorf("%w: %v", errNotShown, err) //nolint:errorlint // see above
	}
	if err != nil {
		return err
	}
	if task != nil {
		p.note(ctx, *task, time.Now())
	}
	return nil
}

// Remove asks for the end of the task and, once it is STOPPED, forgets it. A
// launch whose outcome is not known keeps it from saying NotFound.
func (p *pods) Remove(ctx context.Context, ref backend.Ref) error {
	if err := p.remove(ctx, ref); err != nil {
		return fmt.Errorf("remove pod %s/%s attempt %d: %w", ref.Namespace, ref.Name, ref.Attempt, err)
	}
	return nil
}

func (p *pods) remove(ctx context.Context, ref backend.Ref) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	found, err := p.locate(ctx, ref)
	if err != nil {
		return err
	}
	arns := make([]string, 0, len(found))
	for _, h := range found {
		arns = append(arns, h.arn)
	}
	if err := p.refresh(ctx, p.mem.toDescribe(arns, false)); err != nil {
		return err
	}
	if found = p.mem.find(ref); len(found) == 0 {
		if p.mem.pending(keyOf(ref), time.Now()) {
			return nil
		}
		return backend.Errorf(backend.ErrNotFound, "no task of it is left")
	}
	for _, h := range found {
		if !h.live {
			p.mem.remove(h.arn, time.Now())
			continue
		}
		if err := p.end(ctx, h); err != nil && !errors.Is(err, errNotShown) {
			return err
		}
	}
	return nil
}
