package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/pause"
)

// DefaultImage is the image of the tasks: any that has a shell.
const DefaultImage = "public.ecr.aws/docker/library/busybox:1.36"

// Config says where and as what tasks run.
type Config struct {
	ecsconfig.Config
	// Image has sh, sleep and echo; empty: [DefaultImage].
	Image string
}

// Each task is of the smallest size and ends by itself.
const (
	taskCPU, taskMemory = 256, 512
	// longest is what a task runs for at most, from its pull on.
	longest = 5 * time.Minute
	// begins is how long a task may take until it runs.
	begins = 5 * time.Minute
	// poll is how often a task is looked at.
	poll = time.Second
	// removal bounds the removal of what was made.
	removal = 3 * time.Minute
	// request bounds a call whose answer must not be lost.
	request = 30 * time.Second
)

// Bill is what a run makes and costs at most.
type Bill struct {
	Tasks   int
	Dollars float64
}

// Bill computes it from the prices of the configuration.
func (c Config) Bill() Bill {
	c.Config = c.WithDefaults()
	out := Bill{}
	for _, e := range experiments(c) {
		out.Tasks += e.tasks
	}
	hour := c.Rates.PerHour(fargate.Size{CPU: taskCPU, MemoryMiB: taskMemory}, c.CPUArchitecture, fargate.FreeStorageGiB)
	out.Dollars = float64(out.Tasks) * hour * longest.Hours()
	return out
}

// prober makes the experiments of one run.
type prober struct {
	cfg     Config
	clients clients.Clients
	image   string
	// key tells what is made for this node from what others make.
	key string

	mu sync.Mutex
	// started are tasks by ARN: listings do not show new ones. lost is when a RunTask was
	// sent last whose answer was lost, so that only a listing can tell of its task.
	started []string
	lost    time.Time
}

