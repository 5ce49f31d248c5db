package volumes

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

func ptr[T any](v T) *T { return &v }

// podWith is a pod whose container mounts volumes v0, v1, … of these sources.
func podWith(sources ...corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	for i, source := range sources {
		name := "v" + string(rune('0'+i))
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name})
	}
	return pod
}

func configMap(name string) corev1.VolumeSource {
	return corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}
}

func claim(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
		ClaimName: name, ReadOnly: readOnly,
	}}
}

func nfs(readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/e", ReadOnly: readOnly}}
}

func hostPath(path string) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
}

func token(audience string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Audience: audience, Path: "t" + audience,
	}}
}

func projected(sources ...corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
}

func objects() resolve.Objects {
	return resolve.Objects{
		ConfigMaps: map[string]resolve.Object[*corev1.ConfigMap]{
			"cm":   {Value: &corev1.ConfigMap{Data: map[string]string{"b": "2", "a": "1"}}},
			"gone": {Err: apierrors.NewNotFound(corev1.Resource("configmap"), "gone")},
		},
		Tokens: map[resolve.TokenKey]resolve.Object[resolve.Token]{
			{Expiration: 3600}: {Value: resolve.Token{Value: "tok"}},
		},
		Claims: map[string]resolve.Object[resolve.Claim]{
			"data": {Value: resolve.Claim{Source: nfs(false)}}, "ro": {Value: resolve.Claim{Source: nfs(true), ReadOnly: true}},
			"p-v0": {Value: resolve.Claim{Source: hostPath("/d")}},
			"bad":  {Err: errors.New("error processing PVC ns/bad: PVC is not bound")},
		},
	}
}

func TestSpecs(t *testing.T) {
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr(resource.MustParse("1Gi"))}}
	downward := corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "n", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}}}
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		want   backend.VolumeSpec
	}{
		"emptyDir": {emptyDir, backend.VolumeSpec{Source: emptyDir}},
		"hostPath": {hostPath("/h"), backend.VolumeSpec{Source: hostPath("/h")}},
		"nfs":      {nfs(true), backend.VolumeSpec{Source: nfs(true), ReadOnly: true}},
		"contents are read-only for everyone": {configMap("cm"), backend.VolumeSpec{
			Source: configMap("cm"), ReadOnly: true,
			Files: []backend.File{
				{Path: "a", Data: []byte("1"), Mode: 0o644}, {Path: "b", Data: []byte("2"), Mode: 0o644},
			},
		}},
		"a token": {projected(token("")), backend.VolumeSpec{
			Source: projected(token("")), ReadOnly: true,
			Files: []backend.File{{Path: "t", Data: []byte("tok"), Mode: 0o644}},
		}},
		"downwardAPI": {downward, backend.VolumeSpec{Source: downward, ReadOnly: true, Files: []backend.File{
			{Path: "n", Data: []byte("p"), Mode: 0o644},
		}}},
		"a claim":                    {claim("data", false), backend.VolumeSpec{Source: nfs(false)}},
		"a claim, read-only here":    {claim("data", true), backend.VolumeSpec{Source: nfs(true), ReadOnly: true}},
		"a volume that is read-only": {claim("ro", false), backend.VolumeSpec{Source: nfs(true), ReadOnly: true}},
		"the claim made for the volume": {
			corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, backend.VolumeSpec{Source: hostPath("/d")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, o := podWith(tc.source), objects()
			got := Specs(pod, o, resolve.Node{}, resolve.Addresses{})
			if len(got) != 1 || got[0].Err != nil || got[0].Keep || got[0].Spec.Hash == "" {
				t.Fatalf("%+v", got)
			}
			want := tc.want
			want.Pod, want.Name, want.Hash = pod, "v0", got[0].Spec.Hash
			if diff := cmp.Diff(want, got[0].Spec); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(objects().Claims["data"], o.Claims["data"]); diff != "" {
				t.Errorf("the objects were changed: %s", diff)
			}
		})
	}
}

