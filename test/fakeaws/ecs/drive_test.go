package ecs

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// states are a task's as it goes through time, with when each began.
func states(t *testing.T, s *Server, arn string, seconds int) string {
	t.Helper()
	var out []string
	last := ""
	for i := range seconds {
		if st := *describe(t, client(s), arn).LastStatus; st != last {
			out = append(out, st+"@"+time.Duration(i*int(time.Second)).String())
			last = st
		}
		wait(time.Second)
	}
	return strings.Join(out, " ")
}

func TestLifeIsTheSameBothWays(t *testing.T) {
	for name, tc := range map[string]struct {
		d    *sdk.RegisterTaskDefinitionInput
		want string
	}{
		"essential end": {
			definitionOf(app("sleep", "5")),
			"PROVISIONING@0s PENDING@10s RUNNING@15s DEACTIVATING@20s DEPROVISIONING@21s STOPPED@29s",
		},
		"one that ignores SIGTERM": {
			definitionOf(app("sleep", "5"), func() types.ContainerDefinition {
				c := helperOf("deaf", "sh", "-c", "trap '' TERM; sleep 900")
				c.StopTimeout = aws.Int32(4)
				return c
			}()),
			"PROVISIONING@0s PENDING@10s RUNNING@15s DEACTIVATING@20s STOPPING@21s DEPROVISIONING@25s STOPPED@33s",
		},
		"init chain": {
			definitionOf(after(app("sleep", "5"), "init", "SUCCESS"), helperOf("init", "sleep", "3")),
			"PROVISIONING@0s PENDING@10s RUNNING@18s DEACTIVATING@23s DEPROVISIONING@24s STOPPED@32s",
		},
		"image that is nowhere": {
			func() *sdk.RegisterTaskDefinitionInput {
				c := app("true")
				c.Image = aws.String("missing:1")
				return definitionOf(c)
			}(),
			"PROVISIONING@0s PENDING@10s DEACTIVATING@15s DEPROVISIONING@16s STOPPED@24s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Delays: slow}, func(t *testing.T, s *Server) {
				if got := states(t, s, run(t, s, tc.d, nil), 40); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			})
		})
	}
}

func TestRestartPolicyOfDrivenContainers(t *testing.T) {
	driven(t, Config{}, func(t *testing.T, s *Server, r *fakeRunner) {
		side := helperOf("side", "sh", "-c", "echo run; sleep 61; exit 2")
		side.RestartPolicy = &types.ContainerRestartPolicy{Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(60)}
		short := helperOf("short", "sleep", "59")
		short.RestartPolicy = side.RestartPolicy
		ignored := helperOf("ignored", "sh", "-c", "sleep 61; exit 3")
		ignored.RestartPolicy = &types.ContainerRestartPolicy{
			Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(60), IgnoredExitCodes: []int32{3},
		}
		arn := run(t, s, definitionOf(app("sleep", "900"), side, short, ignored), nil)
		wait(200 * time.Second)
		runs := map[string]int{}
		for _, spec := range r.specs() {
			if spec.Run != runs[spec.Name] {
				t.Errorf("run %d of %s is numbered %d", runs[spec.Name], spec.Name, spec.Run)
			}
			runs[spec.Name]++
		}
		if runs["side"] != 4 || runs["short"] != 1 || runs["ignored"] != 1 {
			t.Errorf("%v", runs)
		}
		task := describe(t, client(s), arn)
		if c := container(t, task, "side"); *c.LastStatus != "RUNNING" ||
			*container(t, task, "short").LastStatus != "STOPPED" {
			t.Errorf("%s", *c.LastStatus)
		}
		var meta struct{ RestartCount int }
		ask(t, r, metadataPath+*container(t, task, "side").RuntimeId, &meta)
		if meta.RestartCount != 3 {
			t.Errorf("%+v", meta)
		}
	})
}

// ask gets something that tasks see.
func ask(t *testing.T, r *fakeRunner, path string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+MetadataHost+path, nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
	}
	return w.Code
}

