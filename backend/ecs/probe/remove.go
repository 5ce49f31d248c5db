package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/pause"
)

// remove stops the tasks of runs for this node, waits for their end, and deletes their
// definitions.
func (p *prober) remove(ctx context.Context) error {
	return errors.Join(p.removeTasks(ctx), p.removeDefinitions(ctx))
}

// settle is how long a task whose RunTask had no answer is looked for in listings.
const settle = time.Minute

// removeTasks stops the tasks that this run knows, and then what listings show, until
// that is nothing.
func (p *prober) removeTasks(ctx context.Context) error {
	p.mu.Lock()
	started, until := p.started, p.lost.Add(settle)
	p.mu.Unlock()
	for _, arn := range started {
		_, err := p.clients.ECS.StopTask(ctx, &awsecs.StopTaskInput{Cluster: &p.cfg.Cluster, Task: &arn, Reason: &p.key})
		if err != nil && !awscall.IsCode(err, "InvalidParameterException") { // long gone
			return fmt.Errorf("stop task: %w", awscall.Classify(err))
		}
	}
	for {
		out, err := p.clients.ECS.ListTasks(ctx, &awsecs.ListTasksInput{Cluster: &p.cfg.Cluster, StartedBy: &p.key})
		if err != nil {
			return fmt.Errorf("list tasks: %w", awscall.Classify(err))
		}
		if len(out.TaskArns) == 0 && !time.Now().Before(until) {
			return nil
		}
		for _, arn := range out.TaskArns {
			_, err := p.clients.ECS.StopTask(ctx, &awsecs.StopTaskInput{Cluster: &p.cfg.Cluster, Task: &arn, Reason: &p.key})
			if err != nil {
				return fmt.Errorf("stop task: %w", awscall.Classify(err))
			}
		}
		if err := pause.For(ctx, poll); err != nil {
			return fmt.Errorf("wait for the end of %d tasks: %w", len(out.TaskArns), err)
		}
	}
}

// maxDeletes is how many definitions one call deletes (ECS API, DeleteTaskDefinitions).
const maxDeletes = 10

// removeDefinitions deregisters and deletes all definitions of runs for this node.
func (p *prober) removeDefinitions(ctx context.Context) error {
	arns, err := p.definitions(ctx)
	if err != nil {
		return err
	}
	for _, arn := range arns {
		if _, err := p.clients.ECS.DeregisterTaskDefinition(
			ctx, &awsecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn},
		); err != nil {
			return fmt.Errorf("deregister task definition: %w", awscall.Classify(err))
		}
	}
	for len(arns) > 0 {
		n := min(len(arns), maxDeletes)
		out, err := p.clients.ECS.DeleteTaskDefinitions(ctx, &awsecs.DeleteTaskDefinitionsInput{TaskDefinitions: arns[:n]})
		if err != nil {
			return fmt.Errorf("delete task definitions: %w", awscall.Classify(err))
		}
		if len(out.Failures) > 0 {
			return fmt.Errorf("delete task definitions: %s", aws.ToString(out.Failures[0].Reason))
		}
		arns = arns[n:]
	}
	return nil
}

// definitions are those of runs for this node, deregistered ones too.
func (p *prober) definitions(ctx context.Context) ([]string, error) {
	prefix := p.family("")
	families, err := p.clients.ECS.ListTaskDefinitionFamilies(ctx, &awsecs.ListTaskDefinitionFamiliesInput{
		FamilyPrefix: &prefix, Status: types.TaskDefinitionFamilyStatusAll,
	})
	if err != nil {
		return nil, fmt.Errorf("list task definition families: %w", awscall.Classify(err))
	}
	var arns []string
	for _, family := range families.Families {
		for _, status := range []types.TaskDefinitionStatus{
			types.TaskDefinitionStatusActive, types.TaskDefinitionStatusInactive,
		} {
			out, err := p.clients.ECS.ListTaskDefinitions(
				ctx, &awsecs.ListTaskDefinitionsInput{FamilyPrefix: &family, Status: status},
			)
			if err != nil {
				return nil, fmt.Errorf("list task definitions: %w", awscall.Classify(err))
			}
			for _, arn := range out.TaskDefinitionArns {
				if strings.HasPrefix(identity.FamilyOf(arn), prefix) {
					arns = append(arns, arn)
				}
			}
		}
	}
	return arns, nil
}
