package ecsrun

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

func TestTasks(t *testing.T) {
	host := remotehost.ForTest(t, linked)
	w := newWorld(t, host, ecs.Config{})
	for _, c := range []struct {
		name string
		f    func(*testing.T, *world)
	}{
		{"an init chain shares a volume and an essential end stops the rest", testChain},
		{"logs are read while they are written", testLogs},
		{"secrets and environment", testEnvironment},
		{"a file system outlives tasks", testFileSystem},
		{"a health check turns and others wait for it", testHealth},
		{"stop: grace, then SIGKILL, in reverse order", testStop},
		{"out of memory", testOutOfMemory},
		{"an image that is nowhere", testCannotPull},
		{"an image from a registry that wants credentials", testPull},
		{"a command that is not there", testCannotStart},
		{"a failed host leaves no exit codes", testFailedHost},
		{"Spot", testSpot},
		{"user, capabilities, root file system, limits", testSecurity},
		{"processes of a task seen by all", testPIDMode},
		{"metadata and credentials from inside", testMetadata},
		{"commands on terminals", testTerminal},
		{"a raw terminal", testRawTerminal},
		{"the agent of ECS Exec", testAgent},
	} {
		t.Run(c.name, func(t *testing.T) {
			mine := *w
			mine.t = t
			c.f(t, &mine)
		})
	}
}

func withVolume(name string) func(*sdk.RegisterTaskDefinitionInput) {
	return func(in *sdk.RegisterTaskDefinitionInput) {
		in.Volumes = append(in.Volumes, types.Volume{Name: &name, Host: &types.HostVolumeProperties{}})
	}
}

// exits compares exit codes.
func exits(t *testing.T, task types.Task, want map[string]int32) {
	t.Helper()
	for name, code := range want {
		if c := part(t, task, name); c.ExitCode == nil || *c.ExitCode != code {
			t.Errorf("%s, want %d: %s", name, code, summary(task))
		}
	}
}

func testChain(t *testing.T, w *world) {
	arn := w.run(withVolume("v"),
		shell("first", "stat -c '%a %u' /v; echo one >/v/f", mounted("v", "/v")),
		shell("second", "cat /v/f >&2; echo two >>/v/f", mounted("v", "/v"), after("first", types.ContainerConditionSuccess)),
		shell("side", "trap 'echo bye; exit 7' TERM; echo up; >/v/up; while true; do sleep 0.1; done",
			heeding, mounted("v", "/v"), after("second", types.ContainerConditionSuccess)),
		shell("app", "cat /v/f; until [ -e /v/up ]; do sleep 0.1; done; exit 3",
			essential, mounted("v", "/v"), after("side", types.ContainerConditionStart)))
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	if task.StopCode != types.TaskStopCodeEssentialContainerExited || task.ExecutionStoppedAt == nil ||
		task.StartedAt == nil {
		t.Error(summary(task))
	}
	exits(t, task, map[string]int32{"first": 0, "second": 0, "side": 7, "app": 3})
	for name, want := range map[string]string{
		"first": "755 0\n", "second": "one\n", "side": "up\nbye\n", "app": "one\ntwo\n",
	} {
		if got := w.log(arn, name); got != want {
			t.Errorf("log of %s: %q", name, got)
		}
	}
}

func testLogs(t *testing.T, w *world) {
	arn := w.run(nil, shell(
		"app", "echo one; echo two >&2; printf three; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo; echo four", essential,
	))
	w.awaitLog(arn, "app", "one\n")
	w.awaitLog(arn, "app", "two\n")
	if strings.Contains(w.log(arn, "app"), "three") {
		t.Error("half a line is an event")
	}
	w.do(arn, "app", "touch", "/tmp/go")
	w.until(arn, "STOPPED", inState("STOPPED"))
	if got := w.log(arn, "app"); !strings.HasSuffix(got, "three\nfour\n") {
		t.Errorf("%q", got)
	}
}

