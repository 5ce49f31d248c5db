package ecs

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

type definitionInput = *sdk.RegisterTaskDefinitionInput

// first changes the first container of a definition.
func firstOf(f func(*types.ContainerDefinition)) func(definitionInput) {
	return func(d definitionInput) { f(&d.ContainerDefinitions[0]) }
}

const clientEx = "ClientException"

func checkRegister(t *testing.T, cases map[string]registerCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := withRole(app("sleep", "1"))
			tc.change(d)
			_, err := client(New(Config{})).RegisterTaskDefinition(context.Background(), d)
			if got := code(t, err); got != tc.want {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

type registerCase struct {
	change func(definitionInput)
	want   string
}

func TestVolumeRules(t *testing.T) {
	volume := func(v types.Volume) func(definitionInput) {
		return func(d definitionInput) {
			v.Name = aws.String("v")
			d.Volumes = []types.Volume{v}
			d.ContainerDefinitions[0].MountPoints = []types.MountPoint{{
				SourceVolume: aws.String("v"), ContainerPath: aws.String("/v"),
			}}
		}
	}
	efs := func(f func(*types.EFSVolumeConfiguration)) func(definitionInput) {
		e := &types.EFSVolumeConfiguration{
			FileSystemId: aws.String("fs-0123456789abcdef0"), TransitEncryption: types.EFSTransitEncryptionEnabled,
		}
		f(e)
		return volume(types.Volume{EfsVolumeConfiguration: e})
	}
	point := &types.EFSAuthorizationConfig{
		AccessPointId: aws.String("fsap-0123456789abcdef0"), Iam: types.EFSAuthorizationConfigIAMEnabled,
	}
	checkRegister(t, map[string]registerCase{
		"bind":         {volume(types.Volume{Host: &types.HostVolumeProperties{}}), ""},
		"nothing":      {volume(types.Volume{}), ""},
		"sourcePath":   {volume(types.Volume{Host: &types.HostVolumeProperties{SourcePath: aws.String("/x")}}), clientEx},
		"docker":       {volume(types.Volume{DockerVolumeConfiguration: &types.DockerVolumeConfiguration{}}), clientEx},
		"efs":          {efs(func(*types.EFSVolumeConfiguration) {}), ""},
		"efs id":       {efs(func(e *types.EFSVolumeConfiguration) { e.FileSystemId = aws.String("x") }), clientEx},
		"access point": {efs(func(e *types.EFSVolumeConfiguration) { e.AuthorizationConfig = point }), ""},
		"point and root": {efs(func(e *types.EFSVolumeConfiguration) {
			e.AuthorizationConfig, e.RootDirectory = point, aws.String("/a")
		}), clientEx},
		"point in clear": {
			efs(func(e *types.EFSVolumeConfiguration) { e.AuthorizationConfig, e.TransitEncryption = point, "" }), clientEx,
		},
		"iam without a role": {func(d definitionInput) {
			efs(func(e *types.EFSVolumeConfiguration) { e.AuthorizationConfig = point })(d)
			d.TaskRoleArn = nil
		}, clientEx},
		"twice": {
			func(d definitionInput) { d.Volumes = []types.Volume{{Name: aws.String("v")}, {Name: aws.String("v")}} }, clientEx,
		},
		"no name": {func(d definitionInput) { d.Volumes = []types.Volume{{}} }, clientEx},
		"unknown": {firstOf(func(c *types.ContainerDefinition) {
			c.MountPoints = []types.MountPoint{{SourceVolume: aws.String("v"), ContainerPath: aws.String("/v")}}
		}), clientEx},
		"relative": {func(d definitionInput) {
			volume(types.Volume{})(d)
			d.ContainerDefinitions[0].MountPoints[0].ContainerPath = aws.String("v")
		}, clientEx},
		"volumesFrom nobody": {firstOf(func(c *types.ContainerDefinition) {
			c.VolumesFrom = []types.VolumeFrom{{SourceContainer: aws.String("x")}}
		}), clientEx},
	})
}

func TestLinuxRules(t *testing.T) {
	linux := func(lp types.LinuxParameters) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) { c.LinuxParameters = &lp })
	}
	mount := func(ts ...types.Tmpfs) func(definitionInput) { return linux(types.LinuxParameters{Tmpfs: ts}) }
	limits := func(us ...types.Ulimit) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) { c.Ulimits = us })
	}
	control := func(ns, v string) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.SystemControls = []types.SystemControl{{Namespace: &ns, Value: &v}}
		})
	}
	p := aws.String("/t")
	checkRegister(t, map[string]registerCase{
		"tmpfs": {
			mount(types.Tmpfs{ContainerPath: p, Size: 64, MountOptions: []string{"noexec", "mode=1777"}}), "",
		},
		"tmpfs size":   {mount(types.Tmpfs{ContainerPath: p}), clientEx},
		"tmpfs path":   {mount(types.Tmpfs{ContainerPath: aws.String("t"), Size: 1}), clientEx},
		"tmpfs twice":  {mount(types.Tmpfs{ContainerPath: p, Size: 1}, types.Tmpfs{ContainerPath: p, Size: 1}), clientEx},
		"tmpfs option": {mount(types.Tmpfs{ContainerPath: p, Size: 1, MountOptions: []string{"x"}}), clientEx},
		"drop ALL": {
			linux(types.LinuxParameters{Capabilities: &types.KernelCapabilities{Drop: []string{"ALL"}}}), "",
		},
		"drop unknown": {
			linux(types.LinuxParameters{Capabilities: &types.KernelCapabilities{Drop: []string{"CAP_ALL"}}}), clientEx,
		},
		"shared memory": {linux(types.LinuxParameters{SharedMemorySize: aws.Int32(64)}), clientEx},
		"init process":  {linux(types.LinuxParameters{InitProcessEnabled: aws.Bool(true)}), ""},
		"nofile":        {limits(types.Ulimit{Name: types.UlimitNameNofile, SoftLimit: 1024, HardLimit: 1 << 20}), ""},
		"nofile too high": {
			limits(types.Ulimit{Name: types.UlimitNameNofile, SoftLimit: 1, HardLimit: 1<<20 + 1}), clientEx,
		},
		"soft above hard":  {limits(types.Ulimit{Name: types.UlimitNameCore, SoftLimit: 2, HardLimit: 1}), clientEx},
		"unknown ulimit":   {limits(types.Ulimit{Name: "x"}), clientEx},
		"net control":      {control("net.core.somaxconn", "1024"), ""},
		"kernel control":   {control("kernel.shmmax", "1"), ""},
		"vm control":       {control("vm.max_map_count", "1"), clientEx},
		"control no value": {control("net.core.somaxconn", ""), clientEx},
		"gpu": {firstOf(func(c *types.ContainerDefinition) {
			c.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: aws.String("1")}}
		}), clientEx},
	})
}

