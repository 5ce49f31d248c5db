package ecs

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/containerd/log"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/cost"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/refusal"
	"github.com/burstlet/burstlet/backend/ecs/task"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/backend/pause"
)

// payloads keeps, in a store of secrets, what a task needs and may not stand in
// its definition or overrides: package payload, in Secrets Manager.
type payloads interface {
	// Ensure stores what the pod needs and says where it stands. Called again for
	// the same attempt with the same contents, by the same process, it says the
	// same to the byte. Errors: Invalid for contents beyond what the store takes.
	// It waits with waiting, and calls with ctx.
	Ensure(ctx, waiting context.Context, spec backend.LaunchSpec) (taskdef.Refs, error)
	// Refresh stores the files of volumes that an attempt has now, where they are not
	// those of its launch (launched is their FilesTag) or stored since. Others stay. It
	// does nothing for an attempt that was told of no place for them. Errors: Invalid for
	// contents beyond what there is room for.
	Refresh(ctx context.Context, ref backend.Ref, launched string, volumes []backend.VolumeSpec) error
	// Observed notes what a task of an attempt was given, so that it is released
	// with the attempt whichever process made it.
	Observed(ref backend.Ref, task types.Task)
	// Launched notes that there is a task of an attempt, which names what was stored.
	Launched(ref backend.Ref)
	// Release deletes what belongs to the attempt alone. It is repeated until it
	// returns nil: nothing of the attempt is left.
	Release(ctx context.Context, ref backend.Ref) error
}

// pods is backend.Pods on ECS.
type pods struct {
	cfg       Config
	tasks     taskdef.Config
	startedBy string
	remote    *remote
	defs      *definitions
	// payloads may be nil: then nothing has any.
	payloads payloads
	images   images.Configs
	known    *task.Known
	meter    *cost.Meter
	// supervisors are told of graces.
	supervisors supervisors
	// refusals are those of RunTask.
	refusals *refusal.Refusals
	// listing is held by who lists.
	listing chan struct{}
	// unread says once that a task cannot be read.
	unread sync.Once
	// secret is of this process: what tasks sign with is made of it.
	secret [sha256.Size]byte
}

// newPods: hints is true where something tells of changes.
func newPods(cfg Config, r *remote, store payloads, hints bool) *pods {
	p := &pods{
		cfg: cfg, tasks: cfg.Config, startedBy: identity.StartedBy(cfg.NodeIdentity), remote: r, defs: newDefinitions(r),
		payloads: store, meter: cost.New(cfg.Rates),
		refusals: refusal.New(),
		known:    task.NewKnown(task.Config{Settle: cfg.Settle, Hints: hints, Logs: cfg.LogGroup != ""}),
		listing:  make(chan struct{}, 1),
	}
	_, _ = rand.Read(p.secret[:]) // never fails: crypto/rand
	return p
}

// reportKey is what the task of an attempt signs with: the same each time that this process
// asks for it. Another process reads it in the task's overrides.
func (p *pods) reportKey(k identity.Key) string {
	mac := hmac.New(sha256.New, p.secret[:])
	mac.Write(fmt.Appendf(nil, "%s/%d", k.UID, k.Attempt))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Launch starts the task of an attempt. Called again it finds the first one by
// its client token, for an hour after it stopped.
func (p *pods) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	ref := spec.Ref()
	if err := p.launch(ctx, wanted, spec); err != nil {
		return fmt.Errorf("launch pod %s/%s attempt %d: %w", ref.Namespace, ref.Name, ref.Attempt, err)
	}
	return nil
}

