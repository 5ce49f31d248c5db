package cri

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/test/kit/lane"
	testimages "github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// withImageVolume is a pod whose second volume is an image that it mounts.
func withImageVolume(uid, reference string, mounts ...corev1.VolumeMount) *corev1.Pod {
	pod := testPod(uid)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "dir", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
			Reference: reference, PullPolicy: corev1.PullIfNotPresent,
		}}},
	}
	pod.Spec.Containers[0].VolumeMounts = mounts
	return pod
}

// A runtime that would mount nothing, or all of an image instead of a directory, is not
// asked to.
func TestImageVolumesAreRefusedByNameWhereTheRuntimeCannot(t *testing.T) {
	all := corev1.VolumeMount{Name: "data", MountPath: "/data"}
	part := corev1.VolumeMount{Name: "data", MountPath: "/data", SubPath: "a"}
	expr := corev1.VolumeMount{Name: "data", MountPath: "/data", SubPathExpr: "$(A)"}
	for _, tt := range []struct {
		runtime string
		mount   corev1.VolumeMount
		want    string // begins the refusal; empty: it is mounted
	}{
		{"containerd 1.6.20~ds1", all, "spec.volumes[1].image: "},
		{"containerd 2.0.7", all, "spec.volumes[1].image: "},
		{"containerd v2.1.0", all, ""},
		{"containerd v2.1.0", part, "spec.containers[0].volumeMounts[0].subPath: "},
		{"containerd v2.1.4", expr, "spec.containers[0].volumeMounts[0].subPathExpr: "},
		{"containerd 2.2.0-rc.1", part, ""},
		{"containerd 2.4.2", expr, ""},
		{"containerd m", all, "spec.volumes[1].image: "},
		{"cri-o 1.30.9", all, "spec.volumes[1].image: "},
		{"cri-o 1.31.0", all, ""},
		{"cri-o 1.33.1", part, ""},
		{"another 9.0", all, "spec.volumes[1].image: "},
		{"another 9.0", corev1.VolumeMount{Name: "dir", MountPath: "/d", SubPath: "a"}, ""},
	} {
		t.Run(tt.runtime+" "+tt.mount.SubPath+tt.mount.SubPathExpr, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) { s.Runtime = tt.runtime })
			r, _ := w.connect(t)
			pod := withImageVolume("u1", "r.example/data:1", tt.mount)
			err := pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0))
			if tt.want == "" {
				must(t, err)
				return
			}
			wantClass(t, err, backend.ErrUnsupported)
			if !strings.Contains(err.Error(), ": "+tt.want) || !strings.Contains(err.Error(), " or newer") {
				t.Errorf("%v", err)
			}
		})
	}
}

// An ephemeral container may be the first that mounts an image, when the pod runs already.
func TestImageVolumesOfEphemeralContainers(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := withImageVolume("u1", "r.example/data:1")
	ref := runPod(t, r, pod)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "busybox:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}}}
	spec := containerSpec(pod, "debug", 0)
	spec.Container.VolumeMounts = pod.Spec.EphemeralContainers[0].VolumeMounts
	spec.ImageVolumes = []backend.ImageVolume{{Name: "data", Reference: "r.example/data:1", ImageID: "sha256:data"}}
	err := containers{r}.Start(t.Context(), ref, spec)
	wantClass(t, err, backend.ErrUnsupported)
	if !strings.Contains(err.Error(), "spec.volumes[1].image") {
		t.Errorf("%v", err)
	}
}

