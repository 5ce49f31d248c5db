package taskdef

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
)

// efsDriver is the CSI driver of Amazon EFS.
const efsDriver = "efs.csi.aws.com"

// efsHandle is the volumeHandle of a PersistentVolume of that driver.
type efsHandle struct{ fileSystem, path, accessPoint string }

// twice is true where both an access point and a path say what the root is.
func (h efsHandle) twice() bool { return h.accessPoint != "" && h.path != "" && h.path != "/" }

var errTwice = errors.New("volumeHandle has an access point and a path: Fargate takes one of them")

var (
	fileSystemPattern  = regexp.MustCompile(`^fs-[0-9a-f]{1,40}$`)
	accessPointPattern = regexp.MustCompile(`^fsap-[0-9a-f]{1,40}$`)
)

// parseEFSHandle reads fs-id[:path][:access point] (aws-efs-csi-driver,
// parseVolumeId).
func parseEFSHandle(handle string) (efsHandle, error) {
	bad := fmt.Errorf("volumeHandle must be as in fs-0123:/path or fs-0123::fsap-4567, not %q", handle)
	parts := strings.Split(handle, ":")
	if len(parts) > 3 || !fileSystemPattern.MatchString(parts[0]) {
		return efsHandle{}, bad
	}
	h := efsHandle{fileSystem: parts[0]}
	if len(parts) > 1 && parts[1] != "" {
		if slices.Contains(strings.Split(parts[1], "/"), "..") {
			return efsHandle{}, bad
		}
		h.path = path.Clean("/" + parts[1])
	}
	if len(parts) > 2 && parts[2] != "" {
		if h.accessPoint = parts[2]; !accessPointPattern.MatchString(h.accessPoint) {
			return efsHandle{}, bad
		}
	}
	return h, nil
}

// efsOf translates a volume of Amazon EFS (ECS API, EFSVolumeConfiguration). The
// driver encrypts unless told otherwise, so this does.
func efsOf(v backend.VolumeSpec) (*types.EFSVolumeConfiguration, error) {
	h, err := parseEFSHandle(v.Handle)
	if err != nil {
		return nil, err
	}
	iam, err := h.options(v.MountOptions)
	if err != nil {
		return nil, err
	}
	out := &types.EFSVolumeConfiguration{
		FileSystemId: aws.String(h.fileSystem), TransitEncryption: types.EFSTransitEncryptionEnabled,
	}
	encrypted, err := isEncrypted(v.Source.CSI.VolumeAttributes)
	if err != nil {
		return nil, err
	}
	if !encrypted {
		out.TransitEncryption = types.EFSTransitEncryptionDisabled
	}
	switch special := h.accessPoint != "" || iam; {
	case special && !encrypted:
		return nil, fmt.Errorf("an access point and IAM need encryptInTransit")
	case h.twice():
		return nil, errTwice
	case special:
		out.AuthorizationConfig = authorization(h.accessPoint, iam)
	}
	if h.accessPoint == "" && h.path != "" {
		out.RootDirectory = aws.String(h.path)
	}
	return out, nil
}

func authorization(accessPoint string, iam bool) *types.EFSAuthorizationConfig {
	out := &types.EFSAuthorizationConfig{AccessPointId: optional(accessPoint)}
	if iam {
		out.Iam = types.EFSAuthorizationConfigIAMEnabled
	}
	return out
}

// isEncrypted reads the attributes of a volume.
func isEncrypted(attributes map[string]string) (bool, error) {
	encrypted := true
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		switch strings.ToLower(name) {
		case "encryptintransit":
			encrypted = attributes[name] != "false"
		case "storage.kubernetes.io/csiprovisioneridentity":
		default:
			return false, fmt.Errorf("volumeAttributes[%s] is not possible on Fargate", name)
		}
	}
	return encrypted, nil
}

// options reads mount options of the driver.
func (h *efsHandle) options(options []string) (iam bool, err error) {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case o == "tls": // always
		case o == "iam":
			iam = true
		case name == "accesspoint" && accessPointPattern.MatchString(value) &&
			(h.accessPoint == "" || h.accessPoint == value):
			h.accessPoint = value
		default:
			return false, fmt.Errorf("mountOptions: %s is not possible on Fargate", o)
		}
	}
	return iam, nil
}