func testEnvironment(t *testing.T, w *world) {
	out, err := w.secrets.CreateSecret(
		t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String("s"), SecretString: aws.String(`{"k":"v 1","n":7}`)},
	)
	if err != nil {
		t.Fatal(err)
	}
	arn := w.run(nil, shell("app", `echo "[$A] [$S] [$N] $AWS_REGION $AWS_EXECUTION_ENV"; cat /etc/hosts; pwd`, essential, func(c *types.ContainerDefinition) {
		c.Environment = []types.KeyValuePair{{Name: aws.String("A"), Value: aws.String("a=b c")}}
		c.Secrets = []types.Secret{
			{Name: aws.String("S"), ValueFrom: aws.String(*out.ARN + ":k::")},
			{Name: aws.String("N"), ValueFrom: aws.String(*out.ARN + ":n::")},
		}
		c.WorkingDirectory = aws.String("/var")
	}))
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	address := ""
	for _, d := range task.Attachments[0].Details {
		if *d.Name == "privateIPv4Address" {
			address = *d.Value
		}
	}
	got := w.log(arn, "app")
	for _, want := range []string{"[a=b c] [v 1] [7] us-east-1 AWS_ECS_FARGATE\n", "127.0.0.1 localhost\n", address +
		" ip-", "\n/var\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func withFileSystem(root string) func(*sdk.RegisterTaskDefinitionInput) {
	return func(in *sdk.RegisterTaskDefinitionInput) {
		efs := &types.EFSVolumeConfiguration{FileSystemId: aws.String("fs-0123456789abcdef0"), RootDirectory: &root}
		in.Volumes = append(in.Volumes, types.Volume{Name: aws.String("efs"), EfsVolumeConfiguration: efs})
	}
}

func testFileSystem(t *testing.T, w *world) {
	one := w.run(
		withFileSystem("/"), shell("app", "mkdir -p /e/dir; echo kept >/e/dir/f", essential, mounted("efs", "/e")),
	)
	exits(t, w.until(one, "STOPPED", inState("STOPPED")), map[string]int32{"app": 0})
	two := w.run(withFileSystem("/dir"), shell("app", "cat /e/f", essential, mounted("efs", "/e")))
	exits(t, w.until(two, "STOPPED", inState("STOPPED")), map[string]int32{"app": 0})
	if got := w.log(two, "app"); got != "kept\n" {
		t.Errorf("%q", got)
	}
	none := w.run(withFileSystem("/none"), shell("app", "true", essential, mounted("efs", "/e")))
	task := w.until(none, "STOPPED", inState("STOPPED"))
	if task.StopCode != types.TaskStopCodeTaskFailedToStart ||
		!strings.HasPrefix(*task.StoppedReason, "ResourceInitializationError: failed to invoke EFS utils") {
		t.Error(summary(task))
	}
}

func testHealth(t *testing.T, w *world) {
	checked := func(c *types.ContainerDefinition) {
		c.HealthCheck = &types.HealthCheck{
			Command: []string{"CMD-SHELL", "test -e /tmp/well"}, Interval: aws.Int32(5), Retries: aws.Int32(1),
			Timeout:     aws.Int32(60),
			StartPeriod: aws.Int32(300), // until the test makes it well
		}
	}
	arn := w.run(nil, shell("app", "echo up; sleep 900", essential, checked),
		shell("next", "echo here", after("app", types.ContainerConditionHealthy)))
	w.awaitLog(arn, "app", "up")
	w.until(arn, "PENDING before it is well", inState("PENDING"))
	w.do(arn, "app", "touch", "/tmp/well")
	task := w.until(
		arn, "HEALTHY", func(task types.Task) bool { return part(t, task, "app").HealthStatus == types.HealthStatusHealthy },
	)
	if task.HealthStatus != types.HealthStatusHealthy {
		t.Error(summary(task))
	}
	w.awaitLog(arn, "next", "here")
	w.do(arn, "app", "rm", "/tmp/well")
	w.until(arn, "UNHEALTHY", func(task types.Task) bool {
		return part(t, task, "app").HealthStatus == types.HealthStatusUnhealthy && *task.LastStatus == "RUNNING"
	})
	w.stop(arn)
	w.until(arn, "STOPPED", inState("STOPPED"))
}

func testStop(t *testing.T, w *world) {
	arn := w.run(withVolume("v"),
		shell("base", "trap 'rm -f /v/f; sleep 0.5; [ -e /v/f ] || echo alone; until [ -e /tmp/go ]; do sleep 0.1; done; "+
			"exit 5' TERM; "+
			"echo up; while true; do sleep 0.1; done", essential, heeding, mounted("v", "/v")),
		shell("deaf", "trap '' TERM; echo up; while true; do sleep 0.1; : >/v/f; done", mounted("v", "/v"), after(
			"base", types.ContainerConditionStart,
		)))
	w.awaitLog(arn, "deaf", "up")
	w.awaitLog(arn, "base", "up")
	asked := time.Now()
	w.stop(arn)
	if task := w.task(arn); *task.DesiredStatus != "STOPPED" || *task.LastStatus == "STOPPED" {
		t.Error(summary(task))
	}
	w.do(arn, "base", "touch", "/tmp/go") // it lives at least until here
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	exits(t, task, map[string]int32{"deaf": 137, "base": 5})
	if took := time.Since(asked); took < 2*time.Second {
		t.Errorf("SIGKILL after %v, the grace is 2 s", took)
	}
	if task.StopCode != types.TaskStopCodeUserInitiated || part(t, task, "deaf").Reason != nil {
		t.Error(summary(task))
	}
	if got := w.log(arn, "base"); got != "up\nalone\n" {
		t.Errorf("base ended before what depends on it: %q", got)
	}
}