func TestOnlyMountedVolumesAreWanted(t *testing.T) {
	pod := podWith(hostPath("/0"), configMap("gone"), hostPath("/2"), hostPath("/3"))
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "v3"}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v2"}, {Name: "v2"}}
	var got []string
	for _, w := range Specs(pod, objects(), resolve.Node{}, resolve.Addresses{}) {
		got = append(got, w.Spec.Name)
	}
	if diff := cmp.Diff([]string{"v2", "v3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhyAVolumeCannotBeMade(t *testing.T) {
	for name, tc := range map[string]struct {
		source  corev1.VolumeSource
		class   error
		message string
	}{
		"a missing object": {
			source: configMap("gone"), message: `MountVolume.SetUp failed for volume "v0" : configmap "gone" not found`,
		},
		"an unknown object": {
			source: configMap("unknown"), class: resolve.ErrWaiting,
			message: `MountVolume.SetUp failed for volume "v0" : configmap "unknown": not known yet`,
		},
		"a claim": {source: claim("bad", false), message: "Unable to attach or mount volumes: unmounted volumes=[v0], " +
			"unattached volumes=[], failed to process volumes=[v0]: error processing PVC ns/bad: PVC is not bound"},
		"an unknown claim": {
			source: claim("unknown", false), class: resolve.ErrWaiting,
			message: "Unable to attach or mount volumes: unmounted volumes=[v0], " +
				`unattached volumes=[], failed to process volumes=[v0]: claim "unknown": not known yet`,
		},
		"a kind that we lack": {
			source: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}, class: backend.ErrUnsupported,
			message: `MountVolume.SetUp failed for volume "v0" : spec.volumes[0].iscsi is not supported`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(tc.source)
			got := Specs(pod, objects(), resolve.Node{}, resolve.Addresses{})
			if len(got) != 1 || got[0].Err == nil {
				t.Fatalf("%+v", got)
			}
			if diff := cmp.Diff(tc.message, got[0].Message()); diff != "" {
				t.Error(diff)
			}
			for _, class := range []error{resolve.ErrWaiting, backend.ErrUnsupported} {
				if is := errors.Is(got[0].Err, class); is != errors.Is(tc.class, class) {
					t.Errorf("is %v: %v", class, is)
				}
			}
			if s := got[0].Spec; s.Pod != pod || s.Name != "v0" || s.Hash != "" || s.Files != nil {
				t.Errorf("spec = %+v", s)
			}
		})
	}
}

func TestTheHashCoversSourceAndFiles(t *testing.T) {
	hashOf := func(o resolve.Objects, source corev1.VolumeSource, change func(*corev1.Pod)) string {
		pod := podWith(source)
		if change != nil {
			change(pod)
		}
		return Specs(pod, o, resolve.Node{}, resolve.Addresses{})[0].Spec.Hash
	}
	base := hashOf(objects(), configMap("cm"), nil)
	// Volumes that were placed by another process are recognised by it.
	if want := "344ef6580978ef7571a56e2aa461e7ba2a774eff3a273c22a91a93775937e144"; base != want {
		t.Errorf("hash = %s, want %s", base, want)
	}
	value := objects()
	value.ConfigMaps["cm"] = resolve.Object[*corev1.ConfigMap]{
		Value: &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "3"}},
	}
	mode := configMap("cm")
	mode.ConfigMap.DefaultMode = ptr(int32(0o600))
	elsewhere := objects()
	elsewhere.ConfigMaps["cm"] = resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"},
		BinaryData: map[string][]byte{"a": []byte("1"), "b": []byte("2")},
	}}
	for name, tc := range map[string]struct {
		got  string
		same bool
	}{
		"again":          {hashOf(objects(), configMap("cm"), nil), true},
		"the same bytes": {hashOf(elsewhere, configMap("cm"), nil), true},
		"another pod": {
			hashOf(objects(), configMap("cm"), func(p *corev1.Pod) { p.UID, p.Labels = "w", map[string]string{"a": "b"} }), true,
		},
		"live update: another value": {hashOf(value, configMap("cm"), nil), false},
		"another mode":               {hashOf(objects(), mode, nil), false},
		"another source":             {hashOf(objects(), hostPath("/h"), nil), false},
	} {
		if (tc.got == base) != tc.same {
			t.Errorf("%s: the hash is the same: %v", name, !tc.same)
		}
	}
	if hashOf(objects(), claim("data", false), nil) == hashOf(objects(), claim("data", true), nil) {
		t.Error("read-only does not count")
	}
}

