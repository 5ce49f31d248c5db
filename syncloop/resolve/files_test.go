package resolve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

func item(key, path string) corev1.KeyToPath { return corev1.KeyToPath{Key: key, Path: path} }

func itemMode(key, path string, mode int32) corev1.KeyToPath {
	return corev1.KeyToPath{Key: key, Path: path, Mode: &mode}
}

func configMapVolume(name string, mayLack bool, items ...corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: named(name), Items: items, Optional: &mayLack,
	}}
}

func secretVolume(name string, mayLack bool, items ...corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, Optional: &mayLack}}
}

func downwardVolume(items ...corev1.DownwardAPIVolumeFile) corev1.VolumeSource {
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}
}

func downwardField(path, field string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
}

func fromKeys(name string, mayLack bool, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: named(name), Items: items, Optional: &mayLack,
	}}
}

func fromSecretKeys(name string, mayLack bool, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: named(name), Items: items, Optional: &mayLack,
	}}
}

func tokenSource(audience, path string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Audience: audience, Path: path,
	}}
}

func bundleSource(name, path string, mayLack bool) corev1.VolumeProjection {
	return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
		Name: &name, Path: path, Optional: &mayLack,
	}}
}

func filesObjects() Objects {
	o := testObjects()
	o.Tokens = map[TokenKey]Object[Token]{
		{Expiration: 3600}:                    {Value: Token{Value: "tok"}},
		{Audience: "bad", Expiration: 3600}:   {Err: errors.New("failed to fetch token: no")},
		{Audience: "vault", Expiration: 3600}: {Value: Token{Value: "vtok"}},
	}
	o.Bundles = map[string]Object[string]{
		"name:roots": {Value: "PEM"}, "name:gone": {Err: backend.Errorf(backend.ErrNotFound, "no bundle")},
	}
	return o
}

func show(files []backend.File) []string {
	var out []string
	for _, f := range files {
		line := fmt.Sprintf("%s %o %s", f.Path, f.Mode, f.Data)
		if f.UID != nil {
			line += fmt.Sprintf(" uid %d", *f.UID)
		}
		out = append(out, line)
	}
	return out
}

