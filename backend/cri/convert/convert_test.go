package convert

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v of class %q, want %q", err, backend.Class(err), backend.Class(class))
	}
}

// mounting is the container of a pod that mounts a volume, v.
func mounting(source corev1.VolumeSource, mounts ...corev1.VolumeMount) backend.ContainerSpec {
	pod := fakecri.Pod("u1")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	pod.Spec.Containers[0].VolumeMounts = mounts
	return backend.ContainerSpec{Pod: pod, Container: pod.Spec.Containers[0], Hash: "h1"}
}
