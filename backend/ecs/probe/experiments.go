package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// experiment answers some rows.
type experiment struct {
	rows  []string
	tasks int
	make  func(context.Context, *prober) ([]Row, error)
}

// experiments are those that a configuration allows.
func experiments(c Config) []experiment {
	out := []experiment{
		{[]string{"refused.exitCode", "refused.reason", "refused.task"}, 1, refused},
		{[]string{"health.delay"}, 1, health},
		{[]string{"tmpfs"}, 1, tmpfs},
		{[]string{"stop.code", "stop.exitCode", "time.provision", "time.pull", "time.deprovision"}, 1, stop},
		{[]string{"image.stopCode", "image.reason"}, 1, image},
		{[]string{"exit.stopCode", "exit.code", "logs.delay", "logs.blankLines"}, 1, logs},
		{[]string{"ports.protocols", "ports.containers"}, 0, ports},
	}
	if c.TaskRoleARN != "" && !c.NoExec {
		out = append(out, experiment{[]string{"exec.32MiB", "exec.64MiB"}, 1, execMemory})
	}
	return out
}

// What a task is waited for.
func isRunning(t types.Task) bool {
	return aws.ToString(t.LastStatus) == "RUNNING" || isStopped(t)
}

func isStopped(t types.Task) bool { return aws.ToString(t.LastStatus) == "STOPPED" }

// container of a task by its name; the zero value if there is none.
func container(t types.Task, name string) types.Container {
	i := slices.IndexFunc(t.Containers, func(c types.Container) bool { return aws.ToString(c.Name) == name })
	if i < 0 {
		return types.Container{}
	}
	return t.Containers[i]
}

// code is a container's exit code in words.
func code(c types.Container) string {
	if c.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*c.ExitCode)
}

// containing is what was assumed if it is in a text, else the text.
func containing(text, assumed string) string {
	if strings.Contains(text, assumed) {
		return assumed
	}
	return or(text, "nothing")
}

// refused looks at a container whose dependency failed: an exit code that it never had
// would look as if it had run. The other one bounds the task.
func refused(ctx context.Context, p *prober) ([]Row, error) {
	const settles = time.Minute
	app := p.container("app", true, "sleep 60")
	app.DependsOn = []types.ContainerDependency{{
		ContainerName: aws.String("gate"), Condition: types.ContainerConditionSuccess,
	}}
	def := p.definition("refused", p.container("gate", false, "exit 3"), app, p.container("bound", true, "sleep 200"))
	arn, err := p.run(ctx, false, def)
	if err != nil {
		return nil, err
	}
	t, err := p.await(ctx, arn, "a container is refused", begins, func(t types.Task) bool {
		return aws.ToString(container(t, "app").LastStatus) == "STOPPED" || isStopped(t)
	})
	if err != nil {
		return nil, err
	}
	c := container(t, "app")
	task := "ends"
	if _, err := p.await(ctx, arn, "its task ends", settles, isStopped); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		task = "goes on"
	}
	return []Row{
		exact("refused.exitCode", "exit code of a container whose dependency failed", "143", code(c)),
		exact("refused.reason", "its reason", "dependency graph", containing(aws.ToString(c.Reason), "dependency graph")),
		exact("refused.task", "what its task does within "+settles.String(), "goes on", task),
	}, nil
}

// health looks how late DescribeTasks shows that a container is healthy.
func health(ctx context.Context, p *prober) ([]Row, error) {
	const interval, longest = 5, 30 * time.Second
	c := p.container("app", true, "sleep 200")
	c.HealthCheck = &types.HealthCheck{
		Command: []string{"CMD-SHELL", "exit 0"}, Interval: aws.Int32(interval), Timeout: aws.Int32(2), Retries: aws.Int32(1),
	}
	arn, err := p.run(ctx, false, p.definition("health", c))
	if err != nil {
		return nil, err
	}
	if err := p.runs(ctx, arn); err != nil {
		return nil, err
	}
	since := time.Now()
	t, err := p.await(ctx, arn, "its health is known", 3*time.Minute, func(t types.Task) bool {
		return container(t, "app").HealthStatus == types.HealthStatusHealthy || isStopped(t)
	})
	if err != nil {
		return nil, err
	}
	if isStopped(t) {
		return nil, stoppedEarly(t)
	}
	return []Row{within(
		"health.delay", "from RUNNING until HEALTHY is shown, checked each 5 s", longest, time.Since(since),
	)}, nil
}

// runs waits until a task runs.
func (p *prober) runs(ctx context.Context, arn string) error {
	t, err := p.await(ctx, arn, "it runs", begins, isRunning)
	if err == nil && isStopped(t) {
		return stoppedEarly(t)
	}
	return err
}

func stoppedEarly(t types.Task) error {
	return backend.Errorf(backend.ErrUnavailable, "the task stopped: %s: %s", t.StopCode, aws.ToString(t.StoppedReason))
}

// tmpfs asks for one: AWS's pages disagree on whether Fargate has it.
func tmpfs(ctx context.Context, p *prober) ([]Row, error) {
	c := p.container("app", true, "exit 0")
	c.LinuxParameters = &types.LinuxParameters{Tmpfs: []types.Tmpfs{{ContainerPath: aws.String("/try"), Size: 16}}}
	arn, err := p.run(ctx, false, p.definition("tmpfs", c))
	seen := ""
	switch {
	case awscall.IsCode(err, "ClientException"):
		seen = "refused: " + err.Error()
	case err != nil:
		return nil, err
	default:
		t, err := p.await(ctx, arn, "it stops", begins, isStopped)
		if err != nil {
			return nil, err
		}
		if seen = "exits with " + code(container(t, "app")); code(container(t, "app")) == "none" {
			seen += ": " + aws.ToString(t.StoppedReason)
		}
	}
	return []Row{exact("tmpfs", "a container with a tmpfs that exits with 0", "exits with 0", seen)}, nil
}

