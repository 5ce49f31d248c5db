package taskdef

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Kinds of volumes.
const (
	// maxVolumeGiB bounds every kind.
	maxVolumeGiB = 16384
)

// ebsKind are the bounds of a kind of volume (ECS API,
// TaskManagedEBSVolumeConfiguration; "standard" is not on Fargate; EC2 API,
// CreateVolume: IOPS of a GiB and throughput of an IOPS).
type ebsKind struct {
	minGiB int32
	// minIOPS and maxIOPS are what can be provisioned; 0 is nothing. Of gp3 minIOPS
	// are there anyway.
	minIOPS, maxIOPS int32
	// perGiB are the IOPS that a GiB can have.
	perGiB int32
	// minThroughput and maxThroughput are in MiB/s; 0 is nothing. An IOPS can have
	// a quarter of a MiB/s.
	minThroughput, maxThroughput int32
}

var ebsKinds = map[string]ebsKind{
	"gp2": {minGiB: 1},
	fargate.EBSDefault: {
		minGiB: 1, minIOPS: 3000, maxIOPS: 16000, perGiB: 500, minThroughput: 125,
		maxThroughput: 1000,
	},
	"io1": {minGiB: 4, minIOPS: 100, maxIOPS: 64000, perGiB: 50},
	"io2": {minGiB: 4, minIOPS: 100, maxIOPS: 256000, perGiB: 1000},
	"st1": {minGiB: 125},
	"sc1": {minGiB: 125},
}

// needsIOPS is true for kinds that are nothing without them.
func (k ebsKind) needsIOPS() bool { return k.maxIOPS > 0 && k.maxThroughput == 0 }

// ebsSettings are EBS with a pod's annotations over it.
type ebsSettings struct {
	EBS

	iops, throughput int32
}

func setVolumeType(s *settings, value string) error {
	if err := ecsconfig.ValidVolumeType(value); err != nil {
		return err
	}
	s.ebs.VolumeType = value
	return nil
}

func setFilesystem(s *settings, value string) error {
	if err := ecsconfig.ValidFilesystem(value); err != nil {
		return err
	}
	s.ebs.FilesystemType = value
	return nil
}

// countOf reads a number above 0.
func countOf(field func(*settings) *int32) func(*settings, string) error {
	return func(s *settings, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return fmt.Errorf("must be a number above 0, not %q", value)
		}
		*field(s) = int32(n)
		return nil
	}
}

const (
	whyInfraRole = "Amazon ECS makes it as a volume of Amazon EBS with a role for that: set backend.ecs.ebs.roleARN"
	whySecondEBS = "a Fargate task has one such volume, and the pod has another: use an emptyDir or a claim on " +
		"Amazon EFS"
	whyNewVolume = "on Fargate the volume is always new and empty: remove it"
	whyVolumeOf  = "on Fargate what the volume is like stands in backend.ecs.ebs and the annotations " + Prefix +
		"ebs-…: remove it"
	inTemplate = ".ephemeral.volumeClaimTemplate.spec"
)

// diskOf is the volume that a template asks for, and what is refused of it, by
// fields relative to the pod's volume. storageClassName chooses the provisioner in
// the cluster, which has no part in this.
func diskOf(set ebsSettings, template *corev1.PersistentVolumeClaimTemplate) (fargate.Disk, []refusal) {
	var out []refusal
	add := func(field, why string) { out = append(out, refusal{Field: field, Why: why}) }
	if set.RoleARN == "" {
		add(".ephemeral", whyInfraRole)
	}
	if template == nil {
		add(".ephemeral.volumeClaimTemplate", "it is required")
		return fargate.Disk{}, out
	}
	spec := &template.Spec
	if m := spec.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		add(inTemplate+".volumeMode", "Fargate has no block devices: use Filesystem")
	}
	for i, m := range spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			add(fmt.Sprintf("%s.accessModes[%d]", inTemplate, i),
				"a volume of Amazon EBS is one task's: use ReadWriteOnce or ReadWriteOncePod")
		}
	}
	for _, field := range []struct {
		name, why string
		is        bool
	}{
		{"dataSource", whyNewVolume, spec.DataSource != nil},
		{"dataSourceRef", whyNewVolume, spec.DataSourceRef != nil},
		{"selector", whyNewVolume, spec.Selector != nil},
		{"volumeName", whyNewVolume, spec.VolumeName != ""},
		{"volumeAttributesClassName", whyVolumeOf, spec.VolumeAttributesClassName != nil &&
			*spec.VolumeAttributesClassName != ""},
	} {
		if field.is {
			add(inTemplate+"."+field.name, field.why)
		}
	}
	d := fargate.Disk{Type: set.VolumeType, IOPS: set.iops, Throughput: set.throughput}
	if d.Type == "" {
		d.Type = fargate.EBSDefault
	}
	return d, append(append(out, sizeDisk(&d, spec.Resources)...), performanceFits(&d)...)
}

