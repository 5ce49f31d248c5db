package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// api are the calls of the SDK that are used.
type api interface {
	RegisterTaskDefinition(
		context.Context, *awsecs.RegisterTaskDefinitionInput, ...func(*awsecs.Options),
	) (*awsecs.RegisterTaskDefinitionOutput, error)
	DescribeTaskDefinition(
		context.Context, *awsecs.DescribeTaskDefinitionInput, ...func(*awsecs.Options),
	) (*awsecs.DescribeTaskDefinitionOutput, error)
	RunTask(context.Context, *awsecs.RunTaskInput, ...func(*awsecs.Options)) (*awsecs.RunTaskOutput, error)
	DescribeTasks(
		context.Context, *awsecs.DescribeTasksInput, ...func(*awsecs.Options),
	) (*awsecs.DescribeTasksOutput, error)
	ListTasks(context.Context, *awsecs.ListTasksInput, ...func(*awsecs.Options)) (*awsecs.ListTasksOutput, error)
	StopTask(context.Context, *awsecs.StopTaskInput, ...func(*awsecs.Options)) (*awsecs.StopTaskOutput, error)
	DescribeClusters(
		context.Context, *awsecs.DescribeClustersInput, ...func(*awsecs.Options),
	) (*awsecs.DescribeClustersOutput, error)
}

// remote is ECS behind its rate limits, its errors classed, its clock measured.
type remote struct {
	api     api
	cluster string
	buckets buckets
	clock   clock
}

func newRemote(a api, cluster string) *remote {
	return &remote{api: a, cluster: cluster, buckets: newBuckets()}
}

// Pages and batches (ECS API, ListTasks: maxResults, DescribeTasks: tasks). The
// bound on pages is beyond what Fargate can start in an hour.
const (
	batch    = 100
	maxPages = 1000
)

// What may make a pod takes two contexts: that of the call, and waiting, which ends its
// wait at the limits too (backend.While).

// register makes a new revision of a definition.
func (r *remote) register(ctx, waiting context.Context, in *awsecs.RegisterTaskDefinitionInput) error {
	if err := awscall.Wait(waiting, r.buckets.register); err != nil {
		return err
	}
	if _, err := r.api.RegisterTaskDefinition(ctx, in); err != nil {
		return fmt.Errorf("register task definition %s: %w", *in.Family, awscall.Classify(err))
	}
	return nil
}

// registered is true if a family has an active revision.
func (r *remote) registered(ctx, waiting context.Context, family string) (bool, error) {
	if err := awscall.Wait(waiting, r.buckets.describeDefinition); err != nil {
		return false, err
	}
	out, err := r.api.DescribeTaskDefinition(ctx, &awsecs.DescribeTaskDefinitionInput{TaskDefinition: &family})
	switch {
	case awscall.IsCode(err, "ClientException"): // "Unable to describe task definition."
		return false, nil
	case err != nil:
		return false, fmt.Errorf("describe task definition %s: %w", family, awscall.Classify(err))
	}
	return out.TaskDefinition != nil && out.TaskDefinition.Status == types.TaskDefinitionStatusActive, nil
}

// run starts a task.
func (r *remote) run(ctx, waiting context.Context, in *awsecs.RunTaskInput) (types.Task, error) {
	if err := awscall.Wait(waiting, r.buckets.runTask, r.buckets.modify); err != nil {
		return types.Task{}, err
	}
	var lost lostAnswers
	begin := time.Now()
	out, err := r.api.RunTask(ctx, in, lost.listen)
	if err != nil {
		err = awscall.Classify(err)
		if lost.any && !errors.As(err, new(*types.ConflictException)) {
			// The SDK asked more than once, and what became of one time is not known.
			return types.Task{}, backend.Errorf(
				backend.ErrUnavailable, "run task: an answer was lost before: %w", unclassed{err},
			)
		}
		return types.Task{}, fmt.Errorf("run task: %w", err)
	}
	r.clock.measure(begin, out.ResultMetadata)
	switch {
	case len(out.Tasks) > 0:
		return out.Tasks[0], nil
	case len(out.Failures) > 0:
		// ECS API, "API failure reasons": RunTask's are about room. No task was
		// made and the token is not used up.
		f := out.Failures[0]
		return types.Task{}, backend.Errorf(
			backend.ErrCapacity, "run task: refused: %s %s", aws.ToString(f.Reason), aws.ToString(f.Detail),
		)
	default:
		// A token whose task was forgotten: its end is not known any more.
		return types.Task{}, backend.Errorf(backend.ErrUnavailable, "run task: the answer has neither a task nor a failure")
	}
}

// lostAnswers listens to the retries of one call: any is true once an answer was lost.
type lostAnswers struct{ any bool }