func TestHealthAndRestartRules(t *testing.T) {
	check := func(f func(*types.HealthCheck)) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.HealthCheck = &types.HealthCheck{Command: []string{"CMD", "true"}}
			f(c.HealthCheck)
		})
	}
	restart := func(f func(*types.ContainerRestartPolicy)) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.RestartPolicy = &types.ContainerRestartPolicy{Enabled: aws.Bool(true)}
			f(c.RestartPolicy)
		})
	}
	checkRegister(t, map[string]registerCase{
		"health":      {check(func(*types.HealthCheck) {}), ""},
		"shell":       {check(func(h *types.HealthCheck) { h.Command = []string{"CMD-SHELL", "exit 0"} }), ""},
		"shell words": {check(func(h *types.HealthCheck) { h.Command = []string{"CMD-SHELL", "exit", "0"} }), clientEx},
		"no CMD":      {check(func(h *types.HealthCheck) { h.Command = []string{"true"} }), clientEx},
		"interval":    {check(func(h *types.HealthCheck) { h.Interval = aws.Int32(4) }), clientEx},
		"timeout":     {check(func(h *types.HealthCheck) { h.Timeout = aws.Int32(61) }), clientEx},
		"retries":     {check(func(h *types.HealthCheck) { h.Retries = aws.Int32(11) }), clientEx},
		"startPeriod": {check(func(h *types.HealthCheck) { h.StartPeriod = aws.Int32(301) }), clientEx},
		"restart":     {restart(func(r *types.ContainerRestartPolicy) { r.RestartAttemptPeriod = aws.Int32(60) }), ""},
		"restart too soon": {
			restart(func(r *types.ContainerRestartPolicy) { r.RestartAttemptPeriod = aws.Int32(59) }), clientEx,
		},
		"ignored codes": {
			restart(func(r *types.ContainerRestartPolicy) { r.IgnoredExitCodes = make([]int32, 51) }), clientEx,
		},
		"HEALTHY without a check": {func(d definitionInput) {
			d.ContainerDefinitions = append(d.ContainerDefinitions, after(named("b"), "app", types.ContainerConditionHealthy))
		}, clientEx},
		"HEALTHY": {func(d definitionInput) {
			check(func(*types.HealthCheck) {})(d)
			d.ContainerDefinitions = append(d.ContainerDefinitions, after(named("b"), "app", types.ContainerConditionHealthy))
		}, ""},
		"cycle": {func(d definitionInput) {
			d.ContainerDefinitions[0] = after(d.ContainerDefinitions[0], "b", types.ContainerConditionStart)
			d.ContainerDefinitions = append(d.ContainerDefinitions, after(named("b"), "app", types.ContainerConditionStart))
		}, clientEx},
	})
}

