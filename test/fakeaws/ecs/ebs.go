package ecs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// volumeConfiguration is ECS API, TaskVolumeConfiguration.
type volumeConfiguration struct {
	Name *string     `json:"name"`
	EBS  *ebsRequest `json:"managedEBSVolume"`
}

// ebsRequest is ECS API, TaskManagedEBSVolumeConfiguration.
type ebsRequest struct {
	RoleArn            *string              `json:"roleArn"`
	SizeInGiB          *int32               `json:"sizeInGiB"`
	SnapshotID         *string              `json:"snapshotId"`
	VolumeType         *string              `json:"volumeType"`
	IOPS               *int32               `json:"iops"`
	Throughput         *int32               `json:"throughput"`
	Encrypted          *bool                `json:"encrypted"`
	KMSKeyID           *string              `json:"kmsKeyId"`
	FilesystemType     *string              `json:"filesystemType"`
	InitializationRate *int32               `json:"volumeInitializationRate"`
	TagSpecifications  []ebsTags            `json:"tagSpecifications"`
	TerminationPolicy  *ebsTerminationRules `json:"terminationPolicy"`
}

type ebsTags struct {
	ResourceType  *string `json:"resourceType"`
	PropagateTags *string `json:"propagateTags"`
	Tags          []tag   `json:"tags"`
}

type ebsTerminationRules struct {
	DeleteOnTermination *bool `json:"deleteOnTermination"`
}

// ebsBounds are what a type of volume takes (ECS API,
// TaskManagedEBSVolumeConfiguration: sizeInGiB, iops, throughput).
type ebsBounds struct {
	minSize          int32
	minIOPS, maxIOPS int32
	needsIOPS        bool
	maxThroughput    int32
}

// ebsTypes are those on Fargate: "The magnetic volume type is not supported".
var ebsTypes = map[string]ebsBounds{
	"gp2": {minSize: 1}, "gp3": {minSize: 1, minIOPS: 3000, maxIOPS: 16000, maxThroughput: 1000},
	"io1": {minSize: 4, minIOPS: 100, maxIOPS: 64000, needsIOPS: true},
	"io2": {minSize: 4, minIOPS: 100, maxIOPS: 256000, needsIOPS: true},
	"st1": {minSize: 125}, "sc1": {minSize: 125},
}

const (
	maxVolumeSize     = 16384
	defaultVolumeType = "gp3"
	// ebsMonthly is a GiB of gp3 in us-east-1 for 30 days (Amazon EBS pricing).
	ebsMonthly = 0.08
	monthHours = 30 * 24
)

var snapshotPattern = regexp.MustCompile(`^snap-[0-9a-f]{8,17}$`)

// checkLaunchVolumes compares what a request configures with what its definition
// leaves open (ECS API, Volume: configuredAtLaunch; TaskVolumeConfiguration: name:
// "must match the volume name from the task definition"; RunTask:
// volumeConfigurations). The texts are undocumented. The infrastructure role is
// passed (ECS developer guide, "Amazon ECS infrastructure IAM role").
func (s *Server) checkLaunchVolumes(in *runInput, d *definition) *apiError {
	open, configured := "", in.VolumeConfigurations
	for _, v := range d.Volumes {
		if value(v.ConfiguredAtLaunch) {
			open = *v.Name
		}
	}
	switch {
	case open == "" && len(configured) == 0:
		return nil
	case open == "":
		return invalidParameter(
			"volumeConfigurations are given, but no volume of the task definition has configuredAtLaunch.",
		)
	case len(configured) != 1:
		return invalidParameter(
			"Exactly one volumeConfiguration must be specified for volume %s, which is configuredAtLaunch.", open,
		)
	case value(configured[0].Name) != open:
		return invalidParameter(
			"The volume name %q does not match the volume %q in the task definition.", value(configured[0].Name), open,
		)
	case configured[0].EBS == nil:
		return invalidParameter("managedEBSVolume must be specified for volume %s.", open)
	}
	if e := configured[0].EBS.check(); e != nil {
		return e
	}
	return s.passRole(configured[0].EBS.RoleArn)
}