func TestHealthOfDrivenContainersTurns(t *testing.T) {
	driven(t, Config{Kindness: Kindness{HealthAtOnce: true}}, func(t *testing.T, s *Server, _ *fakeRunner) {
		c := app("sh", "-c", "unhealthy 12; healthy 10; unhealthy; sleep 900")
		c.HealthCheck = &types.HealthCheck{
			Command: []string{"CMD", "/check"}, Interval: aws.Int32(5), Retries: aws.Int32(2), StartPeriod: aws.Int32(6),
		}
		arn := run(t, s, definitionOf(c), nil)
		var seen []string
		for i := range 40 {
			if st := string(describe(t, client(s), arn).Containers[0].HealthStatus); len(seen) == 0 ||
				!strings.HasPrefix(seen[len(seen)-1], st+"@") {
				seen = append(seen, st+"@"+time.Duration(i*int(time.Second)).String())
			}
			wait(time.Second)
		}
		// A failure at 5 s is in the start period, that at 10 s is one of two.
		if got, want := strings.Join(seen, " "), "UNKNOWN@0s HEALTHY@15s UNHEALTHY@30s"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestWhatCannotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		startup   error
		words     []string
		essential bool
		code      types.TaskStopCode
		reason    string
	}{
		"the network": {
			errors.New("no address"),
			[]string{"sleep", "9"},
			true, "TaskFailedToStart",
			"ResourceInitializationError: no address",
		},
		"an essential container": {
			nil, []string{"/unstartable"}, true, "TaskFailedToStart", "CannotStartContainerError: exec: ",
		},
		"one that is not needed": {
			nil, []string{"/unstartable"}, false, "EssentialContainerExited", "Essential container in task exited",
		},
		"one that others wait for": {
			nil, []string{"/unstartable"}, false, "EssentialContainerExited", "Essential container in task exited",
		},
	} {
		t.Run(name, func(t *testing.T) {
			driven(t, Config{Kindness: Kindness{StopsRefused: true}}, func(t *testing.T, s *Server, r *fakeRunner) {
				r.startup = tc.startup
				c := named("c", tc.words...)
				c.Essential = aws.Bool(tc.essential)
				main := app("sleep", "20")
				if name == "one that others wait for" {
					main = after(main, "c", "SUCCESS")
				}
				arn := run(t, s, definitionOf(main, c), nil)
				wait(30 * time.Second)
				task := describe(t, client(s), arn)
				if *task.LastStatus != "STOPPED" || task.StopCode != tc.code ||
					!strings.HasPrefix(*task.StoppedReason, tc.reason) || container(t, task, "c").ExitCode != nil {
					t.Errorf("%s %s %s", *task.LastStatus, task.StopCode, *task.StoppedReason)
				}
			})
		})
	}
}

func TestStopBeforeAnythingRuns(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second, 12 * time.Second} {
		driven(t, Config{Delays: slow}, func(t *testing.T, s *Server, r *fakeRunner) {
			arn := run(t, s, definitionOf(app("sleep", "900")), nil)
			wait(after)
			if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
				t.Fatal(err)
			}
			wait(10 * time.Second)
			task := describe(t, client(s), arn)
			if *task.LastStatus != "STOPPED" || task.StopCode != "UserInitiated" ||
				*task.Containers[0].LastStatus != "STOPPED" || task.Containers[0].ExitCode != nil || task.StartedAt != nil {
				t.Errorf("%s %s", *task.LastStatus, task.StopCode)
			}
			if len(r.specs()) != 0 || r.live() != 0 {
				t.Errorf("%d containers ran, %d tasks live", len(r.specs()), r.live())
			}
		})
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRunner{}
		s := New(Config{Runner: r, Delays: slow})
		run(t, s, definitionOf(app("sh", "-c", "trap '' TERM; sleep 900")), nil)
		wait(20 * time.Second)
		run(t, s, definitionOf(app("sleep", "900")), nil)
		begin := time.Now()
		s.Close()
		if took := time.Since(begin); took != 0 || r.live() != 0 {
			t.Errorf("%v, %d tasks live", took, r.live())
		}
	})
}

