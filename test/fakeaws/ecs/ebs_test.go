package ecs

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// withOpenVolume is a definition with a volume that is configured at launch.
func withOpenVolume(words ...string) *sdk.RegisterTaskDefinitionInput {
	d := definitionOf(app(words...))
	d.Volumes = []types.Volume{{Name: aws.String("data"), ConfiguredAtLaunch: aws.Bool(true)}}
	d.ContainerDefinitions[0].MountPoints = []types.MountPoint{{
		SourceVolume: aws.String("data"), ContainerPath: aws.String("/data"),
	}}
	return d
}

// withDisk configures the volume of a request.
func withDisk(change func(*types.TaskManagedEBSVolumeConfiguration)) func(*sdk.RunTaskInput) {
	return func(r *sdk.RunTaskInput) {
		e := &types.TaskManagedEBSVolumeConfiguration{RoleArn: aws.String(testRole), SizeInGiB: aws.Int32(720)}
		if change != nil {
			change(e)
		}
		r.VolumeConfigurations = []types.TaskVolumeConfiguration{{Name: aws.String("data"), ManagedEBSVolume: e}}
	}
}

func TestVolumesConfiguredAtLaunch(t *testing.T) {
	open := types.Volume{Name: aws.String("data"), ConfiguredAtLaunch: aws.Bool(true)}
	for name, tc := range map[string]struct {
		volumes []types.Volume
		want    string
	}{
		"one": {[]types.Volume{open}, ""},
		"two": {[]types.Volume{open, {Name: aws.String("more"), ConfiguredAtLaunch: aws.Bool(true)}}, clientEx},
		"and a host": {
			[]types.Volume{{Name: open.Name, ConfiguredAtLaunch: open.ConfiguredAtLaunch, Host: &types.HostVolumeProperties{}}},
			clientEx,
		},
		"beside one": {[]types.Volume{open, {Name: aws.String("more"), Host: &types.HostVolumeProperties{}}}, ""},
	} {
		d := definitionOf(app("true"))
		d.Volumes = tc.volumes
		_, err := client(New(Config{})).RegisterTaskDefinition(t.Context(), d)
		if got := code(t, err); got != tc.want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, tc.want)
		}
	}
}

