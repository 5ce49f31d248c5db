package cri

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// A pod that ran before the configuration forbade it gets no new container either.
func TestForbiddenContainersAreNotStarted(t *testing.T) {
	w := newWorld(t)
	w.cfg.Unprivileged = true
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	refusals := r.backend().Check.Check(pod)
	if len(refusals) != 1 || refusals[0].Field != "spec.containers[0].securityContext.privileged" {
		t.Errorf("Check: %+v", refusals)
	}
	ref := runPod(t, r, pod)
	spec := containerSpec(pod, "main", 0)
	spec.Container = pod.Spec.Containers[0]
	wantClass(t, containers{r}.Start(t.Context(), ref, spec), backend.ErrUnsupported)
	if id, _ := w.fake.Container("main"); id != "" {
		t.Errorf("container %s was made", id)
	}
	must(t, containers{r}.Start(t.Context(), ref, containerSpec(pod, "plain", 0)))
}

func withHostPath(path string, kind corev1.HostPathType) *corev1.Pod {
	pod := testPod("u1")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}}}
	return pod
}

func TestPlaceHostPathAsConfigured(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "read"), 0o755))
	must(t, os.Mkdir(filepath.Join(root, "write"), 0o755))
	must(t, os.Symlink(t.TempDir(), filepath.Join(root, "write/out")))
	w := newWorld(t)
	w.cfg.HostPaths = []criconfig.HostPath{{PathPrefix: root + "/read", ReadOnly: true}, {PathPrefix: root + "/write"}}
	r, _ := w.connect(t)
	for _, tt := range []struct {
		path    string
		claimed bool
		made    bool
		class   error
	}{
		{path: "/write/made", made: true},
		{path: "/read", made: true},
		{path: "/read/made"},      // the host's check fails: nothing is made for who may only read
		{path: "/write/out/made"}, // a link that leads out
		{path: "/other/made", class: backend.ErrUnsupported},
		{path: "/other/made", claimed: true, class: backend.ErrUnsupported},
		{path: "/read", claimed: true, class: backend.ErrUnsupported},
	} {
		pod := withHostPath(root+tt.path, corev1.HostPathDirectoryOrCreate)
		spec := backend.VolumeSpec{Pod: pod, Name: "v", Source: pod.Spec.Volumes[0].VolumeSource}
		if tt.claimed {
			pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			}
		}
		err := files{r}.Place(t.Context(), spec)
		if tt.class != nil {
			wantClass(t, err, tt.class)
		}
		_, statErr := os.Stat(root + tt.path)
		if tt.made != (err == nil) || tt.made != (statErr == nil) && tt.path != "/read" {
			t.Errorf("%s: err = %v, there: %v", tt.path, err, statErr)
		}
	}
}