// stop stops a task, and measures its life.
func stop(ctx context.Context, p *prober) ([]Row, error) {
	arn, err := p.run(ctx, false, p.definition("stop", p.container("app", true, "trap 'exit 7' TERM; sleep 200 & wait")))
	if err != nil {
		return nil, err
	}
	if err := p.runs(ctx, arn); err != nil {
		return nil, err
	}
	if _, err := p.clients.ECS.StopTask(
		ctx, &awsecs.StopTaskInput{Cluster: &p.cfg.Cluster, Task: &arn, Reason: &p.key},
	); err != nil {
		return nil, fmt.Errorf("stop task: %w", awscall.Classify(err))
	}
	t, err := p.await(ctx, arn, "it stops", begins, isStopped)
	if err != nil {
		return nil, err
	}
	rows := []Row{
		exact("stop.code", "stop code of a task that StopTask ended", "UserInitiated", string(t.StopCode)),
		exact("stop.exitCode", "exit code of a container that exits with 7 on SIGTERM", "7", code(container(t, "app"))),
	}
	for _, span := range []struct {
		name, question string
		from, to       *time.Time
	}{
		{"time.provision", "from RunTask until the pull begins", t.CreatedAt, t.PullStartedAt},
		{"time.pull", "from there until the container runs", t.PullStartedAt, t.StartedAt},
		{"time.deprovision", "from the container's end until STOPPED", t.ExecutionStoppedAt, t.StoppedAt},
	} {
		if span.from == nil || span.to == nil {
			rows = append(
				rows, unknown([]string{span.name}, backend.Errorf(backend.ErrUnavailable, "the task shows no such times"))...,
			)
			continue
		}
		rows = append(rows, measured(span.name, span.question, span.to.Sub(*span.from)))
	}
	return rows, nil
}

// image runs an image that is not there.
func image(ctx context.Context, p *prober) ([]Row, error) {
	c := p.container("app", true, "exit 0")
	name, _, _ := strings.Cut(p.image, "@")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name = name[:at]
	}
	c.Image = aws.String(name + ":not-found")
	arn, err := p.run(ctx, false, p.definition("image", c))
	if err != nil {
		return nil, err
	}
	t, err := p.await(ctx, arn, "it stops", begins, isStopped)
	if err != nil {
		return nil, err
	}
	return []Row{
		exact("image.stopCode", "stop code of a task whose image is not there", "TaskFailedToStart", string(t.StopCode)),
		exact("image.reason", "its reason", "CannotPullContainerError", containing(
			aws.ToString(t.StoppedReason), "CannotPullContainerError",
		)),
	}, nil
}

// ports registers what CoreDNS has: one port with two protocols; and one port of two
// containers.
func ports(ctx context.Context, p *prober) ([]Row, error) {
	mapping := func(protocol types.TransportProtocol) types.PortMapping {
		return types.PortMapping{ContainerPort: aws.Int32(5353), Protocol: protocol}
	}
	both := p.container("app", true, "exit 0")
	both.PortMappings = []types.PortMapping{mapping(types.TransportProtocolTcp), mapping(types.TransportProtocolUdp)}
	one, other := p.container("one", true, "exit 0"), p.container("other", true, "exit 0")
	one.PortMappings, other.PortMappings = both.PortMappings[:1], both.PortMappings[:1]
	answer := func(name string, containers ...types.ContainerDefinition) (string, error) {
		_, err := p.register(ctx, p.definition(name, containers...))
		if awscall.IsCode(err, "ClientException") {
			return "refused", nil
		}
		return "accepted", err
	}
	protocols, err := answer("protocols", both)
	if err != nil {
		return nil, err
	}
	twice, err := answer("twice", one, other)
	if err != nil {
		return nil, err
	}
	return []Row{
		exact("ports.protocols", "a container's port with TCP and with UDP", "refused", protocols),
		exact("ports.containers", "a port in two containers", "accepted", twice),
	}, nil
}

// execMemory looks what the agent of ECS Exec leaves of a container's memory.
func execMemory(ctx context.Context, p *prober) ([]Row, error) {
	small, large := p.container("small", false, "sleep 60"), p.container("large", false, "sleep 60")
	small.Memory, large.Memory = aws.Int32(32), aws.Int32(64)
	arn, err := p.run(ctx, true, p.definition("exec", small, large, p.container("bound", true, "sleep 60")))
	if err != nil {
		return nil, err
	}
	t, err := p.await(ctx, arn, "it stops", begins, isStopped)
	if err != nil {
		return nil, err
	}
	answer := func(name string) string {
		switch c := container(t, name); {
		case code(c) == "137" && strings.Contains(aws.ToString(c.Reason), "OutOfMemory"):
			return "killed"
		case code(c) == "0", code(c) == "137", code(c) == "143": // by itself, or with its task
			return "runs"
		default:
			return "exits with " + code(c) + ": " + aws.ToString(c.Reason)
		}
	}
	return []Row{
		exact("exec.32MiB", "a container with 32 MiB, with ECS Exec", "killed", answer("small")),
		exact("exec.64MiB", "a container with 64 MiB, with ECS Exec", "runs", answer("large")),
	}, nil
}
