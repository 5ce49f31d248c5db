package ecsrun

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	region  = "us-east-1"
	role    = "arn:aws:iam::123456789012:role/task"
	group   = "logs"
	prefix  = "p"
	timeout = 3 * time.Minute
)

// world is a server that runs tasks on a host of its own.
type world struct {
	t       *testing.T
	host    *remotehost.Host
	server  *ecs.Server
	ecs     *sdk.Client
	logs    *cloudwatchlogs.Client
	secrets *secretsmanager.Client
	close   func() error // ends the server and removes its tasks, once
}

// newWorld starts one; the test is skipped where it cannot be.
func newWorld(t *testing.T, host *remotehost.Host, cfg ecs.Config) *world {
	t.Helper()
	runner, err := OnHost(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Runner, cfg.LogGroups = runner, []string{group}
	cfg.Kindness.LogsAtOnce, cfg.Kindness.HealthAtOnce = true, true // what containers do is read in their logs
	w := &world{t: t, host: host, server: ecs.New(cfg)}
	url, stop, err := w.server.Listen(host.Gateway().String() + ":0")
	if err != nil {
		t.Fatal(err)
	}
	direct := &http.Client{Transport: &http.Transport{}}
	w.close = sync.OnceValue(func() error {
		direct.CloseIdleConnections()
		stop()
		w.server.Close()
		return runner.Close()
	})
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Errorf("close runner: %v", err)
		}
	})
	keys := credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", "")
	w.ecs = sdk.New(sdk.Options{Region: region, BaseEndpoint: &url, Credentials: keys, HTTPClient: direct})
	w.logs = cloudwatchlogs.New(cloudwatchlogs.Options{
		Region: region, BaseEndpoint: &url, Credentials: keys, HTTPClient: direct,
	})
	w.secrets = secretsmanager.New(secretsmanager.Options{
		Region: region, BaseEndpoint: &url, Credentials: keys, HTTPClient: direct,
	})
	return w
}

func linked(cfg *remotehost.Config) { cfg.Linked = true }

// shell is a container that runs a script and logs.
func shell(name, script string, change ...func(*types.ContainerDefinition)) types.ContainerDefinition {
	c := types.ContainerDefinition{
		Name: &name, Image: aws.String(images.BusyboxRef), EntryPoint: []string{"sh", "-c", script},
		Essential:   aws.Bool(false),
		StopTimeout: aws.Int32(2),
		LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
			"awslogs-group": group, "awslogs-region": region, "awslogs-stream-prefix": prefix,
		}},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func essential(c *types.ContainerDefinition) { c.Essential = aws.Bool(true) }

// heeding is for what ends by SIGTERM: it has all the time that ECS gives.
func heeding(c *types.ContainerDefinition) { c.StopTimeout = aws.Int32(120) }

func after(name string, cond types.ContainerCondition) func(*types.ContainerDefinition) {
	return func(c *types.ContainerDefinition) {
		c.DependsOn = append(c.DependsOn, types.ContainerDependency{ContainerName: &name, Condition: cond})
	}
}

func mounted(volume, path string) func(*types.ContainerDefinition) {
	return func(c *types.ContainerDefinition) {
		c.MountPoints = append(c.MountPoints, types.MountPoint{SourceVolume: &volume, ContainerPath: &path})
	}
}

// run runs a task of these containers.
func (w *world) run(change func(*sdk.RegisterTaskDefinitionInput), cs ...types.ContainerDefinition) string {
	w.t.Helper()
	in := &sdk.RegisterTaskDefinitionInput{
		Family: aws.String("f"), NetworkMode: types.NetworkModeAwsvpc, Cpu: aws.String("256"), Memory: aws.String("512"),
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate}, ContainerDefinitions: cs,
		ExecutionRoleArn: aws.String(role), TaskRoleArn: aws.String(role),
	}
	if change != nil {
		change(in)
	}
	if _, err := w.ecs.RegisterTaskDefinition(w.t.Context(), in); err != nil {
		w.t.Fatal(err)
	}
	out, err := w.ecs.RunTask(w.t.Context(), &sdk.RunTaskInput{
		TaskDefinition: aws.String("f"), LaunchType: types.LaunchTypeFargate, StartedBy: aws.String("me"),
		EnableExecuteCommand: true,
		NetworkConfiguration: &types.NetworkConfiguration{
			AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}},
		},
	})
	if err != nil || len(out.Tasks) != 1 {
		w.t.Fatalf("%v, %+v", err, out)
	}
	return *out.Tasks[0].TaskArn
}