func TestKeptTokensKeepTheVolume(t *testing.T) {
	kept := objects()
	kept.Kept = map[resolve.TokenKey]bool{{Audience: "old", Expiration: 3600}: true}
	missing := corev1.VolumeProjection{
		ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}},
	}
	unknown := corev1.VolumeProjection{
		ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "unknown"}},
	}
	for name, tc := range map[string]struct {
		source         corev1.VolumeSource
		waiting, keeps bool
	}{
		"behaviour 5: a token that was placed is not minted anew": {projected(token("old")), true, true},
		"beside one that is new":                                  {projected(token(""), token("old")), true, true},
		"no token of it is kept":                                  {projected(token("")), false, false},
		"another token is not known yet":                          {projected(token("new"), token("old")), true, false},
		"an object beside it is not known yet":                    {projected(token("old"), unknown), true, false},
		"an object beside it is missing":                          {projected(token("old"), missing), true, false},
		"a volume of another kind":                                {configMap("unknown"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Specs(podWith(tc.source), kept, resolve.Node{}, resolve.Addresses{})[0]
			if errors.Is(got.Err, resolve.ErrWaiting) != tc.waiting || got.Keep != tc.keeps {
				t.Errorf("err %v, keep %v", got.Err, got.Keep)
			}
			if len(kept.Tokens) != 1 {
				t.Error("the objects were changed")
			}
		})
	}
}

func TestSizeOfMemory(t *testing.T) {
	limits := func(memory ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers = pod.Spec.Containers[:1]
			for i, m := range memory {
				if i > 0 {
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "x"})
				}
				if m != "" {
					pod.Spec.Containers[i].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(m)}
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		medium corev1.StorageMedium
		limit  string
		change func(*corev1.Pod)
		node   string
		want   string
	}{
		"on disk the limit stays":        {limit: "9Gi", node: "4Gi", want: "9Gi"},
		"what the node has":              {medium: "Memory", node: "4Gi", want: "4Gi"},
		"nothing is known":               {medium: "Memory"},
		"its own limit":                  {medium: "Memory", limit: "1Gi", node: "4Gi", want: "1Gi"},
		"the node's before a larger one": {medium: "Memory", limit: "9Gi", node: "4Gi", want: "4Gi"},
		"the pod's": {
			medium: "Memory", limit: "3Gi", change: limits("1Gi", "1Gi"), node: "4Gi", want: "2Gi",
		},
		"one container has none": {medium: "Memory", change: limits("1Gi", ""), node: "4Gi", want: "4Gi"},
		"a limit of the pod itself": {medium: "Memory", change: func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			}
		}, node: "4Gi", want: "512Mi"},
		"huge pages are no tmpfs of ours": {medium: "HugePages-2Mi", limit: "9Gi", node: "4Gi", want: "9Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := &corev1.EmptyDirVolumeSource{Medium: tc.medium}
			if tc.limit != "" {
				dir.SizeLimit = ptr(resource.MustParse(tc.limit))
			}
			pod := podWith(corev1.VolumeSource{EmptyDir: dir})
			before := Specs(pod, resolve.Objects{}, resolve.Node{}, resolve.Addresses{})[0].Spec.Hash
			if tc.change != nil {
				tc.change(pod)
			}
			node := resolve.Node{}
			if tc.node != "" {
				node.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(tc.node)}
			}
			declared := pod.Spec.Volumes[0].DeepCopy()
			got := Specs(pod, resolve.Objects{}, node, resolve.Addresses{})[0].Spec
			size := ""
			if got.Source.EmptyDir.SizeLimit != nil {
				size = got.Source.EmptyDir.SizeLimit.String()
			}
			if size != tc.want || got.Source.EmptyDir.Medium != tc.medium {
				t.Errorf("size %q, medium %q; want %q", size, got.Source.EmptyDir.Medium, tc.want)
			}
			if got.Hash != before {
				t.Error("resources make another volume")
			}
			if diff := cmp.Diff(declared, &pod.Spec.Volumes[0]); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}

// A volume that the backend makes itself keeps its template; a claim does not.
func TestAVolumeThatTheBackendMakesWaitsForNoClaim(t *testing.T) {
	made := corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		}},
	}
	pod := podWith(made, claim("data", false))
	got := Specs(pod, resolve.Objects{}, resolve.Node{EphemeralVolumes: true}, resolve.Addresses{})
	if got[0].Err != nil || got[0].Spec.Hash == "" || !reflect.DeepEqual(got[0].Spec.Source, made) {
		t.Errorf("made for the pod: %+v", got[0])
	}
	if !errors.Is(got[1].Err, resolve.ErrWaiting) {
		t.Errorf("a claim: %+v", got[1])
	}
	if got := Specs(
		pod, resolve.Objects{}, resolve.Node{}, resolve.Addresses{},
	)[0]; !errors.Is(got.Err, resolve.ErrWaiting) {
		t.Errorf("where the backend makes none: %+v", got)
	}
}