func TestVolumeConfigurationRules(t *testing.T) {
	const invalid = "InvalidParameterException"
	type ebs = *types.TaskManagedEBSVolumeConfiguration
	typed := func(kind string, size, iops, throughput int32) func(*sdk.RunTaskInput) {
		return withDisk(func(e ebs) {
			e.VolumeType, e.SizeInGiB = aws.String(kind), aws.Int32(size)
			if iops > 0 {
				e.Iops = aws.Int32(iops)
			}
			if throughput > 0 {
				e.Throughput = aws.Int32(throughput)
			}
		})
	}
	tagged := func(kind types.EBSResourceType, key string) func(*sdk.RunTaskInput) {
		return withDisk(func(e ebs) {
			e.TagSpecifications = []types.EBSTagSpecification{{
				ResourceType: kind, Tags: []types.Tag{{Key: aws.String(key), Value: aws.String("v")}},
			}}
		})
	}
	for name, tc := range map[string]struct {
		change     func(*sdk.RunTaskInput)
		want, text string
	}{
		"configured":     {withDisk(nil), "", ""},
		"not configured": {func(*sdk.RunTaskInput) {}, invalid, "Exactly one"},
		"twice": {func(r *sdk.RunTaskInput) {
			withDisk(nil)(r)
			r.VolumeConfigurations = append(r.VolumeConfigurations, r.VolumeConfigurations[0])
		}, invalid, "Exactly one"},
		"another name": {func(r *sdk.RunTaskInput) {
			withDisk(nil)(r)
			r.VolumeConfigurations[0].Name = aws.String("other")
		}, invalid, "does not match"},
		"empty": {func(r *sdk.RunTaskInput) {
			withDisk(nil)(r)
			r.VolumeConfigurations[0].ManagedEBSVolume = nil
		}, invalid, "managedEBSVolume"},
		"a role that is none": {withDisk(func(e ebs) { e.RoleArn = aws.String("volumes") }), invalid, "roleArn"},
		"no size":             {withDisk(func(e ebs) { e.SizeInGiB = nil }), invalid, "sizeInGiB or snapshotId"},
		"a snapshot": {
			withDisk(func(e ebs) { e.SizeInGiB, e.SnapshotId = nil, aws.String("snap-0123456789abcdef0") }), "", "",
		},
		"a snapshot that is none": {withDisk(func(e ebs) { e.SnapshotId = aws.String("s") }), invalid, "snapshotId"},
		"a rate, no snapshot": {
			withDisk(func(e ebs) { e.VolumeInitializationRate = aws.Int32(100) }), invalid, "volumeInitializationRate",
		},
		"0 GiB":                    {typed("gp3", 0, 0, 0), invalid, "sizeInGiB"},
		"16,385 GiB":               {typed("gp3", 16385, 0, 0), invalid, "sizeInGiB"},
		"io1 of 3 GiB":             {typed("io1", 3, 100, 0), invalid, "sizeInGiB"},
		"io2 of 4 GiB":             {typed("io2", 4, 100, 0), "", ""},
		"io2 without iops":         {typed("io2", 4, 0, 0), invalid, "iops is required"},
		"st1 of 124 GiB":           {typed("st1", 124, 0, 0), invalid, "sizeInGiB"},
		"sc1 with iops":            {typed("sc1", 125, 100, 0), invalid, "iops is not"},
		"gp3 of 2,999 iops":        {typed("gp3", 10, 2999, 0), invalid, "iops"},
		"gp3 of 16,000 iops":       {typed("gp3", 100, 16000, 1000), "", ""},
		"gp3 of 1,001 MiB/s":       {typed("gp3", 100, 16000, 1001), invalid, "throughput"},
		"gp2 with throughput":      {typed("gp2", 10, 0, 125), invalid, "throughput"},
		"magnetic":                 {typed("standard", 10, 0, 0), invalid, "not supported on Fargate"},
		"a filesystem":             {withDisk(func(e ebs) { e.FilesystemType = types.TaskFilesystemTypeExt4 }), "", ""},
		"one that is none":         {withDisk(func(e ebs) { e.FilesystemType = "btrfs" }), invalid, "filesystemType"},
		"a key without encryption": {withDisk(func(e ebs) { e.KmsKeyId = aws.String("alias/k") }), invalid, "kmsKeyId"},
		"a key": {
			withDisk(func(e ebs) { e.KmsKeyId, e.Encrypted = aws.String("alias/k"), aws.Bool(true) }), "", "",
		},
		"tags":                   {tagged(types.EBSResourceTypeVolume, "a"), "", ""},
		"tags of something else": {tagged("task", "a"), invalid, "resourceType"},
		"a reserved tag":         {tagged(types.EBSResourceTypeVolume, "AmazonECSManaged"), invalid, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(New(Config{}))
			if _, err := c.RegisterTaskDefinition(t.Context(), withOpenVolume("sleep", "1")); err != nil {
				t.Fatal(err)
			}
			r := runOf()
			tc.change(r)
			_, err := c.RunTask(t.Context(), r)
			if got := code(t, err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestAVolumeThatNoDefinitionLeavesOpen(t *testing.T) {
	c := client(New(Config{}))
	if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("true"))); err != nil {
		t.Fatal(err)
	}
	r := runOf()
	withDisk(nil)(r)
	if _, err := c.RunTask(t.Context(), r); code(t, err) != "InvalidParameterException" {
		t.Errorf("it runs: %v", err)
	}
}

func TestTheInfrastructureRoleIsPassed(t *testing.T) {
	s := New(Config{})
	if _, err := client(s).RegisterTaskDefinition(t.Context(), withOpenVolume("true")); err != nil {
		t.Fatal(err)
	}
	s.Deny(Denial{Action: "iam:PassRole", Resource: testRole})
	r := runOf()
	withDisk(nil)(r)
	if _, err := client(s).RunTask(t.Context(), r); code(t, err) != "AccessDeniedException" {
		t.Errorf("it runs: %v", err)
	}
}

// startWithDisk runs a task with a volume.
func startWithDisk(t *testing.T, s *Server, deletes bool) string {
	t.Helper()
	r := runOf()
	r.ClientToken = nil
	withDisk(func(e *types.TaskManagedEBSVolumeConfiguration) {
		if !deletes {
			e.TerminationPolicy = &types.TaskManagedEBSVolumeTerminationPolicy{DeleteOnTermination: aws.Bool(false)}
		}
	})(r)
	out, err := client(s).RunTask(t.Context(), r)
	if err != nil || len(out.Failures) > 0 {
		t.Fatal(err, out)
	}
	return *out.Tasks[0].TaskArn
}

// diskOf is what DescribeTasks shows of a task's volume.
func diskOf(t *testing.T, s *Server, arn string) (status string, details map[string]string) {
	t.Helper()
	out, err := client(s).DescribeTasks(t.Context(), &sdk.DescribeTasksInput{Tasks: []string{arn}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range out.Tasks[0].Attachments {
		if *a.Type != "AmazonElasticBlockStorage" {
			continue
		}
		details = map[string]string{}
		for _, d := range a.Details {
			details[*d.Name] = *d.Value
		}
		return *a.Status, details
	}
	t.Fatal("there is no volume")
	return "", nil
}

// A volume is there from the attachment of the task's interface to the task's end,
// is shown without its size.
func TestLifeOfAVolume(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Provision: 10 * time.Second}}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), withOpenVolume("sleep", "600")); err != nil {
			t.Fatal(err)
		}
		gone, kept := startWithDisk(t, s, true), startWithDisk(t, s, false)
		if status, details := diskOf(t, s, gone); status != "PRECREATED" || details["volumeId"] != "" ||
			len(s.Volumes()) > 0 {
			t.Errorf("at first: %s, %v", status, details)
		}
		wait(time.Minute)
		status, details := diskOf(t, s, gone)
		want := map[string]string{
			"volumeName": "data", "roleArn": testRole, "deleteOnTermination": "true", "volumeId": s.Volumes()[0].ID,
		}
		if status != "ATTACHED" || !maps.Equal(details, want) {
			t.Errorf("while it runs: %s, %v", status, details)
		}
		for _, arn := range []string{gone, kept} {
			if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
				t.Fatal(err)
			}
		}
		wait(2 * time.Minute)
		first, _ := diskOf(t, s, gone)
		second, _ := diskOf(t, s, kept)
		if left := s.Volumes(); first != "DELETED" || second != "DETACHED" || len(left) != 1 || left[0].Task != kept {
			t.Errorf("at the end: %s, %s, %v", first, second, left)
		}
	})
}

func TestAVolumeIsBilled(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), withOpenVolume("sleep", "600")); err != nil {
			t.Fatal(err)
		}
		startWithDisk(t, s, true)
		wait(time.Minute)
		if v := s.Volumes(); v[0].GiB != 720 || v[0].Type != "gp3" || v[0].Filesystem != "xfs" {
			t.Errorf("volumes: %+v", v)
		}
		price := 0.25*vcpuX86 + 0.5*gbX86 + 0.08 // 720 GiB for an hour are one for a month
		if got := s.Cost().PerHour; math.Abs(got-price) > 1e-9 {
			t.Errorf("%v dollars an hour, want %v", got, price)
		}
	})
}
