package ecsconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Capacity types, in the words of a configuration.
const (
	CapacityOnDemand = "on-demand"
	CapacitySpot     = "spot"
)

// CapacityTypes returns those that a configuration may name.
func CapacityTypes() []string { return []string{CapacityOnDemand, CapacitySpot} }

// Architectures returns the CPU architectures that a configuration may name.
func Architectures() []string { return []string{fargate.X86, fargate.ARM} }

// VolumeTypes returns the types of EBS volumes that Fargate takes ("standard" is none of
// them: ECS API, TaskManagedEBSVolumeConfiguration).
func VolumeTypes() []string { return []string{fargate.EBSDefault, "gp2", "io1", "io2", "st1", "sc1"} }

// FilesystemTypes returns the file systems that such a volume can have.
func FilesystemTypes() []string { return []string{"ext3", "ext4", "xfs"} }

// Forms of values, as regular expressions of the whole.
const (
	RegionForm  = `[a-z0-9-]+`
	SubnetForm  = `subnet-.*`
	GroupForm   = `sg-.*`
	RoleForm    = `arn:aws[a-z-]*:iam::[0-9]{12}:role/.+`
	QueueForm   = `https?://[^/]+/.+`
	VersionForm = `LATEST|1\.([4-9]|[1-9][0-9])\.[0-9]+|[2-9]\.[0-9]+\.[0-9]+`
	// BucketForm is the name of an S3 bucket (S3 user guide, "General purpose bucket naming
	// rules"), without the dots with which HTTPS would not work.
	BucketForm = `[a-z0-9][a-z0-9-]{1,61}[a-z0-9]`
	// KeyPrefixForm is of letters that need no escaping in a URL, of parts that are not
	// empty.
	KeyPrefixForm = `[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*/?`
	// KeyForm is a key's id, alias or ARN of one of them (ECS API,
	// TaskManagedEBSVolumeConfiguration: kmsKeyId).
	KeyForm = `arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key|alias)/[A-Za-z0-9/_-]+|alias/[A-Za-z0-9/_-]+|[A-Za-z0-9-]+`
)

var (
	regionForm  = whole(RegionForm)
	subnetForm  = whole(SubnetForm)
	groupForm   = whole(GroupForm)
	roleForm    = whole(RoleForm)
	queueForm   = whole(QueueForm)
	versionForm = whole(VersionForm)
	keyForm     = whole(KeyForm)
	bucketForm  = whole(BucketForm)
	prefixForm  = whole(KeyPrefixForm)
)

func whole(form string) *regexp.Regexp { return regexp.MustCompile(`^(` + form + `)$`) }

// Bounds of values.
const (
	// MaxSubnets and MaxSecurityGroups are those of ECS API, AwsVpcConfiguration.
	MaxSubnets        = 16
	MaxSecurityGroups = 5
	// MaxImage is the length of an image's name (ECS API, ContainerDefinition).
	MaxImage = 255
	// MaxKeyPrefix leaves the rest of a key room below S3's 1,024 bytes.
	MaxKeyPrefix = 256
	// MinRefresh: each look is a call to Secrets Manager or S3.
	MinRefresh = 5 * time.Second
	// MinUnused: definitions are registered once a second at most.
	MinUnused = time.Hour
	// MaxPrice is more than anything costs an hour: beyond it a price is a mistake.
	MaxPrice = 1000
)

// ValidCapacity wants each type at most once.
func ValidCapacity(types []string) error {
	for i, t := range types {
		if !slices.Contains(CapacityTypes(), t) || slices.Index(types, t) < i {
			return fmt.Errorf("must be %s, %s or both in the order to try, not %q", CapacitySpot,
				CapacityOnDemand, strings.Join(types, ","))
		}
	}
	return nil
}

// ValidPlatform wants a version that has what is used here (ECS developer guide,
// "Fargate platform versions").
func ValidPlatform(version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("must be LATEST or 1.4.0 or newer, not %q", version)
	}
	return nil
}

// ValidVolumeType wants one of VolumeTypes.
func ValidVolumeType(kind string) error { return oneOf(VolumeTypes(), kind) }

// ValidFilesystem wants one of FilesystemTypes.
func ValidFilesystem(kind string) error { return oneOf(FilesystemTypes(), kind) }

func oneOf(values []string, value string) error {
	if !slices.Contains(values, value) {
		return fmt.Errorf("must be of %s, not %q", strings.Join(slices.Sorted(slices.Values(values)), ", "), value)
	}
	return nil
}

// ValidRole wants the ARN of an IAM role.
func ValidRole(arn string) error {
	if !roleForm.MatchString(arn) {
		return fmt.Errorf("must be the ARN of an IAM role, not %q", arn)
	}
	return nil
}

// ValidBucket wants the name of an S3 bucket.
func ValidBucket(name string) error {
	if !bucketForm.MatchString(name) {
		return errors.New("must be the name of an S3 bucket: 3 to 63 lower-case letters, digits and hyphens, without dots")
	}
	return nil
}

// ValidKeyPrefix wants parts of letters, digits, - and _ with slashes between them.
func ValidKeyPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) || len(prefix) > MaxKeyPrefix {
		return fmt.Errorf(
			"must be parts of letters, digits, - and _ with slashes between them, such as clusters/one, of at most %d "+
				"characters",
			MaxKeyPrefix,
		)
	}
	return nil
}

// DriverAWSLogs is the log driver whose options a configuration holds.
const DriverAWSLogs = "awslogs"

// fixedLogOptions are where burstlet looks for logs.
var fixedLogOptions = []string{"awslogs-group", "awslogs-region", "awslogs-stream-prefix"}

// ValidLogOptions says what may not stand in the options of a driver.
func ValidLogOptions(driver string, options map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		switch {
		case driver == DriverAWSLogs && slices.Contains(fixedLogOptions, name):
			return fmt.Errorf("%s is burstlet's own: logs would not be found", name)
		case strings.Contains(name, "token"):
			return fmt.Errorf("%s would stand in the task definition in the clear: put it into "+
				"log-secret-options", name)
		}
	}
	return nil
}

// Mirror reads the endpoint of a registry's mirror: a URL, or a host that is asked by
// HTTPS. It is an error if it has a path or a user, which is not quoted.
func Mirror(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" ||
		strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, errors.New("must be a URL such as https://mirror.example:5000, without path and user")
	}
	return u, nil
}