func (l *lostAnswers) listen(o *awsecs.Options) { o.Retryer = lossListener{o.Retryer, l} }

type lossListener struct {
	aws.Retryer
	lost *lostAnswers
}

// IsErrorRetryable is asked about every failure.
func (l lossListener) IsErrorRetryable(err error) bool {
	if errors.Is(awscall.Classify(err), backend.ErrUnavailable) {
		l.lost.any = true
	}
	return l.Retryer.IsErrorRetryable(err)
}

// unclassed is an error whose class is another's: only its text is told.
type unclassed struct{ error }

// stop asks for the end of a task and returns it.
func (r *remote) stop(ctx context.Context, arn, reason string) (*types.Task, error) {
	if err := awscall.Wait(ctx, r.buckets.modify); err != nil {
		return nil, err
	}
	begin := time.Now()
	out, err := r.api.StopTask(ctx, &awsecs.StopTaskInput{Cluster: &r.cluster, Task: &arn, Reason: &reason})
	if err != nil {
		return r.notStopped(ctx, arn, awscall.Classify(err))
	}
	r.clock.measure(begin, out.ResultMetadata)
	return out.Task, nil
}

// notStopped finds out why a task was not stopped. Code and words for one that ECS does not
// know are undocumented: what DescribeTasks says of it counts. Errors: NotFound.
func (r *remote) notStopped(ctx context.Context, arn string, refusal error) (*types.Task, error) {
	if errors.Is(refusal, awscall.ErrUnknown) {
		got, err := r.describe(ctx, []string{arn})
		switch {
		case err != nil:
		case len(got.missing) > 0:
			return nil, backend.Errorf(backend.ErrNotFound, "stop task %s: %w", arn, refusal)
		case len(got.tasks) > 0 && aws.ToString(got.tasks[0].DesiredStatus) == string(types.DesiredStatusStopped):
			return &got.tasks[0], nil
		}
	}
	return nil, fmt.Errorf("stop task %s: %w", arn, refusal)
}

// described is what ECS says of tasks.
type described struct {
	tasks []types.Task
	// missing are the ARNs that it does not know, and failed why it says nothing of
	// others: of these nothing is known anew.
	missing []string
	failed  map[string]string
}

// missingReason is that of a task that ECS does not know (ECS API, "API failure reasons").
const missingReason = "MISSING"

// describe asks about tasks. Each is in one part of the answer.
func (r *remote) describe(ctx context.Context, arns []string) (described, error) {
	out := described{failed: map[string]string{}}
	for len(arns) > 0 {
		n := min(len(arns), batch)
		if err := awscall.Wait(ctx, r.buckets.read); err != nil {
			return out, err
		}
		begin := time.Now()
		page, err := r.api.DescribeTasks(ctx, &awsecs.DescribeTasksInput{Cluster: &r.cluster, Tasks: arns[:n]})
		if err != nil {
			return out, fmt.Errorf("describe tasks: %w", awscall.Classify(err))
		}
		r.clock.measure(begin, page.ResultMetadata)
		for _, arn := range arns[:n] {
			out.failed[arn] = "ECS left it out of its answer"
		}
		for _, t := range page.Tasks {
			delete(out.failed, aws.ToString(t.TaskArn))
		}
		out.tasks = append(out.tasks, page.Tasks...)
		for _, f := range page.Failures {
			arn := aws.ToString(f.Arn)
			if aws.ToString(f.Reason) != missingReason {
				out.failed[arn] = strings.TrimSpace(aws.ToString(f.Reason) + " " + aws.ToString(f.Detail))
				continue
			}
			delete(out.failed, arn)
			out.missing = append(out.missing, arn)
		}
		arns = arns[n:]
	}
	return out, nil
}

// list returns the ARNs that match a filter.
func (r *remote) list(ctx context.Context, in awsecs.ListTasksInput) ([]string, error) {
	in.Cluster = &r.cluster
	in.MaxResults = aws.Int32(batch)
	var arns []string
	for range maxPages {
		if err := awscall.Wait(ctx, r.buckets.read); err != nil {
			return nil, err
		}
		out, err := r.api.ListTasks(ctx, &in)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", awscall.Classify(err))
		}
		arns = append(arns, out.TaskArns...)
		if aws.ToString(out.NextToken) == "" {
			return arns, nil
		}
		in.NextToken = out.NextToken
	}
	return nil, backend.Errorf(backend.ErrUnavailable, "list tasks: more than %d pages", maxPages)
}

// noDefinition is true for RunTask's refusal of a definition that is gone.
func noDefinition(err error) bool {
	return awscall.IsCode(err, "ClientException") && strings.Contains(strings.ToLower(err.Error()), "taskdefinition ")
}