func TestEnvironmentRules(t *testing.T) {
	const arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:a-AbCdEf"
	secret := func(from string) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: &from}}
		})
	}
	login := func(arn string) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: &arn}
		})
	}
	driver := func(f func(*types.LogConfiguration)) func(definitionInput) {
		return firstOf(func(c *types.ContainerDefinition) {
			c.LogConfiguration = logTo("g")
			f(c.LogConfiguration)
		})
	}
	checkRegister(t, map[string]registerCase{
		"secret":    {secret(arn), ""},
		"json key":  {secret(arn + ":k::"), ""},
		"one colon": {secret(arn + ":k"), clientEx},
		"no role":   {func(d definitionInput) { secret(arn)(d); d.ExecutionRoleArn = nil }, clientEx},
		"no from":   {secret(""), clientEx},
		"name twice": {func(d definitionInput) {
			secret(arn)(d)
			c := &d.ContainerDefinitions[0]
			c.Secrets = append(c.Secrets, c.Secrets[0])
		}, clientEx},
		"also in env": {func(d definitionInput) {
			secret(arn)(d)
			d.ContainerDefinitions[0].Environment = []types.KeyValuePair{{Name: aws.String("S")}}
		}, clientEx},
		"login":      {login(arn), ""},
		"login name": {login("a"), clientEx},
		"file": {firstOf(func(c *types.ContainerDefinition) {
			c.EnvironmentFiles = []types.EnvironmentFile{{
				Type: types.EnvironmentFileTypeS3, Value: aws.String("arn:aws:s3:::b/x.txt"),
			}}
		}), clientEx},
		"logs":        {driver(func(*types.LogConfiguration) {}), ""},
		"mode":        {driver(func(l *types.LogConfiguration) { l.Options["mode"] = "x" }), clientEx},
		"log option":  {driver(func(l *types.LogConfiguration) { l.Options["tag"] = "x" }), clientEx},
		"json-file":   {driver(func(l *types.LogConfiguration) { l.LogDriver = "json-file" }), clientEx},
		"role":        {func(d definitionInput) { d.TaskRoleArn = aws.String("arn:aws:iam::1:role/x") }, clientEx},
		"consistency": {firstOf(func(c *types.ContainerDefinition) { c.VersionConsistency = "x" }), clientEx},
	})
}

func logTo(group string) *types.LogConfiguration {
	return &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
		"awslogs-group": group, "awslogs-region": "us-east-1", "awslogs-stream-prefix": "p",
	}}
}

// listed counts the revisions of family f with a status.
func listed(t *testing.T, c *sdk.Client, status types.TaskDefinitionStatus) int {
	t.Helper()
	l, err := c.ListTaskDefinitions(
		t.Context(), &sdk.ListTaskDefinitionsInput{FamilyPrefix: aws.String("f"), Status: status},
	)
	if err != nil {
		t.Fatal(err)
	}
	return len(l.TaskDefinitionArns)
}