// An image that a container mounts stays, whoever made the container.
func TestMountedImagesAreUsed(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) { s.Runtime = "containerd 2.4.2" })
	r, _ := w.connect(t)
	for _, image := range []string{"r.example/data:1", "r.example/theirs:1", "r.example/idle:1"} {
		_, err := r.puller.Pull(t.Context(), image, nil)
		must(t, err)
	}
	mount := corev1.VolumeMount{Name: "data", MountPath: "/data"}
	pod := withImageVolume("u1", "r.example/data:1", mount)
	ref := runPod(t, r, pod)
	spec := containerSpec(pod, "main", 0)
	spec.Container.VolumeMounts = []corev1.VolumeMount{mount}
	spec.ImageVolumes = []backend.ImageVolume{{
		Name: "data", Reference: "r.example/data:1", ImageID: "sha256:r.example/data:1",
	}}
	must(t, containers{r}.Start(t.Context(), ref, spec))
	box, err := r.runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "theirs", Uid: "theirs"},
	}})
	must(t, err)
	_, err = r.runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: box.GetPodSandboxId(), Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "theirs"},
			Mounts:   []*runtimeapi.Mount{{Image: &runtimeapi.ImageSpec{Image: "sha256:r.example/theirs:1"}}},
		},
	})
	must(t, err)
	listed, err := r.store.List(t.Context())
	must(t, err)
	for _, image := range listed {
		name := image.Names[0]
		if want := name != "r.example/idle:1" &&
			strings.HasPrefix(name, "r.example/"); strings.HasPrefix(name, "r.example/") && image.Used != want {
			t.Errorf("%s is used: %v", name, image.Used)
		}
	}
	for image, removed := range map[string]bool{
		"r.example/data:1": false, "r.example/theirs:1": false, "r.example/idle:1": true,
	} {
		if err := r.store.Remove(t.Context(), "sha256:"+image); (err == nil) != removed {
			t.Errorf("remove %s: %v", image, err)
		}
	}
}

// TestRealImageVolumes mounts a private image, and a directory of it, with containerd 2.
func TestRealImageVolumes(t *testing.T) {
	lane.From(t, lane.Gate)
	h := remotehost.ForTest(t, func(c *remotehost.Config) { c.Containerd = containerd.V2 })
	must(t, h.ServeRegistry(t.Context(), registryHost, testRegistry(t)))
	t.Run("image volumes", func(t *testing.T) {
		w := newRealWorld(t, h)
		pod := withImageVolume("image-1", privateImage,
			corev1.VolumeMount{Name: "data", MountPath: "/all"},
			corev1.VolumeMount{Name: "data", MountPath: "/part", SubPath: "bin"},
		)
		_, err := w.remote.puller.Pull(t.Context(), privateImage, nil)
		if err == nil {
			t.Fatal("the image is not private")
		}
		pulled, err := w.remote.puller.Pull(
			t.Context(), privateImage, []backend.Credential{{Username: registryUser, Password: registryPass}},
		)
		must(t, err)
		volumes := []backend.ImageVolume{{Name: "data", Reference: privateImage, ImageID: pulled.ID}}
		text, facts := w.runMounting(
			t, pod, volumes,
			`/all/bin/busybox echo all; /part/busybox echo part; touch /all/x || touch /part/x || echo read-only`,
		)
		for _, want := range []string{"all\n", "part\n", "read-only\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the container does not see %q:\n%s", want, text)
			}
		}
		if err := w.remote.store.Remove(t.Context(), pulled.ID); err == nil || !strings.Contains(err.Error(), "uses it") {
			t.Errorf("remove the image: %v", err)
		}
		must(t, pods{w.remote}.Remove(t.Context(), facts.Ref))
		wantClass(t, pods{w.remote}.Remove(t.Context(), facts.Ref), backend.ErrNotFound)

		file := withImageVolume(
			"image-2", privateImage, corev1.VolumeMount{Name: "data", MountPath: "/part", SubPath: "no/such"},
		)
		spec := launchSpec(file, 0)
		must(t, pods{w.remote}.Launch(t.Context(), t.Context(), spec))
		c := containerSpec(file, "main", 0)
		c.Container.Image = testimages.BusyboxRef
		c.Container.VolumeMounts, c.ImageVolumes = file.Spec.Containers[0].VolumeMounts, volumes
		if err := (containers{w.remote}).Start(t.Context(), spec.Ref(), c); err == nil ||
			!strings.Contains(err.Error(), "no/such") {
			t.Errorf("a directory that the image does not have: %v", err)
		}
		must(t, pods{w.remote}.Remove(t.Context(), spec.Ref()))
		wantClass(t, pods{w.remote}.Remove(t.Context(), spec.Ref()), backend.ErrNotFound)
	})
}