func (e *ebsRequest) check() *apiError {
	if !rolePattern.MatchString(value(e.RoleArn)) {
		return invalidParameter("roleArn of managedEBSVolume is required and must be the ARN of a role.")
	}
	bounds, ok := ebsTypes[e.kind()]
	if !ok {
		return invalidParameter("volumeType %q is not supported on Fargate.", value(e.VolumeType))
	}
	// "You must specify either a volume size or a snapshot ID."
	switch {
	case e.SizeInGiB == nil && e.SnapshotID == nil:
		return invalidParameter("Either sizeInGiB or snapshotId must be specified.")
	case e.SnapshotID != nil && !snapshotPattern.MatchString(*e.SnapshotID):
		return invalidParameter("Invalid snapshotId %q.", *e.SnapshotID)
	case e.SizeInGiB != nil && (*e.SizeInGiB < bounds.minSize || *e.SizeInGiB > maxVolumeSize):
		return invalidParameter(
			"sizeInGiB of a %s volume must be between %d and %d.", e.kind(), bounds.minSize, maxVolumeSize,
		)
	case e.InitializationRate != nil && e.SnapshotID == nil:
		return invalidParameter("volumeInitializationRate can be specified only with a snapshotId.")
	}
	for _, err := range []*apiError{e.checkFormat(), e.checkSpeed(bounds), e.checkTags()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFormat is filesystemType and encryption.
func (e *ebsRequest) checkFormat() *apiError {
	switch {
	case !slices.Contains([]string{"", "ext3", "ext4", "xfs"}, value(e.FilesystemType)):
		return invalidParameter("Invalid filesystemType %q.", value(e.FilesystemType))
	case e.KMSKeyID != nil && !value(e.Encrypted):
		// EC2 API, CreateVolume: KmsKeyId: "the encrypted state must be true".
		return invalidParameter("kmsKeyId needs encrypted.")
	}
	return nil
}

func (e *ebsRequest) kind() string { return or(e.VolumeType, defaultVolumeType) }

// checkSpeed is iops and throughput: "required for io1 and io2 volume types", "not
// supported for st1, sc1"; of gp2 it is EC2 API, CreateVolume, that refuses it.
func (e *ebsRequest) checkSpeed(bounds ebsBounds) *apiError {
	switch {
	case e.IOPS == nil && bounds.needsIOPS:
		return invalidParameter("iops is required for a %s volume.", e.kind())
	case e.IOPS != nil && bounds.maxIOPS == 0:
		return invalidParameter("iops is not supported for a %s volume.", e.kind())
	case e.IOPS != nil && (*e.IOPS < bounds.minIOPS || *e.IOPS > bounds.maxIOPS):
		return invalidParameter("iops of a %s volume must be between %d and %d.", e.kind(), bounds.minIOPS, bounds.maxIOPS)
	case e.Throughput != nil && bounds.maxThroughput == 0:
		return invalidParameter("throughput is only supported for a gp3 volume.")
	case e.Throughput != nil && (*e.Throughput < 1 || *e.Throughput > bounds.maxThroughput):
		return invalidParameter("throughput of a %s volume must be at most %d.", e.kind(), bounds.maxThroughput)
	}
	return nil
}

// checkTags is ECS API, EBSTagSpecification: of volumes, without the reserved ones;
// "tags can only propagate to a SERVICE specified in ServiceVolumeConfiguration".
func (e *ebsRequest) checkTags() *apiError {
	for _, s := range e.TagSpecifications {
		if value(s.ResourceType) != "volume" {
			return invalidParameter("resourceType of tagSpecifications must be volume, not %q.", value(s.ResourceType))
		}
		if p := value(s.PropagateTags); p == "SERVICE" {
			return invalidParameter("propagateTags SERVICE is for services.")
		}
		if err := checkTags(s.Tags); err != nil {
			return err
		}
		for _, t := range s.Tags {
			if k := value(t.Key); k == "AmazonECSCreated" || k == "AmazonECSManaged" {
				return invalidParameter("Tag %s is reserved.", k)
			}
		}
	}
	return nil
}

// volumePerHour is what the volume of a task costs; 0 without one. Every type is counted
// as gp3 is, and a snapshot as nothing.
func (t *task) volumePerHour() float64 {
	if t.ebs == nil {
		return 0
	}
	return float64(value(t.ebs.EBS.SizeInGiB)) * ebsMonthly / monthHours
}

// volumeAttachment shows the volume of a task (ECS API, Attachment: "For Elastic
// Block Storage, this includes roleArn, deleteOnTermination, volumeName, volumeId";
// no size). It has an id once it was created, before the task's image is pulled.
func volumeAttachment(t *task, id string, at time.Duration) attachmentView {
	e := t.ebs.EBS
	a := attachmentView{ID: "ebs-" + id, Type: "AmazonElasticBlockStorage", Status: "PRECREATED"}
	add := func(k, v string) { a.Details = append(a.Details, keyValue{Name: &k, Value: &v}) }
	add("roleArn", *e.RoleArn)
	add("volumeName", *t.ebs.Name)
	add("deleteOnTermination", strconv.FormatBool(t.deletesVolume()))
	if at >= t.life.attached {
		a.Status = "ATTACHED"
		add("volumeId", t.volumeID())
	}
	if at >= t.life.stopped {
		if a.Status = "DETACHED"; t.deletesVolume() {
			a.Status = "DELETED"
		}
	}
	return a
}

func (t *task) volumeID() string {
	return "vol-" + t.arn[strings.LastIndex(t.arn, "/")+1:][:17]
}

// deletesVolume is ECS API, TaskManagedEBSVolumeTerminationPolicy: true unless told
// otherwise.
func (t *task) deletesVolume() bool {
	p := t.ebs.EBS.TerminationPolicy
	return p == nil || or(p.DeleteOnTermination, true)
}

// VolumeInfo is a volume of Amazon EBS that was made for a task.
type VolumeInfo struct {
	ID   string `json:"id"`
	Task string `json:"task"`
	// Name is the volume's in the task's definition.
	Name                string            `json:"name"`
	GiB                 int32             `json:"gib"`
	Type                string            `json:"type"`
	IOPS                int32             `json:"iops,omitempty"`
	Throughput          int32             `json:"throughput,omitempty"`
	Filesystem          string            `json:"filesystem"`
	Encrypted           bool              `json:"encrypted"`
	Tags                map[string]string `json:"tags"`
	DeleteOnTermination bool              `json:"deleteOnTermination"`
}

// Volumes returns the volumes that exist, in the order of their tasks: those of
// tasks that are not STOPPED, and those that outlive their task for as long as it is
// known.
func (s *Server) Volumes() []VolumeInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	out := []VolumeInfo{}
	for _, arn := range s.order {
		t := s.tasks[arn]
		if at := now.Sub(t.created); t.ebs == nil || at < t.life.attached || at >= t.life.stopped && t.deletesVolume() {
			continue
		}
		out = append(out, t.volumeInfo())
	}
	return out
}

func (t *task) volumeInfo() VolumeInfo {
	e := t.ebs.EBS
	v := VolumeInfo{
		ID: t.volumeID(), Task: t.arn, Name: *t.ebs.Name, GiB: value(e.SizeInGiB), Type: e.kind(), IOPS: value(e.IOPS),
		Throughput: value(e.Throughput),
		Filesystem: or(e.FilesystemType, "xfs"), Encrypted: value(e.Encrypted), Tags: map[string]string{},
		DeleteOnTermination: t.deletesVolume(),
	}
	for _, s := range e.TagSpecifications {
		for k, tagged := range tagMap(s.Tags) {
			v.Tags[k] = tagged
		}
	}
	return v
}