func testOutOfMemory(t *testing.T, w *world) {
	// The agent of ECS Exec takes 40 of its 56 MiB. containerd misses what is before it
	// watches, and can miss what ends its container too.
	const script = "until [ -e /tmp/go ]; do sleep 0.1; done; tail -c 30m /dev/zero; code=$?; until [ -e /tmp/told ]; " +
		"do sleep 0.1; done; exit $code"
	arn := w.run(nil, shell("app", script, essential, func(c *types.ContainerDefinition) { c.Memory = aws.Int32(56) }))
	w.until(arn, "RUNNING", inState("RUNNING"))
	w.do(arn, "app", "touch", "/tmp/go")
	w.eventually(
		func() string { return "containerd to tell of the lack: " + summary(w.task(arn)) },
		func() bool { return outOfMemory(t, w.host) },
	)
	w.do(arn, "app", "touch", "/tmp/told")
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	c := part(t, task, "app")
	if aws.ToInt32(c.ExitCode) != 137 || !strings.HasPrefix(aws.ToString(c.Reason), "OutOfMemoryError: ") {
		t.Error(summary(task))
	}
}

// outOfMemory says whether a container of a host lacked memory.
func outOfMemory(t *testing.T, host *remotehost.Host) bool {
	t.Helper()
	cri, _ := host.CRI()
	list, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.GetContainers(), func(c *runtimeapi.Container) bool {
		reply, err := cri.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		return err == nil && reply.GetStatus().GetReason() == oomKilled
	})
}

func testCannotPull(t *testing.T, w *world) {
	arn := w.run(nil, shell(
		"app", "true", essential, func(c *types.ContainerDefinition) { c.Image = aws.String("127.0.0.1:1/none:1") },
	))
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	if task.StopCode != types.TaskStopCodeTaskFailedToStart ||
		!strings.HasPrefix(*task.StoppedReason, "CannotPullContainerError: ") || part(t, task, "app").ExitCode != nil {
		t.Error(summary(task))
	}
}

func testPull(t *testing.T, w *world) {
	image, err := images.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	store := registry.New(registry.Private{User: "me", Password: "p:w"})
	if err := store.Push(image, "registry.test/app:1"); err != nil {
		t.Fatal(err)
	}
	if err := w.host.ServeRegistry(t.Context(), "registry.test", store); err != nil {
		t.Fatal(err)
	}
	login, err := w.secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
		Name: aws.String("login"), SecretString: aws.String(`{"username":"me","password":"p:w"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	app := shell(
		"app", "exit 8", essential, func(c *types.ContainerDefinition) { c.Image = aws.String("registry.test/app:1") },
	)
	arn := w.run(nil, app)
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	if !strings.HasPrefix(*task.StoppedReason, "CannotPullContainerError: ") {
		t.Errorf("without credentials: %s", summary(task))
	}
	app.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: login.ARN}
	arn = w.run(nil, app)
	task = w.until(arn, "STOPPED", inState("STOPPED"))
	exits(t, task, map[string]int32{"app": 8})
	if got := aws.ToString(part(t, task, "app").ImageDigest); got != digest.String() {
		t.Errorf("digest %s, want %s", got, digest)
	}
}

func testCannotStart(t *testing.T, w *world) {
	arn := w.run(nil, shell("app", "", essential, func(c *types.ContainerDefinition) { c.EntryPoint = []string{"/none"} }))
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	if task.StopCode != types.TaskStopCodeTaskFailedToStart ||
		!strings.Contains(aws.ToString(part(t, task, "app").Reason), "no such file or directory") {
		t.Error(summary(task))
	}
}

func testFailedHost(t *testing.T, w *world) {
	arn := w.run(nil, shell("app", "trap '' TERM; while true; do sleep 1; done", essential))
	w.until(arn, "RUNNING", inState("RUNNING"))
	w.server.FailHost(arn)
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	if task.StopCode != "InfrastructureHealth" || part(t, task, "app").ExitCode != nil {
		t.Error(summary(task))
	}
}

func testSpot(t *testing.T, w *world) {
	arn := w.run(
		nil, shell("app", "trap 'echo warned; exit 9' TERM; echo up; while true; do sleep 0.1; done", essential, heeding),
	)
	w.awaitLog(arn, "app", "up")
	w.server.InterruptSpot(arn)
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	exits(t, task, map[string]int32{"app": 9})
	if task.StopCode != types.TaskStopCodeSpotInterruption || w.log(arn, "app") != "up\nwarned\n" {
		t.Error(summary(task), w.log(arn, "app"))
	}
}