func TestSpecOfDrivenContainers(t *testing.T) {
	driven(t, Config{}, func(t *testing.T, s *Server, r *fakeRunner) {
		arn := create(t, s, "one", `{"user":"u","n":1.5}`)
		c := app("entry")
		c.Command, c.User, c.Cpu, c.Memory = []string{"a"}, aws.String("1:2"), 64, aws.Int32(128)
		c.Environment = []types.KeyValuePair{
			{Name: aws.String("A"), Value: aws.String("definition")}, {Name: aws.String("B"), Value: aws.String("kept")},
		}
		c.Secrets = []types.Secret{
			{Name: aws.String("S"), ValueFrom: aws.String(arn + ":user::")},
			{Name: aws.String("W"), ValueFrom: &arn},
			{Name: aws.String("N"), ValueFrom: aws.String(arn + ":n::")},
		}
		c.MountPoints = []types.MountPoint{{
			SourceVolume: aws.String("v"), ContainerPath: aws.String("/v"), ReadOnly: aws.Bool(true),
		}}
		c.LinuxParameters = &types.LinuxParameters{
			Tmpfs:        []types.Tmpfs{{ContainerPath: aws.String("/t"), Size: 5}},
			Capabilities: &types.KernelCapabilities{Drop: []string{"ALL"}},
		}
		c.SystemControls = []types.SystemControl{{Namespace: aws.String("net.core.somaxconn"), Value: aws.String("7")}}
		d := withRole(c)
		d.PidMode = types.PidModeTask
		d.Volumes = []types.Volume{
			{Name: aws.String("v")},
			{Name: aws.String("e"), EfsVolumeConfiguration: &types.EFSVolumeConfiguration{
				FileSystemId: aws.String("fs-01234567"), RootDirectory: aws.String("/d"),
			}},
		}
		run(t, s, d, func(in *sdk.RunTaskInput) {
			in.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
				Name: aws.String("app"), Command: []string{"b", "c"}, Memory: aws.Int32(64),
				Environment: []types.KeyValuePair{{Name: aws.String("A"), Value: aws.String("override")}},
			}}}
		})
		wait(time.Second)
		got := r.specs()[0]
		for _, kv := range []string{
			"A=override", "B=kept", "S=u", "N=1.5", `W={"user":"u","n":1.5}`, "AWS_REGION=us-east-1",
			"ECS_CONTAINER_METADATA_URI_V4=http://169.254.170.2/v4/" + got.ID,
		} {
			if !slices.Contains(got.Env, kv) {
				t.Errorf("no %q", kv)
			}
		}
		got.Env, got.Log = nil, nil
		want := ContainerSpec{
			ID: got.ID, Name: "app", Image: "busybox:1", EntryPoint: []string{"entry"}, Command: []string{"b", "c"}, User: "1:2",
			MemoryMiB: 64, CPU: 64,
			DropCaps: []string{"ALL"}, Mounts: []MountSpec{{"v", "/v", true}}, Tmpfs: []TmpfsSpec{{Path: "/t", SizeMiB: 5}},
			Ulimits: []Ulimit{{"nofile", 65535, 65535}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		for _, spec := range r.tasks {
			want := TaskSpec{
				ID: spec.ID, MemoryMiB: 512, CPU: 256, SharePID: true, Sysctls: map[string]string{"net.core.somaxconn": "7"},
				Volumes: []VolumeSpec{{Name: "v"}, {"e", "fs-01234567", "/d"}},
			}
			if !reflect.DeepEqual(spec, want) {
				t.Errorf("%+v\nwant %+v", spec, want)
			}
		}
	})
}

