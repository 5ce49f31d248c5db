package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// volume is one of the name with the source, and a mount of it.
func volume(name string, source corev1.VolumeSource) (corev1.Volume, corev1.VolumeMount) {
	return corev1.Volume{Name: name, VolumeSource: source}, corev1.VolumeMount{Name: name, MountPath: "/" + name}
}

// mounting is a pod whose container mounts the volumes, by name.
func mounting(volumes map[string]corev1.VolumeSource) *corev1.Pod {
	pod := testPod(corev1.Container{})
	for name, source := range volumes {
		v, m := volume(name, source)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, m)
	}
	return pod
}

func projected(sources ...corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
}

func TestReferences(t *testing.T) {
	byLabel := &corev1.ClusterTrustBundleProjection{
		SignerName:    ptr("example.com/s"),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"}},
	}
	pod := mounting(map[string]corev1.VolumeSource{
		"cm": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("vol-cm"), Optional: ptr(true)}},
		"s":  {Secret: &corev1.SecretVolumeSource{SecretName: "vol-s"}},
		"c":  {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		"e":  {Ephemeral: &corev1.EphemeralVolumeSource{}},
		"d":  {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"p": projected(
			corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named("proj-s")}},
			corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("proj-cm")}},
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Path: "u", ExpirationSeconds: ptr(int64(3600)),
			}},
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: "vault", ExpirationSeconds: ptr(int64(600)),
			}},
			corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr("roots")}},
			corev1.VolumeProjection{ClusterTrustBundle: byLabel},
			corev1.VolumeProjection{ClusterTrustBundle: byLabel},
		),
	})
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{named("pull"), named(""), named("pull")}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "unused", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "unused"}},
	})
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "B", ValueFrom: configMapKey("cm-key", "k", true)},
	}
	pod.Spec.InitContainers[0].Env = []corev1.EnvVar{
		{Name: "C", ValueFrom: secretKey("s-key", "k", true)}, {Name: "D", ValueFrom: secretKey("s-key", "l", false)},
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		EnvFrom: []corev1.EnvFromSource{fromConfigMap("", "cm-from", true), fromSecret("", "s-from", false)},
	}}}
	pod.Spec.RuntimeClassName = ptr("sandboxed")
	want := Refs{
		RuntimeClasses: []string{"sandboxed"},
		ConfigMaps:     []string{"cm-from", "cm-key", "proj-cm", "vol-cm"},
		Secrets:        []string{"proj-s", "s-from", "s-key", "vol-s"},
		PullSecrets:    []string{"pull"}, Services: true,
		Tokens: []TokenKey{{Expiration: 3600}, {Audience: "vault", Expiration: 600}},
		Bundles: []Bundle{
			{Key: "name:roots", Name: "roots"},
			{Key: "signer:example.com/s?a=1,b=2", SignerName: "example.com/s", LabelSelector: byLabel.LabelSelector},
		},
		Claims: []ClaimRef{{Name: "data"}, {Name: "p-e", Ephemeral: true}},
	}
	if diff := cmp.Diff(want, References(pod)); diff != "" {
		t.Error(diff)
	}
}

func TestBundleKeys(t *testing.T) {
	signer := ptr("s")
	sources := map[string]*corev1.ClusterTrustBundleProjection{
		"a name":            {Name: ptr("s")},
		"no selector":       {SignerName: signer},
		"an empty selector": {SignerName: signer, LabelSelector: &metav1.LabelSelector{}},
		"a selector": {
			SignerName: signer, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"}},
		},
		"another": {
			SignerName: signer, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "2"}},
		},
		"one that is no label": {
			SignerName: signer, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "/"}},
		},
		"another signer": {SignerName: ptr("t"), LabelSelector: &metav1.LabelSelector{}},
	}
	seen := map[string]string{}
	for name, source := range sources {
		key := BundleKey(source)
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key: %s", name, other, key)
		}
		seen[key] = name
	}
	same := &corev1.ClusterTrustBundleProjection{SignerName: signer, Path: "else", LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"},
		}},
	}}
	if BundleKey(same) == BundleKey(sources["an empty selector"]) {
		t.Error("expressions do not count")
	}
}