func TestDefinitionLists(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		for range 2 {
			d := definitionOf(app("sleep", "60"))
			d.Tags = []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
			if _, err := c.RegisterTaskDefinition(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		out, err := c.DescribeTaskDefinition(t.Context(), &sdk.DescribeTaskDefinitionInput{
			TaskDefinition: aws.String("f:1"), Include: []types.TaskDefinitionField{"TAGS"},
		})
		if err != nil || len(out.Tags) != 1 {
			t.Fatalf("%v, %v", out, err)
		}
		if _, err := c.DeregisterTaskDefinition(
			t.Context(), &sdk.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("f:1")},
		); err != nil {
			t.Fatal(err)
		}
		if a, i := listed(t, c, ""), listed(t, c, "INACTIVE"); a != 1 || i != 1 {
			t.Fatalf("%d ACTIVE, %d INACTIVE", a, i)
		}
		fams, err := c.ListTaskDefinitionFamilies(
			t.Context(), &sdk.ListTaskDefinitionFamiliesInput{Status: types.TaskDefinitionFamilyStatusActive},
		)
		if err != nil || fmt.Sprint(fams.Families) != "[f]" {
			t.Fatalf("%v, %v", fams, err)
		}
	})
}

func TestDeleteDefinitions(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, s *Server, c *sdk.Client) {
		arn := run(t, s, definitionOf(app("nginx")), nil)
		del := func(name string) (*sdk.DeleteTaskDefinitionsOutput, error) {
			return c.DeleteTaskDefinitions(t.Context(), &sdk.DeleteTaskDefinitionsInput{TaskDefinitions: []string{name}})
		}
		if out, err := del("f:1"); err != nil || len(out.Failures) != 1 {
			t.Fatalf("an ACTIVE one is deleted: %v, %v", out, err)
		}
		if _, err := del("f"); code(t, err) != "InvalidParameterException" {
			t.Fatalf("without a revision: %v", err)
		}
		if _, err := c.DeregisterTaskDefinition(
			t.Context(), &sdk.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("f:1")},
		); err != nil {
			t.Fatal(err)
		}
		if out, err := del("f:1"); err != nil || len(out.TaskDefinitions) != 1 || listed(t, c, "DELETE_IN_PROGRESS") != 1 {
			t.Fatalf("%v, %v", out, err)
		}
		if _, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
			t.Fatal(err)
		}
		if n := listed(t, c, "DELETE_IN_PROGRESS"); n != 0 || len(s.Definitions()) != 0 {
			t.Fatalf("%d are still there without a task, %v", n, s.Definitions())
		}
		out, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("true")))
		if err != nil || out.TaskDefinition.Revision != 2 {
			t.Fatalf("a number is given again: %v, %v", out, err)
		}
	})
}

func TestListDefinitionPages(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		for range 5 {
			if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("true"))); err != nil {
				t.Fatal(err)
			}
		}
		p := sdk.NewListTaskDefinitionsPaginator(
			c, &sdk.ListTaskDefinitionsInput{MaxResults: aws.Int32(2), Sort: types.SortOrderDesc},
		)
		n := 0
		for p.HasMorePages() {
			page, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, arn := range page.TaskDefinitionArns { // what was listed may go meanwhile
				if _, err := c.DeregisterTaskDefinition(
					t.Context(), &sdk.DeregisterTaskDefinitionInput{TaskDefinition: &arn},
				); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		if n != 5 {
			t.Fatalf("%d listed", n)
		}
	})
}

func TestTags(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, s *Server, c *sdk.Client) {
		arn := launch(t, c, app("sleep", "60"))
		tag := func(k, v string) error {
			_, err := c.TagResource(
				t.Context(), &sdk.TagResourceInput{ResourceArn: &arn, Tags: []types.Tag{{Key: &k, Value: &v}}},
			)
			return err
		}
		if err := tag("a", "1"); err != nil {
			t.Fatal(err)
		}
		if err := tag("a", "2"); err != nil {
			t.Fatal(err)
		}
		if got := code(t, tag("aws:a", "1")); got != "InvalidParameterException" {
			t.Fatal(got)
		}
		out, err := c.ListTagsForResource(t.Context(), &sdk.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil || len(out.Tags) != 1 || *out.Tags[0].Value != "2" {
			t.Fatalf("%v, %v", out, err)
		}
		if _, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
			t.Fatal(err)
		}
		if got := code(t, tag("b", "1")); got != "InvalidParameterException" {
			t.Fatalf("a stopped task: %s", got)
		}
		arn = s.arn("task/default/nope")
		if got := code(t, tag("b", "1")); got != "ResourceNotFoundException" {
			t.Fatalf("no task: %s", got)
		}
	})
}