// Run makes all experiments at once. Errors: what it would not make, and what it could
// not remove; the result is there also then.
func Run(ctx context.Context, cfg Config, c clients.Clients) (out Result, err error) {
	cfg.Config = cfg.WithDefaults()
	p := &prober{cfg: cfg, clients: c, image: cfg.Image, key: "try-" + identity.NodeKey(cfg.NodeIdentity)}
	if p.image == "" {
		p.image = DefaultImage
	}
	if err := p.remove(ctx); err != nil { // what a run left that was killed
		return out, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), removal)
		defer cancel()
		if left := p.remove(stop); left != nil {
			err = errors.Join(
				err, fmt.Errorf("remove the tasks and definitions of this run (they end by themselves in %s): %w", longest, left),
			)
		}
	}()
	all := experiments(cfg)
	rows := make([][]Row, len(all))
	var group errgroup.Group
	for i, e := range all {
		group.Go(func() error {
			var err error
			if rows[i], err = e.make(ctx, p); err != nil {
				rows[i] = unknown(e.rows, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	out = Result{
		Version: version, Date: time.Now().UTC().Format(time.DateOnly), Region: cfg.Region,
		Architecture: cfg.CPUArchitecture, Platform: or(cfg.PlatformVersion, "LATEST"),
	}
	for _, r := range rows {
		out.Rows = append(out.Rows, r...)
	}
	if err := ctx.Err(); err != nil {
		return out, fmt.Errorf("make the experiments: %w", err)
	}
	return out, nil
}

// definition is one of this run's, of the smallest size.
func (p *prober) definition(name string, containers ...types.ContainerDefinition) *awsecs.RegisterTaskDefinitionInput {
	return &awsecs.RegisterTaskDefinitionInput{
		Family: aws.String(p.family(name)), NetworkMode: types.NetworkModeAwsvpc, Cpu: aws.String(fmt.Sprint(taskCPU)),
		Memory:                  aws.String(fmt.Sprint(taskMemory)),
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		ExecutionRoleArn:        nonEmpty(p.cfg.ExecutionRoleARN), TaskRoleArn: nonEmpty(p.cfg.TaskRoleARN),
		ContainerDefinitions: containers,
		RuntimePlatform: &types.RuntimePlatform{
			CpuArchitecture: types.CPUArchitecture(p.cfg.CPUArchitecture), OperatingSystemFamily: types.OSFamilyLinux,
		},
	}
}

// family names a definition of this run; each node's own begin otherwise.
func (p *prober) family(name string) string { return identity.FamilyRoot + p.key + "-" + name }

// container runs a script.
func (p *prober) container(name string, essential bool, script string) types.ContainerDefinition {
	return types.ContainerDefinition{
		Name: &name, Image: &p.image, Essential: &essential, Command: []string{"-c", script}, EntryPoint: []string{"sh"},
	}
}

// run starts a task and returns its ARN. An answer is waited for also when the context
// ends: a task that nobody knows could not be removed.
func (p *prober) run(ctx context.Context, exec bool, def *awsecs.RegisterTaskDefinitionInput) (string, error) {
	made, err := p.register(ctx, def)
	if err != nil {
		return "", err
	}
	assign := types.AssignPublicIpDisabled
	if p.cfg.AssignPublicIP {
		assign = types.AssignPublicIpEnabled
	}
	in := &awsecs.RunTaskInput{
		Cluster: &p.cfg.Cluster, TaskDefinition: &made, LaunchType: types.LaunchTypeFargate, StartedBy: &p.key,
		EnableExecuteCommand: exec, PlatformVersion: nonEmpty(p.cfg.PlatformVersion),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: p.cfg.Subnets, SecurityGroups: p.cfg.SecurityGroups, AssignPublicIp: assign,
		}},
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), request)
	defer cancel()
	out, err := p.clients.ECS.RunTask(call, in)
	p.note(out, err)
	switch {
	case err != nil:
		return "", fmt.Errorf("run task: %w", awscall.Classify(err))
	case len(out.Tasks) == 0 && len(out.Failures) > 0:
		return "", backend.Errorf(
			backend.ErrCapacity, "run task: %s %s", aws.ToString(out.Failures[0].Reason), aws.ToString(out.Failures[0].Detail),
		)
	case len(out.Tasks) == 0:
		return "", backend.Errorf(backend.ErrUnavailable, "run task: neither a task nor a failure")
	}
	return aws.ToString(out.Tasks[0].TaskArn), nil
}

// note remembers what must be stopped.
func (p *prober) note(out *awsecs.RunTaskOutput, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var refused smithy.APIError
	if err != nil && !errors.As(err, &refused) {
		p.lost = time.Now()
	}
	if out != nil {
		for _, t := range out.Tasks {
			p.started = append(p.started, aws.ToString(t.TaskArn))
		}
	}
}

// register registers a definition and returns its ARN.
func (p *prober) register(ctx context.Context, def *awsecs.RegisterTaskDefinitionInput) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), request)
	defer cancel()
	out, err := p.clients.ECS.RegisterTaskDefinition(call, def)
	if err != nil {
		return "", fmt.Errorf("register task definition: %w", awscall.Classify(err))
	}
	return aws.ToString(out.TaskDefinition.TaskDefinitionArn), nil
}

// await looks at a task until it is as wanted.
func (p *prober) await(
	ctx context.Context, arn, what string, bound time.Duration, wanted func(types.Task) bool,
) (types.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var last types.Task
	for {
		out, err := p.clients.ECS.DescribeTasks(
			ctx, &awsecs.DescribeTasksInput{Cluster: &p.cfg.Cluster, Tasks: []string{arn}},
		)
		switch {
		case err != nil && ctx.Err() == nil:
			return last, fmt.Errorf("describe task: %w", awscall.Classify(err))
		case err == nil && len(out.Tasks) > 0: // a new one may be MISSING
			if last = out.Tasks[0]; wanted(last) {
				return last, nil
			}
		}
		if err := pause.For(ctx, poll); err != nil {
			return last, fmt.Errorf("wait until %s (the task is %s): %w", what, aws.ToString(last.LastStatus), err)
		}
	}
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
