package taskdef

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func TestS3FilesVolumes(t *testing.T) {
	const (
		role = "arn:aws-cn:iam::123456789012:role/app"
		arn  = "arn:aws-cn:s3files:cn-north-1:123456789012:file-system/fs-1"
	)
	for name, tc := range map[string]struct {
		handle, role string
		attributes   map[string]string
		options      []string
		want, err    string
	}{
		"a file system": {handle: "s3files:fs-1", role: role, want: `{"FileSystemArn":"` + arn + `"}`},
		"a directory": {
			handle: "s3files:fs-1:/a", role: role, want: `{"FileSystemArn":"` + arn + `","RootDirectory":"/a"}`,
		},
		"an access point": {
			handle: "s3files:fs-1::fsap-2", role: role, options: []string{"iam"},
			want: `{"AccessPointArn":"` + arn + `/access-point/fsap-2","FileSystemArn":"` + arn + `"}`,
		},
		"an access point by option": {
			handle: "s3files:fs-1", role: role, options: []string{"accesspoint=fsap-2"},
			want: `{"AccessPointArn":"` + arn + `/access-point/fsap-2","FileSystemArn":"` + arn + `"}`,
		},
		"no role": {handle: "s3files:fs-1", err: "backend.ecs.taskRoleARN"},
		"not encrypted": {
			handle: "s3files:fs-1", role: role, attributes: map[string]string{"encryptInTransit": "false"},
			err: "encryptInTransit",
		},
		"an access point and path": {handle: "s3files:fs-1:/a:fsap-2", role: role, err: "an access point and a path"},
		"no id":                    {handle: "s3files:bucket", role: role, err: "volumeHandle must be"},
		"another option": {
			handle: "s3files:fs-1", role: role, options: []string{"nconnect=2"}, err: "nconnect=2 is not possible",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s3FilesOf(backend.VolumeSpec{Handle: tc.handle, MountOptions: tc.options, Source: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: efsDriver, VolumeAttributes: tc.attributes},
			}}, "cn-north-1", tc.role)
			wantVolume(t, got, err, tc.want, tc.err)
		})
	}
}