func TestTaskRoleOfDrivenTasks(t *testing.T) {
	driven(t, Config{AccessKey: "AKIDEXAMPLE"}, func(t *testing.T, s *Server, r *fakeRunner) {
		create(t, s, "one", "text")
		arn := run(t, s, withRole(app("sleep", "60")), nil)
		wait(time.Second)
		run(t, s, definitionOf(app("sleep", "60")), nil)
		wait(time.Second)
		path := func(spec ContainerSpec) string {
			i := slices.IndexFunc(
				spec.Env, func(kv string) bool { return strings.HasPrefix(kv, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=") },
			)
			if i < 0 {
				return ""
			}
			_, v, _ := strings.Cut(spec.Env[i], "=")
			return v
		}
		if path(r.specs()[1]) != "" {
			t.Error("a task without a role has credentials")
		}
		var keys struct{ RoleArn, AccessKeyID, SecretAccessKey, Token string }
		if code := ask(t, r, path(r.specs()[0]), &keys); code != http.StatusOK || keys.RoleArn != testRole {
			t.Fatalf("%d, %s", code, keys.RoleArn)
		}
		if code := ask(t, r, credentialsPath+"other", &keys); code != http.StatusBadRequest {
			t.Errorf("another id: %d", code)
		}
		read := func(token string) string {
			c := secretsmanager.New(secretsmanager.Options{
				Region: "us-east-1", BaseEndpoint: aws.String(Endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
				Credentials: credentials.NewStaticCredentialsProvider(keys.AccessKeyID, keys.SecretAccessKey, token),
			})
			_, err := c.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String("one")})
			return code(t, err)
		}
		if got := read(keys.Token); got != "" {
			t.Errorf("the role cannot read: %s", got)
		}
		if got := read("another"); got != "UnrecognizedClientException" {
			t.Errorf("with another token: %q", got)
		}
		s.Deny(Denial{Principal: TaskRole, Action: "secretsmanager:GetSecretValue"})
		if got := read(keys.Token); got != "AccessDeniedException" {
			t.Errorf("a role without the right: %q", got)
		}
		if !slices.Contains(s.Permissions(), "task secretsmanager:GetSecretValue") {
			t.Error(s.Permissions())
		}
		if _, err := client(s).DescribeTasks(t.Context(), &sdk.DescribeTasksInput{Tasks: []string{arn}}); err != nil {
			t.Errorf("the caller after a task: %v", err)
		}
	})
}

func TestMetadataOfDrivenTasks(t *testing.T) {
	driven(t, Config{}, func(t *testing.T, s *Server, r *fakeRunner) {
		arn := run(
			t, s, definitionOf(after(app("sleep", "60"), "first", "COMPLETE"), helperOf("first", "sh", "-c", "sleep 3; exit 4")),
			nil,
		)
		wait(time.Second)
		id := *container(t, describe(t, client(s), arn), "first").RuntimeId
		type part struct {
			Name, KnownStatus string
			ExitCode          int
		}
		type answer struct {
			TaskARN, KnownStatus string
			Containers           []part
		}
		for _, want := range []answer{
			{arn, "CREATED", []part{{"app", "NONE", 0}, {"first", "RUNNING", 0}}},
			{arn, "RUNNING", []part{{"app", "RUNNING", 0}, {"first", "STOPPED", 4}}},
		} {
			var got answer
			if ask(t, r, metadataPath+id+"/task", &got); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			wait(3 * time.Second)
		}
		if code := ask(t, r, metadataPath+"none", nil); code != http.StatusNotFound {
			t.Error(code)
		}
	})
}

func TestStatsOfDrivenTasks(t *testing.T) {
	driven(t, Config{}, func(t *testing.T, s *Server, r *fakeRunner) {
		arn := run(t, s, definitionOf(app("sleep", "60"), helperOf("first", "true")), nil)
		wait(time.Second)
		task := describe(t, client(s), arn)
		first, id := *container(t, task, "first").RuntimeId, *container(t, task, "app").RuntimeId
		var storage struct {
			EphemeralStorageMetrics struct{ Utilized, Reserved int }
		}
		ask(t, r, metadataPath+id+"/task", &storage)
		if got := storage.EphemeralStorageMetrics; got.Utilized != 6 || got.Reserved != 20*1024 {
			t.Errorf("%+v", got)
		}
		stats := map[string]*dockerStats{}
		ask(t, r, metadataPath+id+"/task/stats", &stats)
		wait(4 * time.Second)
		ask(t, r, metadataPath+id+"/task/stats", &stats)
		one := stats[id]
		if one == nil || one.CPU.Usage.Total-one.PreCPU.Usage.Total != uint64(2*time.Second) || one.Memory.Usage != 3<<20 ||
			one.Memory.Limit != 512<<20 || one.Networks["eth0"].RxBytes != 7 {
			t.Errorf("%+v", one)
		}
		if none, ok := stats[first]; none != nil || !ok {
			t.Errorf("one that has ended: %+v", none)
		}
	})
}

func TestEventsOfDrivenTasks(t *testing.T) {
	driven(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server, _ *fakeRunner) {
		run(t, s, definitionOf(app("sleep", "5")), nil)
		wait(10 * time.Second)
		var seen []string
		for _, m := range receive(t, s, 0) {
			var e struct{ Detail struct{ LastStatus string } }
			if err := json.Unmarshal([]byte(*m.Body), &e); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, e.Detail.LastStatus)
		}
		if len(seen) < 2 || !slices.Contains(seen, "RUNNING") || seen[len(seen)-1] != "STOPPED" {
			t.Errorf("%v", seen)
		}
	})
}

func TestExec(t *testing.T) {
	driven(t, Config{}, func(t *testing.T, s *Server, _ *fakeRunner) {
		arn := run(t, s, definitionOf(app("sleep", "60")), nil)
		wait(time.Second)
		var out strings.Builder
		code, err := s.Exec(t.Context(), ExecCall{TaskARN: arn, Container: "app", Argv: []string{"x"}, Stdout: &out})
		if code != 3 || err != nil || out.String() != "[x]\n" {
			t.Errorf("%d, %v, %q", code, err, out.String())
		}
		wait(time.Minute)
		if _, err := s.Exec(t.Context(), ExecCall{TaskARN: arn, Container: "app", Argv: []string{"x"}}); err == nil {
			t.Error("in a container that has ended")
		}
	})
}

func TestShutdownIsInReverseOrderBothWays(t *testing.T) {
	bothWays(t, Config{Kindness: Kindness{TermEnds: true}}, func(t *testing.T, s *Server) {
		deaf := after(helperOf("deaf", "sh", "-c", "trap '' TERM; sleep 900"), "app", "START")
		deaf.StopTimeout = aws.Int32(4)
		arn := run(t, s, definitionOf(app("sleep", "900"), deaf), nil)
		wait(time.Second)
		if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
			t.Fatal(err)
		}
		wait(3 * time.Second)
		if st := *container(t, describe(t, client(s), arn), "app").LastStatus; st != "RUNNING" {
			t.Errorf("what another depends on is %s before that has ended", st)
		}
		wait(2 * time.Second)
		task := describe(t, client(s), arn)
		if a, d := container(t, task, "app"), container(t, task, "deaf"); aws.ToInt32(a.ExitCode) != 143 ||
			aws.ToInt32(d.ExitCode) != 137 {
			t.Errorf("%d, %d", aws.ToInt32(a.ExitCode), aws.ToInt32(d.ExitCode))
		}
	})
}
