package taskdef

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

const infraRole = "arn:aws:iam::123456789012:role/volumes"

func TestCheckOfVolumesMadeForThePod(t *testing.T) {
	const at, spec = "spec.volumes[0]", "spec.volumes[0].ephemeral.volumeClaimTemplate.spec."
	const size = "resources: {requests: {storage: 10Gi}}"
	of := func(template string, annotations ...string) string {
		text := ""
		if len(annotations) > 0 {
			text = "metadata: {annotations: {" + Prefix + strings.Join(annotations, ", "+Prefix) + "}}\n"
		}
		return text +
			"containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]\nvolumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {" +
			template + "}}}}]"
	}
	ebs := func(iops, throughput string) []string {
		return []string{"ebs-iops: '" + iops + "'", "ebs-throughput: '" + throughput + "'"}
	}
	checkCases(t, fullConfig, map[string][]string{
		of(size): nil,
		of(size + ", storageClassName: x, volumeMode: Filesystem, accessModes: [ReadWriteOncePod]"): nil,
		of(size + ", volumeMode: Block"): {spec + "volumeMode"},
		of(size + ", accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]"): {
			spec + "accessModes[1]", spec + "accessModes[2]",
		},
		of(size + ", dataSource: {kind: VolumeSnapshot, name: s}"):    {spec + "dataSource"},
		of(size + ", dataSourceRef: {kind: VolumeSnapshot, name: s}"): {spec + "dataSourceRef"},
		of(size + ", selector: {}, volumeName: pv"):                   {spec + "selector", spec + "volumeName"},
		of(size + ", volumeAttributesClassName: c"):                   {spec + "volumeAttributesClassName"},
		of(""): {spec + "resources.requests.storage"},
		of("resources: {requests: {storage: 16385Gi}}"): {
			spec + "resources.requests.storage",
		},
		of("resources: {requests: {storage: 16384Gi}}"): nil,
		of("resources: {requests: {storage: 1}}"):       nil,
		of("resources: {requests: {storage: 1500Mi}, limits: {storage: 1500Mi}}"): {
			spec + "resources.limits.storage",
		},
		of("resources: {requests: {storage: 2Gi}, limits: {storage: 2Gi}}"): nil,
		of("resources: {requests: {storage: 2Gi}, limits: {storage: 2Gi}}", "ebs-volume-type: st1"): {
			spec + "resources.limits.storage",
		},
		of(size, ebs("4000", "1000")...):                                nil,
		of(size, ebs("4000", "1001")...):                                {at + ".ephemeral"},
		of(size, ebs("5001", "125")...):                                 {at + ".ephemeral"}, // 500 a GiB
		of(size, ebs("2999", "124")...):                                 {at + ".ephemeral", at + ".ephemeral"},
		of(size, "ebs-volume-type: io2"):                                {at + ".ephemeral"},
		of(size, "ebs-volume-type: io1", "ebs-iops: '500'"):             nil,
		of(size, "ebs-volume-type: io1", "ebs-iops: '501'"):             {at + ".ephemeral"}, // 50 a GiB
		of(size, append(ebs("3000", "125"), "ebs-volume-type: gp2")...): {at + ".ephemeral", at + ".ephemeral"},
		of(size, "ebs-volume-type: standard", "ebs-iops: x", "ebs-filesystem-type: ntfs"): {
			"metadata.annotations[" + Prefix + "ebs-filesystem-type]", "metadata.annotations[" + Prefix + "ebs-iops]",
			"metadata.annotations[" + Prefix + "ebs-volume-type]",
		},
		"volumes: [{name: v, ephemeral: {}}]": {at + ".ephemeral.volumeClaimTemplate"},
	})
	checkCases(t, bareConfig, map[string][]string{of(size): {at + ".ephemeral"}})
	refused := Checker(bareConfig).Check(parsePod(t, of(size)))
	if !strings.Contains(refused[0].Why, "backend.ecs.ebs.roleARN") {
		t.Errorf("it does not name what to set: %s", refused[0].Why)
	}
}

func TestASecondVolumeMadeForThePodIsRefused(t *testing.T) {
	pod := withVolume(withVolume(podOf("a", "run"), "one", "1Gi"), "two", "1Gi")
	refused := Checker(fullConfig).Check(pod)
	if len(refused) != 1 || refused[0].Field != "spec.volumes[1].ephemeral" {
		t.Errorf("refused: %v", refused)
	}
	err := Preflight(fullConfig, resolved(pod, 0), imagesFor(resolved(pod, 0)))
	wantClass(t, err, "Unsupported")
	if !strings.Contains(err.Error(), "volume two") {
		t.Errorf("it does not name the volume: %v", err)
	}
	pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[1:] // nobody mounts the first
	if refused := Checker(fullConfig).Check(pod); refused != nil {
		t.Errorf("refused: %v", refused)
	}
	must(t, Preflight(fullConfig, resolved(pod, 0), imagesFor(resolved(pod, 0))))
}