func (w *world) task(arn string) types.Task {
	w.t.Helper()
	out, err := w.ecs.DescribeTasks(w.t.Context(), &sdk.DescribeTasksInput{Tasks: []string{arn}})
	if err != nil || len(out.Tasks) != 1 {
		w.t.Fatalf("%v, %+v", err, out)
	}
	return out.Tasks[0]
}

func (w *world) stop(arn string) {
	w.t.Helper()
	if _, err := w.ecs.StopTask(w.t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
		w.t.Fatal(err)
	}
}

// do runs a command in a container.
func (w *world) do(arn, container string, argv ...string) {
	w.t.Helper()
	if code, err := w.server.Exec(
		w.t.Context(), ecs.ExecCall{TaskARN: arn, Container: container, Argv: argv},
	); code != 0 || err != nil {
		w.t.Fatalf("%q: %d, %v", argv, code, err)
	}
}

// until waits until a task is as wanted.
func (w *world) until(arn, what string, is func(types.Task) bool) types.Task {
	w.t.Helper()
	var last types.Task
	w.eventually(func() string {
		return fmt.Sprintf(
			"%s: %s, log:\n%s", what, summary(last), w.log(arn, ""),
		)
	}, func() bool {
		last = w.task(arn)
		return is(last)
	})
	return last
}

func (w *world) eventually(what func() string, is func() bool) {
	w.t.Helper()
	wait.For(w.t, timeout, "a task", func() error {
		if !is() {
			return lazy(what)
		}
		return nil
	})
}

// lazy is an error whose text takes questions to find.
type lazy func() string

func (l lazy) Error() string { return l() }

func inState(want string) func(types.Task) bool {
	return func(t types.Task) bool { return *t.LastStatus == want }
}

func part(t *testing.T, task types.Task, name string) types.Container {
	t.Helper()
	for _, c := range task.Containers {
		if *c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return types.Container{}
}

func summary(task types.Task) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %q", aws.ToString(task.LastStatus), task.StopCode, aws.ToString(task.StoppedReason))
	for _, c := range task.Containers {
		fmt.Fprintf(&b, "; %s %s %s", *c.Name, *c.LastStatus, c.HealthStatus)
		if c.ExitCode != nil {
			fmt.Fprintf(&b, " %d", *c.ExitCode)
		}
		fmt.Fprintf(&b, " %q", aws.ToString(c.Reason))
	}
	return b.String()
}

// log is what a container wrote, all of them for "".
func (w *world) log(arn, name string) string {
	w.t.Helper()
	id := arn[strings.LastIndex(arn, "/")+1:]
	var b strings.Builder
	for _, stream := range w.server.Streams(group) {
		if !strings.HasSuffix(stream, id) || name != "" && stream != prefix+"/"+name+"/"+id {
			continue
		}
		out, err := w.logs.GetLogEvents(w.t.Context(), &cloudwatchlogs.GetLogEventsInput{
			LogGroupName: aws.String(group), LogStreamName: &stream, StartFromHead: aws.Bool(true),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range out.Events {
			b.WriteString(*e.Message + "\n")
		}
	}
	return b.String()
}

func (w *world) awaitLog(arn, name, text string) {
	w.t.Helper()
	w.eventually(func() string {
		return fmt.Sprintf("%q in the log of %s: %q; %s", text, name, w.log(arn, name), summary(w.task(arn)))
	}, func() bool {
		return strings.Contains(w.log(arn, name), text)
	})
}