func (p *pods) launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	waiting, cancel := backend.While(ctx, wanted)
	defer cancel()
	def, run, err := p.prepare(ctx, waiting, spec)
	if err == nil {
		err = p.defs.ensure(ctx, waiting, def)
	}
	if err != nil {
		return backend.Unmade(err)
	}
	id, err := identity.Read(types.Task{Overrides: run.Overrides}) // as ECS will return it
	if err != nil {
		return backend.Unmade(err)
	}
	k, l := identity.KeyOf(spec.Ref()), task.Launched{ID: id, Probed: p.cfg.TaskImage != "" && taskdef.HealthChecked(spec)}
	if err := p.refusals.Admit(*def.Family, time.Now()); err != nil {
		return backend.Unmade(err)
	}
	task, err := p.remote.run(ctx, waiting, run)
	var conflict *types.ConflictException
	switch {
	case err == nil && task.TaskArn != nil:
		p.known.Launched(l, p.observation(l.ID, task, time.Now()))
		p.accepted(ctx, spec.Ref(), *def.Family)
		return nil
	case err == nil:
		err = backend.Errorf(backend.ErrUnavailable, "run task: the answer names no task")
	case errors.As(err, &conflict):
		// A task is there: whether it is wanted or not, what it is must be known.
		return p.adopt(ctx, l, conflict, err)
	case noDefinition(err):
		p.defs.forget(waiting, *def.Family)
	case errors.Is(err, awscall.ErrUnknown):
		err = p.lookInto(ctx, waiting, *def.Family, err)
	}
	if errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, awscall.ErrNotSent) {
		p.known.OutcomeUnknown(k, time.Now())
		return err
	}
	return backend.Unmade(err)
}

// accepted notes that the launch of an attempt, of a family, succeeded.
func (p *pods) accepted(ctx context.Context, ref backend.Ref, family string) {
	if p.payloads != nil {
		p.payloads.Launched(ref)
	}
	if p.refusals.Made(family) {
		log.G(ctx).Info("AWS accepts launches of this node again")
	}
}

// lookInto finds out what a refusal in words that are not known is about: a definition
// that is gone is made again by the next try; else see package refusal.
func (p *pods) lookInto(ctx, waiting context.Context, family string, refusal error) error {
	there, err := p.remote.registered(ctx, waiting, family)
	p.defs.forget(waiting, family)
	if err == nil && !there {
		return fmt.Errorf("%w (its task definition %s is gone: it is made again)", unclassed{refusal}, family)
	}
	return p.refusals.Judge(ctx, family, refusal)
}

// prepare makes of a launch what is asked of ECS. What cannot be is refused before
// anything is stored for it.
func (p *pods) prepare(
	ctx, waiting context.Context, spec backend.LaunchSpec,
) (*awsecs.RegisterTaskDefinitionInput, *awsecs.RunTaskInput, error) {
	if err := taskdef.Acceptable(p.tasks, spec); err != nil {
		return nil, nil, err
	}
	known, err := images.LookUp(waiting, p.tasks, p.images, spec)
	if err != nil {
		return nil, nil, err
	}
	if err := taskdef.Preflight(p.tasks, spec, known); err != nil {
		return nil, nil, err
	}
	var refs taskdef.Refs
	if p.payloads != nil {
		if refs, err = p.payloads.Ensure(ctx, waiting, spec); err != nil {
			return nil, nil, err
		}
	}
	refs.ReportKey = p.reportKey(identity.KeyOf(spec.Ref()))
	return taskdef.Translate(p.tasks, spec, refs, known)
}

// adopt takes over the task that an earlier launch of this attempt made with
// other parameters: before the configuration changed, or in another process, which had
// another key for its agent. If it has stopped, that is this attempt's end.
func (p *pods) adopt(ctx context.Context, l task.Launched, conflict *types.ConflictException, cause error) error {
	k := identity.Key{UID: l.ID.UID, Attempt: l.ID.Attempt}
	if len(conflict.ResourceIds) == 0 {
		p.known.OutcomeUnknown(k, time.Now())
		return backend.Errorf(backend.ErrUnavailable, "adopt the task of this token: ECS names none: %v", cause)
	}
	arn := conflict.ResourceIds[0]
	tasks, err := p.shown(ctx, arn)
	if err != nil || len(tasks) == 0 {
		p.known.OutcomeUnknown(k, time.Now())
		if err == nil {
			err = errors.New("it does not show yet")
		}
		return backend.Errorf(backend.ErrUnavailable, "adopt task %s: %v", arn, err)
	}
	theirs, err := identity.Read(tasks[0])
	if err != nil || theirs.UID != l.ID.UID || theirs.Attempt != l.ID.Attempt ||
		aws.ToString(tasks[0].StartedBy) != p.startedBy {
		return backend.Errorf(backend.ErrExists, "adopt task %s: it is not this pod's", arn)
	}
	if p.payloads != nil {
		p.payloads.Observed(theirs.Ref(arn), tasks[0])
	}
	p.known.Launched(l, p.observation(theirs, tasks[0], time.Now()))
	return nil
}

