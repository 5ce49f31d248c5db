package ecs

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

const infraRole = "arn:aws:iam::123456789012:role/volumes"

// volumed runs f in virtual time with a backend that makes volumes.
func volumed(t *testing.T, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{Delays: slow})
		cfg := configOf(s)
		cfg.EBS = ecsconfig.EBS{RoleARN: infraRole}
		f(t, s, open(t, cfg))
	})
}

func TestAPodHasItsVolumeAndTakesItAlong(t *testing.T) {
	volumed(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := resolved(withVolume(podOf("a", "sh", "-c", "trap 'exit 0' TERM; sleep 100000"), "scratch", "20Gi"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec)) // the same request: nothing twice
		time.Sleep(3 * time.Minute)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); f.Containers[0].State() != backend.Running || len(f.IPs) != 1 {
			t.Fatalf("%+v", f)
		}
		volumes := s.Volumes()
		if len(volumes) != 1 || volumes[0].GiB != 20 || volumes[0].Type != "gp3" || !volumes[0].DeleteOnTermination {
			t.Fatalf("%+v", volumes)
		}
		for key, value := range map[string]string{
			"burstlet/node": identity.TagValue(configOf(s).NodeIdentity), "burstlet/pod": spec.Pod.Name,
			"burstlet/uid": string(spec.Pod.UID),
		} {
			if volumes[0].Tags[key] != value {
				t.Errorf("tag %s is %q, want %q", key, volumes[0].Tags[key], value)
			}
		}
		perHour := func() (sum float64) {
			for _, c := range b.Costs() {
				sum += c.DollarsPerHour
			}
			return sum
		}
		if got, told := perHour(), s.Cost().PerHour; math.Abs(got-told) > 1e-9 || got == 0 {
			t.Errorf("%v dollars an hour, the server says %v", got, told)
		}
		gone(t, b, spec.Ref())
		if left := s.Volumes(); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestValidateVolumes(t *testing.T) {
	for want, ebs := range map[string]ecsconfig.EBS{
		"": {
			RoleARN: infraRole, VolumeType: "gp3", Encrypted: true, KMSKeyID: "alias/burst", FilesystemType: "xfs",
		},
		"ebs.roleARN":        {VolumeType: "gp3"},
		"ebs.volumeType":     {RoleARN: infraRole, VolumeType: "standard"},
		"ebs.filesystemType": {RoleARN: infraRole, FilesystemType: "btrfs"},
		"ebs.kmsKeyID":       {RoleARN: infraRole, KMSKeyID: "alias/burst"},
	} {
		cfg := ecsconfig.Config{Region: "eu-central-1", Cluster: "c", Subnets: []string{"subnet-1"}, NodeIdentity: "n"}
		cfg.EBS = ebs
		err := cfg.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+":")) {
			t.Errorf("%+v: %v, want %q", ebs, err, want)
		}
	}
}
