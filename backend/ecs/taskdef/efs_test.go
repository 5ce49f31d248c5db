package taskdef

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func TestEFSHandles(t *testing.T) {
	for handle, want := range map[string]*efsHandle{
		"fs-0123":                 {fileSystem: "fs-0123"},
		"fs-0123:/a/b":            {fileSystem: "fs-0123", path: "/a/b"},
		"fs-0123:a/":              {fileSystem: "fs-0123", path: "/a"},
		"fs-0123::fsap-4567":      {fileSystem: "fs-0123", accessPoint: "fsap-4567"},
		"fs-0123:/a:fsap-4567":    {fileSystem: "fs-0123", path: "/a", accessPoint: "fsap-4567"},
		"fs-0123::":               {fileSystem: "fs-0123"},
		"":                        nil,
		"0123":                    nil,
		"fs-":                     nil,
		"fs-xyz":                  nil,
		"fs-0123:/a/../../etc":    nil,
		"fs-0123::ap-1":           nil,
		"fs-0123:/a:fsap-4567:/b": nil,
	} {
		got, err := parseEFSHandle(handle)
		if want == nil {
			if err == nil {
				t.Errorf("%q: %+v", handle, got)
			}
			continue
		}
		if err != nil || got != *want {
			t.Errorf("%q: %+v, %v", handle, got, err)
		}
	}
}

func FuzzEFSHandle(f *testing.F) {
	f.Add("fs-0123:/a:fsap-4567")
	f.Fuzz(func(t *testing.T, handle string) {
		h, err := parseEFSHandle(handle)
		if err == nil && (h.fileSystem == "" || strings.Contains(h.path, "..") && strings.Contains("/"+h.path+"/", "/../")) {
			t.Fatalf("%q: %+v", handle, h)
		}
	})
}

func TestEFSVolumes(t *testing.T) {
	for name, tc := range map[string]struct {
		handle     string
		attributes map[string]string
		options    []string
		want, err  string
	}{
		"a file system is encrypted on its way": {
			handle: "fs-1", want: `{"FileSystemId":"fs-1","TransitEncryption":"ENABLED"}`,
		},
		"a directory": {
			handle: "fs-1:/a", want: `{"FileSystemId":"fs-1","RootDirectory":"/a","TransitEncryption":"ENABLED"}`,
		},
		"an access point": {
			handle: "fs-1::fsap-2", options: []string{"tls"},
			want: `{"AuthorizationConfig":{"AccessPointId":"fsap-2"},"FileSystemId":"fs-1","TransitEncryption":"ENABLED"}`,
		},
		"an access point by option, with IAM": {
			handle: "fs-1", options: []string{"iam", "accesspoint=fsap-2"},
			want: `{"AuthorizationConfig":{"AccessPointId":"fsap-2","Iam":"ENABLED"},"FileSystemId":"fs-1","TransitEncryption":"ENABLED"}`,
		},
		"not encrypted": {
			handle: "fs-1", attributes: map[string]string{"encryptInTransit": "false"},
			want: `{"FileSystemId":"fs-1","TransitEncryption":"DISABLED"}`,
		},
		"made by the driver": {
			handle: "fs-1::fsap-2", attributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "x"},
			want: `{"AuthorizationConfig":{"AccessPointId":"fsap-2"},"FileSystemId":"fs-1","TransitEncryption":"ENABLED"}`,
		},
		"an access point not encrypted": {
			handle: "fs-1::fsap-2", attributes: map[string]string{"encryptInTransit": "false"}, err: "need encryptInTransit",
		},
		"an access point and a path": {handle: "fs-1:/a:fsap-2", err: "an access point and a path"},
		"two access points": {
			handle: "fs-1::fsap-2", options: []string{"accesspoint=fsap-3"}, err: "accesspoint=fsap-3 is not possible",
		},
		"another option": {handle: "fs-1", options: []string{"nfsvers=4.0"}, err: "nfsvers=4.0 is not possible"},
		"another attribute": {
			handle: "fs-1", attributes: map[string]string{"crossaccount": "true"}, err: "volumeAttributes[crossaccount]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := efsOf(backend.VolumeSpec{Handle: tc.handle, MountOptions: tc.options, Source: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: efsDriver, VolumeAttributes: tc.attributes},
			}})
			wantVolume(t, got, err, tc.want, tc.err)
		})
	}
}

// wantVolume holds a volume of a definition to its JSON, or an error to a part of it.
func wantVolume(t *testing.T, got any, err error, want, wantErr string) {
	t.Helper()
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("error %v, want %s", err, wantErr)
		}
		return
	}
	must(t, err)
	text, err := normal(got)
	must(t, err)
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Error(d)
	}
}
