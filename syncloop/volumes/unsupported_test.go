package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

func TestUnsupported(t *testing.T) {
	certificate := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}
	pod := podWith(
		configMap("cm"), corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}, projected(token(""), certificate),
		corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{}}, claim("data", false), hostPath("/h"), nfs(false),
		corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}},
	)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "unused", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}},
	})
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v4"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		VolumeDevices: []corev1.VolumeDevice{{Name: "v4"}},
	}}}
	var got []string
	for _, r := range Unsupported(pod) {
		if r.Why == "" {
			t.Errorf("%s: no word why", r.Field)
		}
		got = append(got, r.Field)
	}
	want := []string{
		"spec.volumes[1].csi", "spec.volumes[2].projected.sources[1].podCertificate", "spec.volumes[3].cephfs",
		"spec.containers[0].volumeDevices", "spec.ephemeralContainers[0].volumeDevices",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotRefusedCanBeMade(t *testing.T) {
	for i, source := range []corev1.VolumeSource{
		configMap("cm"), projected(token("")), claim("data", false), hostPath("/h"), nfs(false),
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{Ephemeral: &corev1.EphemeralVolumeSource{}},
		{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		{Secret: &corev1.SecretVolumeSource{SecretName: "gone", Optional: ptr(true)}},
		{GitRepo: &corev1.GitRepoVolumeSource{}},
		{FC: &corev1.FCVolumeSource{}},
		{},
	} {
		pod, o := podWith(source), objects()
		o.Secrets = map[string]resolve.Object[*corev1.Secret]{"gone": {Err: o.ConfigMaps["gone"].Err}}
		refused := len(Unsupported(pod)) > 0
		if err := Specs(pod, o, resolve.Node{}, resolve.Addresses{})[0].Err; refused != (err != nil) {
			t.Errorf("%d: refused %v, error %v", i, refused, err)
		}
	}
}