func TestFiles(t *testing.T) {
	withMode := func(source corev1.VolumeSource, mode int32) corev1.VolumeSource {
		switch {
		case source.ConfigMap != nil:
			source.ConfigMap.DefaultMode = &mode
		case source.Secret != nil:
			source.Secret.DefaultMode = &mode
		case source.Projected != nil:
			source.Projected.DefaultMode = &mode
		case source.DownwardAPI != nil:
			source.DownwardAPI.DefaultMode = &mode
		}
		return source
	}
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		want   []string
	}{
		"all keys of a configMap, binary ones too": {
			configMapVolume("cm", false), []string{"1 644 digit", "A.b-c 644 odd", "bin 644 \x01", "k 644 cv"},
		},
		"items and modes": {
			withMode(configMapVolume("cm", false, item("k", "b/x"), itemMode("bin", "a", 0o400)), 0o440),
			[]string{"a 400 \x01", "b/x 440 cv"},
		},
		"a secret":             {secretVolume("s", false), []string{"k 644 sv", "other 644 so"}},
		"a secret's key":       {withMode(secretVolume("s", false, item("k", "./x//y")), 0o400), []string{"x/y 400 sv"}},
		"optional and missing": {configMapVolume("gone", true), nil},
		"a secret, optional and missing, whose items are": {secretVolume("gone", true, item("k", "x")), nil},
		"optional, and an item is missing": {
			configMapVolume("cm", true, item("none", "x"), item("k", "y")), []string{"y 644 cv"},
		},
		"downward": {
			withMode(downwardVolume(downwardField("l", "metadata.labels"), downwardField(
				"d/../a", "metadata.annotations['example.com/Note']",
			),
				corev1.DownwardAPIVolumeFile{Path: "m", Mode: ptr(int32(0o400)), ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: "c", Resource: "limits.memory", Divisor: resource.MustParse("1Mi"),
				}}), 0o600),
			[]string{"a 600 n", "l 600 app=\"web\"\nb=\"x\\\"y\\n\"", "m 400 2048"},
		},
		"projected": {
			withMode(projected(
				tokenSource("", "token"), fromKeys("cm", false, item("k", "ca.crt")),
				fromSecretKeys("s", false, itemMode("k", "s/k", 0o440)),
				corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
					Items: []corev1.DownwardAPIVolumeFile{downwardField("namespace", "metadata.namespace")},
				}},
				bundleSource("roots", "roots.pem", false), bundleSource("gone", "none.pem", true), fromKeys("gone", true),
				fromSecretKeys("gone", true, item("x", "x")),
			), 0o640),
			[]string{"ca.crt 640 cv", "namespace 640 ns", "none.pem 640 ", "roots.pem 640 PEM", "s/k 440 sv", "token 640 tok"},
		},
		"of two sources with one path the later counts": {
			projected(fromKeys("cm", false, item("k", "x")), fromSecretKeys("s", false, item("k", "x"))), []string{"x 644 sv"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := mounting(map[string]corev1.VolumeSource{"v": tc.source})
			node := Node{Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
			got, err := Files(pod, &pod.Spec.Volumes[0], filesObjects(), node)
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				t.Error("nil is for volumes of other kinds")
			}
			if diff := cmp.Diff(tc.want, show(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFilesOfOtherKindsAreNone(t *testing.T) {
	pod := mounting(map[string]corev1.VolumeSource{"v": {EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if got, err := Files(pod, &pod.Spec.Volumes[0], Objects{}, Node{}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFilesErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		source  corev1.VolumeSource
		waiting bool
		want    string
	}{
		"configMap missing":             {source: configMapVolume("gone", false), want: `configmap "gone" not found`},
		"secret missing":                {source: secretVolume("gone", false), want: `secret "gone" not found`},
		"optional does not forgive all": {source: configMapVolume("deny", true), want: "configmap is forbidden"},
		"item missing": {
			source: configMapVolume("cm", false, item("none", "x")), want: "configmap references non-existent config key: none",
		},
		"item of a secret missing": {
			source: secretVolume("s", false, item("none", "x")), want: "references non-existent secret key: none",
		},
		"an unknown configMap is waited for": {
			source: configMapVolume("unknown", true), waiting: true, want: `configmap "unknown": not known yet`,
		},
		"a token is waited for": {
			source: projected(tokenSource("new", "t")), waiting: true,
			want: `service account token for audience "new": not known yet`,
		},
		"a bundle is waited for": {
			source: projected(bundleSource("new", "b", true)), waiting: true,
			want: `cluster trust bundle "name:new": not known yet`,
		},
		"a token that cannot be had": {source: projected(tokenSource("bad", "t")), want: "failed to fetch token: no"},
		"a bundle that is missing":   {source: projected(bundleSource("gone", "b", false)), want: "no bundle"},
		"a bundle without a name": {
			source: projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
			want:   "ClusterTrustBundle projection requires either name or signerName to be set",
		},
		"all that is wrong at once": {
			source: projected(fromKeys("gone", false), tokenSource("", "t"), fromSecretKeys("gone", false)),
			want:   `[configmap "gone" not found, secret "gone" not found]`,
		},
		"waiting goes first": {
			source: projected(fromKeys("gone", false), tokenSource("new", "t")), waiting: true,
			want: `service account token for audience "new": not known yet`,
		},
		"a pod certificate": {
			source: projected(tokenSource("", "t"), corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}),
			want:   "projected.sources[1].podCertificate is not supported",
		},
		"a field that no file may have": {
			source: downwardVolume(downwardField("x", "spec.nodeName")), want: "unsupported fieldPath: spec.nodeName",
		},
		"resources of no container": {source: downwardVolume(corev1.DownwardAPIVolumeFile{
			Path: "x", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"},
		}), want: "container  not found"},
		"no path": {
			source: configMapVolume("cm", false, item("k", "")), want: `invalid path: must not be empty: ""`,
		},
		"absolute": {
			source: configMapVolume("cm", false, item("k", "/x")), want: "invalid path: must be relative path: /x",
		},
		"backsteps": {
			source: configMapVolume("cm", false, item("k", "a/../x")), want: "invalid path: must not contain '..': a/../x",
		},
		"names of the writer": {
			source: configMapVolume("cm", false, item("k", "..data/x")),
			want:   "invalid path: must not start with '..': ..data/x",
		},
		"long names": {
			source: configMapVolume("cm", false, item("k", strings.Repeat("x", 256))),
			want:   "invalid path: filenames must be less than or equal to 255 characters",
		},
		"long paths": {
			source: configMapVolume("cm", false, item("k", strings.Repeat("x/", 2048)+"x")),
			want:   "invalid path: must be less than or equal to 4096 characters",
		},
		"the volume itself": {
			source: configMapVolume("cm", false, item("k", "./.")), want: "invalid path: must name a file",
		},
		"a file where a directory has to be": {
			source: configMapVolume("cm", false, item("k", "a"), item("k", "a.x"), item("k", "a/b/c")),
			want:   "invalid path: a is a file, a/b/c needs it to be a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := mounting(map[string]corev1.VolumeSource{"v": tc.source})
			got, err := Files(pod, &pod.Spec.Volumes[0], filesObjects(), Node{})
			if err == nil || err.Error() != tc.want {
				t.Errorf("%v, error = %v; want %s", got, err, tc.want)
			}
			if errors.Is(err, ErrWaiting) != tc.waiting {
				t.Errorf("waiting = %v", !tc.waiting)
			}
		})
	}
}

func TestWhoReadsTokens(t *testing.T) {
	uid := func(id int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &id} }
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   []string
	}{
		"nobody in particular": {func(*corev1.PodSpec) {}, []string{"b 644 PEM", "k 644 cv", "t 644 tok"}},
		"the pod's user": {
			func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr(int64(1000))} },
			[]string{"b 600 PEM uid 1000", "k 644 cv", "t 600 tok uid 1000"},
		},
		"the one user of all containers": {
			func(s *corev1.PodSpec) {
				s.Containers[0].SecurityContext, s.InitContainers[0].SecurityContext = uid(7), uid(7)
			},
			[]string{"b 600 PEM uid 7", "k 644 cv", "t 600 tok uid 7"},
		},
		"containers of several users": {
			func(s *corev1.PodSpec) {
				s.Containers[0].SecurityContext, s.InitContainers[0].SecurityContext = uid(7), uid(8)
			},
			[]string{"b 644 PEM", "k 644 cv", "t 644 tok"},
		},
		"a container that does not say": {
			func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = uid(7) }, []string{"b 644 PEM", "k 644 cv", "t 644 tok"},
		},
		"an ephemeral container of another user": {
			func(s *corev1.PodSpec) {
				s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr(int64(1000))}
				s.EphemeralContainers = []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: uid(0)}},
				}
			}, []string{"b 644 PEM", "k 644 cv", "t 644 tok"},
		},
		"a group": {
			func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr(int64(5))} },
			[]string{"b 600 PEM", "k 644 cv", "t 600 tok"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := mounting(map[string]corev1.VolumeSource{"v": projected(
				tokenSource("", "t"), bundleSource("roots", "b", false), fromKeys("cm", false, item("k", "k")),
			)})
			tc.change(&pod.Spec)
			got, err := Files(pod, &pod.Spec.Volumes[0], filesObjects(), Node{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, show(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVolumesDoNotKnowThePodsOwnLimits(t *testing.T) {
	pod := mounting(map[string]corev1.VolumeSource{"v": downwardVolume(corev1.DownwardAPIVolumeFile{
		Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"},
	})})
	pod.Spec.Resources = &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
	}
	node := Node{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}
	got, err := Files(pod, &pod.Spec.Volumes[0], Objects{}, node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cpu 644 4"}, show(got)); diff != "" {
		t.Error(diff)
	}
}