// How long a task that ECS names itself is waited for until it shows (ECS API, RunTask: "The
// Amazon ECS API follows an eventual consistency model"), and how often it is asked for.
const (
	adoptWait = 5 * time.Second
	adoptStep = 500 * time.Millisecond
)

// shown reads a task that is there once it shows; none where it does not in time.
func (p *pods) shown(ctx context.Context, arn string) ([]types.Task, error) {
	for begun := time.Now(); ; {
		got, err := p.remote.describe(ctx, []string{arn})
		if err != nil || len(got.tasks) > 0 || time.Since(begun) >= adoptWait {
			return got.tasks, err
		}
		if err := pause.For(ctx, adoptStep); err != nil {
			return nil, err
		}
	}
}

// locate finds the tasks of an attempt, listing if they may exist unknown.
func (p *pods) locate(ctx context.Context, ref backend.Ref) ([]task.Handle, error) {
	if found := p.known.Find(ref); len(found) > 0 || p.known.Certain(identity.KeyOf(ref)) {
		return found, nil
	}
	if err := p.listSince(ctx, time.Now()); err != nil {
		return nil, err
	}
	return p.known.Find(ref), nil
}

// Stop asks ECS to stop the task. Its containers get the grace of their definition, for
// ECS knows no other, or the shorter one that their supervisors were told before.
func (p *pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	if err := p.stop(ctx, ref, grace); err != nil {
		return fmt.Errorf("stop pod %s/%s attempt %d: %w", ref.Namespace, ref.Name, ref.Attempt, err)
	}
	return nil
}

func (p *pods) stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	if err := ctx.Err(); err != nil {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	found, err := p.locate(ctx, ref)
	if err != nil {
		return err
	}
	if len(found) == 0 && p.known.Pending(identity.KeyOf(ref)) {
		return backend.Errorf(backend.ErrUnavailable, "it is not known whether its task was made")
	}
	live := false
	var other error
	for _, h := range found {
		live = live || h.Live
		asked := time.Now().Add(grace)
		endsBy, err := p.graceOf(ctx, h, grace)
		other = errors.Join(other, err)
		if err := p.end(ctx, h); err != nil {
			return err
		}
		p.known.EndAsked(h.ARN, endsBy, asked)
	}
	if !live {
		return backend.Errorf(backend.ErrNotFound, "no task of it is live")
	}
	return other
}

// errNotShown: a task that ECS neither shows nor can be said to be gone.
var errNotShown = errors.New("ECS does not show its task now")

// end asks for the end of a task, once.
func (p *pods) end(ctx context.Context, h task.Handle) error {
	p.known.Dismiss(h.ARN)
	if !h.Live || h.Stopping {
		return nil
	}
	if h.Missing { // asked before
		return errNotShown
	}
	task, err := p.remote.stop(ctx, h.ARN, task.StopReason)
	if errors.Is(err, backend.ErrNotFound) {
		// Too new to show, or long forgotten: reads will tell, and it is asked again once it
		// shows. Of no class, for NotFound would say that it is gone.
		p.known.Missed(h.ARN, time.Now())
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
	if len(found) > 0 {
		if err := p.refresh(ctx, p.known.Asked([]ktypes.UID{ref.UID}, time.Now())); err != nil {
			return err
		}
	}
	if found = p.known.Find(ref); len(found) == 0 {
		if p.known.Pending(identity.KeyOf(ref)) {
			return nil
		}
		if err := p.release(ctx, ref); err != nil {
			return err
		}
		return backend.Errorf(backend.ErrNotFound, "no task of it is left")
	}
	for _, h := range found {
		if !h.Live {
			if err := p.release(ctx, ref); err != nil {
				return err
			}
			p.known.Remove(h.ARN, time.Now())
			continue
		}
		if err := p.end(ctx, h); err != nil && !errors.Is(err, errNotShown) {
			return err
		}
	}
	return nil
}

// release deletes what the store holds for the attempt alone.
func (p *pods) release(ctx context.Context, ref backend.Ref) error {
	if p.payloads == nil {
		return nil
	}
	return p.payloads.Release(ctx, ref)
}
