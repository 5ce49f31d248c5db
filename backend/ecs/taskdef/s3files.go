package taskdef

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
)

// s3FilesPrefix is before the volumeHandle of a file system of Amazon S3 Files, which
// the driver of Amazon EFS mounts as well (aws-efs-csi-driver 3.0, "Static
// provisioning").
const s3FilesPrefix = "s3files:"

// s3FilesOf translates a volume of Amazon S3 Files (ECS API,
// S3FilesVolumeConfiguration). ECS wants ARNs where the driver has ids: the file
// system is taken to be in the region of the tasks and in the account of their role,
// without which such a volume cannot be mounted.
func s3FilesOf(v backend.VolumeSpec, region, taskRole string) (*types.S3FilesVolumeConfiguration, error) {
	h, err := parseEFSHandle(strings.TrimPrefix(v.Handle, s3FilesPrefix))
	if err != nil {
		return nil, fmt.Errorf("after %s the %w", s3FilesPrefix, err)
	}
	if _, err := h.options(v.MountOptions); err != nil { // iam always
		return nil, err
	}
	encrypted, err := isEncrypted(v.Source.CSI.VolumeAttributes)
	if err != nil {
		return nil, err
	}
	role := strings.Split(taskRole, ":") // arn:partition:iam::account:role/name
	switch {
	case len(role) < 6:
		return nil, fmt.Errorf("an S3 file system is mounted with the task's role: set backend.ecs.taskRoleARN")
	case !encrypted:
		return nil, fmt.Errorf("volumeAttributes[encryptInTransit] false is not possible for an S3 file system")
	case h.twice():
		return nil, errTwice
	}
	// "arn:{partition}:s3files:{region}:{account-id}:file-system/fs-xxxxx" (ECS developer
	// guide, "Specify an Amazon S3 Files volume"), and S3 API, AccessPointArn.
	arn := strings.Join([]string{"arn", role[1], "s3files", region, role[4], "file-system/" + h.fileSystem}, ":")
	out := &types.S3FilesVolumeConfiguration{FileSystemArn: aws.String(arn)}
	switch {
	case h.accessPoint != "":
		out.AccessPointArn = aws.String(arn + "/access-point/" + h.accessPoint)
	case h.path != "":
		out.RootDirectory = aws.String(h.path)
	}
	return out, nil
}
