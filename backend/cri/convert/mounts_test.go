package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// What is below a listed path is bound, so that no link can lead out of it.
func TestMountsOfHostPathsAsConfigured(t *testing.T) {
	r := New(criconfig.Config{
		PodsDir: "/pods", HostPaths: []criconfig.HostPath{{PathPrefix: "/var/log", ReadOnly: true}, {PathPrefix: "/srv"}},
	})
	target := r.PodDir("u1").SubPath("main_0", "0")
	for _, tt := range []struct {
		path, subPath string
		readOnly      bool
		mounts        string
		subPaths      []host.SubPath
		class         error
	}{
		{path: "/srv", mounts: "/srv"},
		{path: "/srv/", mounts: "/srv"},
		{path: "/srv", subPath: "a", mounts: target, subPaths: []host.SubPath{{Volume: "/srv", Path: "a", Target: target}}},
		{path: "/srv/x", mounts: target, subPaths: []host.SubPath{{Volume: "/srv/x", Within: "/srv", Target: target}}},
		{path: "/srv/x", subPath: "a", mounts: target, subPaths: []host.SubPath{{
			Volume: "/srv/x", Path: "a", Within: "/srv", Target: target,
		}}},
		{path: "/var/log", readOnly: true, mounts: "/var/log"},
		{path: "/var/log/x", readOnly: true, mounts: target, subPaths: []host.SubPath{{
			Volume: "/var/log/x", Within: "/var/log", ReadOnly: true, Target: target,
		}}},
		{path: "/var/log/x", class: backend.ErrUnsupported},
		{path: "/etc", readOnly: true, class: backend.ErrUnsupported},
	} {
		spec := mounting(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: tt.path}},
			corev1.VolumeMount{Name: "v", MountPath: "/v", SubPath: tt.subPath, ReadOnly: tt.readOnly})
		mounts, subPaths, err := r.VolumeMounts(spec)
		if tt.class != nil {
			wantClass(t, err, tt.class)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.subPaths, subPaths); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", tt.path, tt.subPath, diff)
		}
		if got := mounts[0]; got.GetHostPath() != tt.mounts || got.GetReadonly() != tt.readOnly {
			t.Errorf("%s %q: %v, want %s", tt.path, tt.subPath, got, tt.mounts)
		}
	}
}

func TestImageVolumesAreMountedByTheRuntime(t *testing.T) {
	r := New(criconfig.Config{})
	spec := mounting(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r.example/data:1"}},
		corev1.VolumeMount{Name: "v", MountPath: "all"},
		corev1.VolumeMount{Name: "v", MountPath: "/part", SubPath: "a/b", ReadOnly: true})
	spec.ImageVolumes = []backend.ImageVolume{{Name: "v", Reference: "r.example/data:1", ImageID: "sha256:data"}}
	mounts, subPaths, err := r.VolumeMounts(spec)
	if err != nil {
		t.Fatal(err)
	}
	image := &runtimeapi.ImageSpec{Image: "sha256:data", UserSpecifiedImage: "r.example/data:1"}
	want := []*runtimeapi.Mount{
		{ContainerPath: "/all", Readonly: true, Image: image},
		{ContainerPath: "/part", Readonly: true, Image: image, ImageSubPath: "a/b"},
	}
	if diff := cmp.Diff(want, mounts, protocmp.Transform()); diff != "" || len(subPaths) > 0 {
		t.Errorf("mounts (-want +got):\n%s\nsubPaths %v", diff, subPaths)
	}
}