// sizeDisk takes the size from a claim's request, in whole GiB and at least the
// least of the volume's type. What is given beyond must be within the limit.
func sizeDisk(d *fargate.Disk, r corev1.VolumeResourceRequirements) []refusal {
	const requests, limits = inTemplate + ".resources.requests.storage", inTemplate + ".resources.limits.storage"
	request := r.Requests[corev1.ResourceStorage]
	bytes := request.Value()
	switch {
	case bytes <= 0:
		return []refusal{{Field: requests, Why: "the size of the volume is required"}}
	case bytes > maxVolumeGiB*gib:
		return []refusal{{
			Field: requests,
			Why:   fmt.Sprintf("a volume of Amazon EBS has at most %dGi: ask for less", maxVolumeGiB),
		}}
	}
	d.GiB = max(int32((bytes+gib-1)/gib), ebsKinds[d.Type].minGiB)
	if limit, ok := r.Limits[corev1.ResourceStorage]; ok && limit.Value() < int64(d.GiB)*gib {
		return []refusal{{Field: limits, Why: fmt.Sprintf("a volume of type %s for this request has %dGi: raise "+
			"or remove the limit", d.Type, d.GiB)}}
	}
	return nil
}

// performanceFits refuses IOPS and throughput that the type cannot have.
func performanceFits(d *fargate.Disk) []refusal {
	kind := ebsKinds[d.Type]
	var out []refusal
	add := func(name, format string, args ...any) {
		out = append(out, refusal{Field: ".ephemeral", Why: fmt.Sprintf("annotation "+Prefix+name+": "+format,
			args...)})
	}
	switch most := max(kind.minIOPS, min(kind.maxIOPS, kind.perGiB*max(d.GiB, 1))); {
	case d.IOPS == 0 && kind.needsIOPS():
		add("ebs-iops", "a volume of type %s needs it, %d to %d", d.Type, kind.minIOPS, most)
	case d.IOPS == 0:
	case kind.maxIOPS == 0:
		add("ebs-iops", "a volume of type %s cannot have it: remove it", d.Type)
	case d.IOPS < kind.minIOPS || d.IOPS > most:
		add("ebs-iops", "a volume of type %s and %d GiB has %d to %d, not %d", d.Type, d.GiB, kind.minIOPS, most,
			d.IOPS)
	}
	switch most := min(kind.maxThroughput, max(d.IOPS, kind.minIOPS)/4); {
	case d.Throughput == 0:
	case kind.maxThroughput == 0:
		add("ebs-throughput", "a volume of type %s cannot have it: remove it", d.Type)
	case d.Throughput < kind.minThroughput || d.Throughput > most:
		add("ebs-throughput", "a volume of type %s with these IOPS has %d to %d MiB/s, not %d", d.Type,
			kind.minThroughput, most, d.Throughput)
	}
	return out
}

// ephemeral says what is refused of a volume made for the pod; fields are
// relative.
func (k *checking) ephemeral(v *corev1.Volume) []refusal {
	_, out := diskOf(k.set.ebs, v.Ephemeral.VolumeClaimTemplate)
	spec := &k.pod.Spec
	before := slices.IndexFunc(spec.Volumes, func(o corev1.Volume) bool {
		return o.Ephemeral != nil && mountsOf(spec, o.Name) > 0
	})
	if before >= 0 && spec.Volumes[before].Name != v.Name && mountsOf(spec, v.Name) > 0 {
		out = append(out, refusal{Field: ".ephemeral", Why: whySecondEBS})
	}
	return out
}

// madeVolume is the volume of a launch that is made for it; nil without one.
// Errors: Unsupported, naming the field.
func madeVolume(set ebsSettings, spec backend.LaunchSpec) (name string, d *fargate.Disk, err error) {
	i := slices.IndexFunc(spec.Volumes, func(v backend.VolumeSpec) bool { return v.Source.Ephemeral != nil })
	if i < 0 {
		return "", nil, nil
	}
	made, refused := diskOf(set, spec.Volumes[i].Source.Ephemeral.VolumeClaimTemplate)
	for j := range refused {
		refused[j].Field = "volume " + spec.Volumes[i].Name + refused[j].Field
	}
	if err := refusedError(refused); err != nil {
		return "", nil, err
	}
	return taskVolume(spec.Pod, spec.Volumes[i].Name), &made, nil
}

// configured asks for a volume beside a task (ECS API, TaskVolumeConfiguration).
// It goes with the task, as the claim of an ephemeral volume goes with its pod.
func configured(name string, d *fargate.Disk, set ebsSettings, tags []types.Tag) types.TaskVolumeConfiguration {
	ebs := &types.TaskManagedEBSVolumeConfiguration{
		RoleArn: aws.String(set.RoleARN), SizeInGiB: aws.Int32(d.GiB), VolumeType: aws.String(d.Type),
		FilesystemType: types.TaskFilesystemType(set.FilesystemType), KmsKeyId: optional(set.KMSKeyID),
		TagSpecifications: []types.EBSTagSpecification{{ResourceType: types.EBSResourceTypeVolume, Tags: tags}},
		TerminationPolicy: &types.TaskManagedEBSVolumeTerminationPolicy{DeleteOnTermination: aws.Bool(true)},
	}
	if set.Encrypted {
		ebs.Encrypted = aws.Bool(true)
	}
	if d.IOPS > 0 {
		ebs.Iops = aws.Int32(d.IOPS)
	}
	if d.Throughput > 0 {
		ebs.Throughput = aws.Int32(d.Throughput)
	}
	return types.TaskVolumeConfiguration{Name: aws.String(name), ManagedEBSVolume: ebs}
}