func TestLaunchesOfVolumesThatCannotBe(t *testing.T) {
	pod := withVolume(podOf("a", "run"), "scratch", "1Gi")
	wantClass(t, Preflight(goldenConfig, resolved(pod, 0), nil), "Unsupported") // no role
	block := corev1.PersistentVolumeBlock
	pod.Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec.VolumeMode = &block
	err := Preflight(fullConfig, resolved(pod, 0), imagesFor(resolved(pod, 0)))
	wantClass(t, err, "Unsupported")
	if !strings.Contains(err.Error(), "volume scratch.ephemeral.volumeClaimTemplate.spec.volumeMode") {
		t.Errorf("it does not name the field: %v", err)
	}
}

// The size of the volume is of the launch: pods that differ in it alone share a
// definition, and the size of the task is as without.
func TestAVolumeIsConfiguredAtTheLaunch(t *testing.T) {
	without, _ := translated(t, podOf("a", "run"), 0)
	small, smallRun := translated(t, withVolume(podOf("a", "run"), "scratch", "1Gi"), 0)
	large, largeRun := translated(t, withVolume(podOf("a", "run"), "scratch", "1500Gi"), 0)
	if *small.Family != *large.Family || *small.Family == *without.Family {
		t.Errorf("families %s, %s; without a volume %s", *small.Family, *large.Family, *without.Family)
	}
	if *small.Cpu != *without.Cpu || *large.Memory != *without.Memory || large.EphemeralStorage != nil {
		t.Error("the volume changes the task's size")
	}
	for run, want := range map[types.TaskVolumeConfiguration]int32{
		smallRun.VolumeConfigurations[0]: 1, largeRun.VolumeConfigurations[0]: 1500,
	} {
		if got := *run.ManagedEBSVolume.SizeInGiB; got != want || *run.Name != *small.Volumes[0].Name ||
			!*small.Volumes[0].ConfiguredAtLaunch {
			t.Errorf("%s has %d GiB, want %d", *run.Name, got, want)
		}
	}
}

func TestSizeOfAVolume(t *testing.T) {
	for _, tc := range []struct {
		kind, request string
		want          int32
	}{
		{"", "1", 1},
		{"", "1Gi", 1},
		{"", "1073741825", 2},
		{"gp3", "10G", 10},
		{"gp2", "1500Mi", 2},
		{"io1", "1Gi", 4},
		{"io2", "5Gi", 5},
		{"st1", "1Gi", 125},
		{"sc1", "126Gi", 126},
		{"gp3", "16384Gi", 16384},
	} {
		set := ebsSettings{EBS: EBS{RoleARN: infraRole, VolumeType: tc.kind}}
		if strings.HasPrefix(tc.kind, "io") {
			set.iops = 100
		}
		template := withVolume(podOf("a", "run"), "v", tc.request).Spec.Volumes[0].Ephemeral.VolumeClaimTemplate
		if got, refused := diskOf(set, template); got.GiB != tc.want || refused != nil {
			t.Errorf("%s of %s: %d GiB, want %d (%v)", tc.request, tc.kind, got.GiB, tc.want, refused)
		}
	}
}

// Every type of volume that may be configured has its bounds and a price.
func TestTypesOfVolumesAreKnown(t *testing.T) {
	if want := ecsconfig.VolumeTypes(); len(ebsKinds) != len(want) {
		t.Errorf("bounds of %d types, of %d that may be configured", len(ebsKinds), len(want))
	}
	for _, kind := range ecsconfig.VolumeTypes() {
		if _, ok := ebsKinds[kind]; !ok {
			t.Errorf("%s has no bounds", kind)
		}
		if fargate.PublishedRates(fargate.PricesRegion).DiskPerHour(&fargate.Disk{GiB: 1, Type: kind}) == 0 {
			t.Errorf("%s costs nothing", kind)
		}
	}
}

func TestExplainShowsTheVolumeAndItsPrice(t *testing.T) {
	pod := withVolume(podOf("a", "run"), "scratch", "720Gi")
	with, err := Explain(fullConfig, resolved(pod, 0))
	must(t, err)
	without, err := Explain(fullConfig, resolved(podOf("a", "run"), 0))
	must(t, err)
	if with.Volume != "720 GiB of EBS gp3" || without.Volume != "" {
		t.Errorf("volumes %q and %q", with.Volume, without.Volume)
	}
	for name, got := range map[string]float64{
		"on demand": with.OnDemand - without.OnDemand, "on Spot": with.Spot - without.Spot,
	} {
		if math.Abs(got-0.08) > 1e-9 { // 720 GiB for an hour are one for a month
			t.Errorf("%s: %v more", name, got)
		}
	}
	if !strings.Contains(string(with.RunTask), `"sizeInGiB":720`) {
		t.Error("the request does not show it")
	}
}

// Two backends that know nothing of each other ask for the same.
func TestAVolumesRequestIsTheSameEachTime(t *testing.T) {
	var texts []string
	for range 3 {
		_, run := translated(t, withVolume(podOf("a", "run"), "scratch", "20Gi"), 1)
		texts = append(texts, string(pretty(t, run)))
	}
	if len(slices.Compact(texts)) != 1 {
		t.Errorf("differs: %v", texts)
	}
}
