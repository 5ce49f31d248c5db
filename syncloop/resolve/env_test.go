package resolve

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

func ptr[T any](v T) *T { return &v }

// testPod is a pod in namespace ns with a container c and an init container i.
func testPod(c corev1.Container) *corev1.Pod {
	c.Name = "c"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "u-1",
			Labels:      map[string]string{"app": "web", "b": "x\"y\n"},
			Annotations: map[string]string{"example.com/Note": "n"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "sa",
			InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{c},
		},
	}
}

func testObjects() Objects {
	return Objects{
		ServicesSynced: true,
		ConfigMaps: map[string]Object[*corev1.ConfigMap]{
			"cm": {Value: &corev1.ConfigMap{
				Data: map[string]string{"k": "cv", "A.b-c": "odd", "1": "digit"}, BinaryData: map[string][]byte{"bin": {1}},
			}},
			"gone": {Err: apierrors.NewNotFound(corev1.Resource("configmaps"), "gone")},
			"deny": {Err: errors.New("configmap is forbidden")},
		},
		Secrets: map[string]Object[*corev1.Secret]{
			"s":    {Value: &corev1.Secret{Data: map[string][]byte{"k": []byte("sv"), "other": []byte("so")}}},
			"gone": {Err: backend.Errorf(backend.ErrNotFound, "no such thing")},
		},
	}
}

func configMapKey(name, key string, mayLack bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &mayLack,
	}}
}

func secretKey(name, key string, mayLack bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &mayLack,
	}}
}

func fromConfigMap(prefix, name string, mayLack bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &mayLack,
	}}
}

func fromSecret(prefix, name string, mayLack bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &mayLack,
	}}
}

func TestEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want []corev1.EnvVar
	}{
		"nothing": {},
		"a variable sees those before it": {
			env:  []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2$(C)"}, {Name: "C", Value: "$$(A)"}},
			want: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "12$(C)"}, {Name: "C", Value: "$(A)"}},
		},
		"an empty value is set": {env: []corev1.EnvVar{{Name: "A"}}, want: []corev1.EnvVar{{Name: "A"}}},
		"of two with one name the last counts": {
			env:  []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "A", Value: "$(A)3"}},
			want: []corev1.EnvVar{{Name: "A", Value: "13"}, {Name: "B", Value: "2"}},
		},
		"envFrom brings all keys of Data, under any name that a variable may have": {
			from: []corev1.EnvFromSource{fromConfigMap("", "cm", false)},
			want: []corev1.EnvVar{{Name: "1", Value: "digit"}, {Name: "A.b-c", Value: "odd"}, {Name: "k", Value: "cv"}},
		},
		"a prefix; a later source goes before an earlier": {
			from: []corev1.EnvFromSource{
				fromSecret("k_", "s", false), fromConfigMap("", "cm", false), fromSecret("", "s", false),
			},
			want: []corev1.EnvVar{
				{Name: "k_k", Value: "sv"},
				{Name: "k_other", Value: "so"},
				{Name: "1", Value: "digit"},
				{Name: "A.b-c", Value: "odd"},
				{Name: "k", Value: "sv"},
				{Name: "other", Value: "so"},
			},
		},
		"env replaces envFrom and sees it": {
			from: []corev1.EnvFromSource{fromSecret("", "s", false)},
			env:  []corev1.EnvVar{{Name: "k", Value: "my $(k) $(other)"}},
			want: []corev1.EnvVar{{Name: "k", Value: "my sv so"}, {Name: "other", Value: "so"}},
		},
		"keys": {
			env: []corev1.EnvVar{
				{Name: "A", ValueFrom: configMapKey("cm", "k", false)}, {Name: "B", ValueFrom: secretKey("s", "k", false)},
			},
			want: []corev1.EnvVar{{Name: "A", Value: "cv"}, {Name: "B", Value: "sv"}},
		},
		"what is optional and lacking is not set": {
			from: []corev1.EnvFromSource{fromConfigMap("", "gone", true), fromSecret("", "gone", true)},
			env: []corev1.EnvVar{
				{Name: "A", ValueFrom: configMapKey("gone", "k", true)},
				{Name: "B", ValueFrom: secretKey("gone", "k", true)},
				{Name: "C", ValueFrom: configMapKey("cm", "none", true)},
				{Name: "D", ValueFrom: secretKey("s", "none", true)},
			},
		},
		"what is optional and lacking leaves what envFrom brought": {
			from: []corev1.EnvFromSource{fromSecret("", "s", false)},
			env:  []corev1.EnvVar{{Name: "k", ValueFrom: configMapKey("gone", "k", true)}},
			want: []corev1.EnvVar{{Name: "k", Value: "sv"}, {Name: "other", Value: "so"}},
		},
		"values from elsewhere are not expanded": {
			env:  []corev1.EnvVar{{Name: "X", Value: "1"}, {Name: "L", ValueFrom: field("metadata.labels['b']")}},
			want: []corev1.EnvVar{{Name: "X", Value: "1"}, {Name: "L", Value: "x\"y\n"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(corev1.Container{EnvFrom: tc.from, Env: tc.env})
			before := pod.DeepCopy()
			got, _, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), Node{}, Addresses{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Env); diff != "" {
				t.Error(diff)
			}
			if got.EnvFrom != nil {
				t.Error("envFrom is left")
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}

func TestCommandAndArgsSeeTheWholeEnvironment(t *testing.T) {
	pod := testPod(corev1.Container{
		Command: []string{"sh", "$(k)$(LATER)"}, Args: []string{"$(KUBERNETES_SERVICE_PORT)", "$$(k)", "$(NONE)"},
		WorkingDir: "/$(k)",
		EnvFrom:    []corev1.EnvFromSource{fromSecret("", "s", false)}, Env: []corev1.EnvVar{{Name: "LATER", Value: "z"}},
	})
	o := testObjects()
	o.Services = []*corev1.Service{service(
		"default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443},
	)}
	got, _, err := Resolve(pod, &pod.Spec.Containers[0], o, Node{}, Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sh", "svz", "443", "$(k)", "$(NONE)"}, append(got.Command, got.Args...)); diff != "" {
		t.Error(diff)
	}
	if got.WorkingDir != "/$(k)" {
		t.Errorf("workingDir = %q", got.WorkingDir)
	}
}

func TestEnvironmentErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		from    []corev1.EnvFromSource
		env     *corev1.EnvVarSource
		objects func(*Objects)
		waiting bool
		want    string
	}{
		"configMap missing": {env: configMapKey("gone", "k", false), want: `configmap "gone" not found`},
		"secret missing":    {env: secretKey("gone", "k", false), want: `secret "gone" not found`},
		"envFrom configMap missing": {
			from: []corev1.EnvFromSource{fromConfigMap("", "gone", false)}, want: `configmap "gone" not found`,
		},
		"envFrom secret missing": {
			from: []corev1.EnvFromSource{fromSecret("", "gone", false)}, want: `secret "gone" not found`,
		},
		"no such key in configMap": {
			env: configMapKey("cm", "none", false), want: "couldn't find key none in ConfigMap ns/cm",
		},
		"binary data is no value": {env: configMapKey("cm", "bin", false), want: "couldn't find key bin in ConfigMap ns/cm"},
		"no such key in secret":   {env: secretKey("s", "none", false), want: "couldn't find key none in Secret ns/s"},
		"optional does not forgive another error": {
			from: []corev1.EnvFromSource{fromConfigMap("", "deny", true)}, want: "configmap is forbidden",
		},
		"an unknown configMap is waited for, optional or not": {
			env: configMapKey("unknown", "k", true), waiting: true, want: `configmap "unknown": not known yet`,
		},
		"an unknown secret is waited for": {
			from: []corev1.EnvFromSource{fromSecret("", "unknown", true)}, waiting: true,
			want: `secret "unknown": not known yet`,
		},
		"behaviour 20: services are waited for": {
			objects: func(o *Objects) { o.ServicesSynced = false }, waiting: true,
			want: "services have not yet been read at least once, cannot construct envvars: not known yet",
		},
		"a file is waited for": {
			env:     &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}},
			waiting: true, want: `file "p" of volume "v": not known yet`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := corev1.Container{EnvFrom: tc.from}
			if tc.env != nil {
				c.Env = []corev1.EnvVar{{Name: "V", ValueFrom: tc.env}}
			}
			pod, o := testPod(c), testObjects()
			if tc.objects != nil {
				tc.objects(&o)
			}
			_, _, err := Resolve(pod, &pod.Spec.Containers[0], o, Node{}, Addresses{})
			if err == nil || err.Error() != tc.want {
				t.Errorf("error = %v, want %s", err, tc.want)
			}
			if errors.Is(err, ErrWaiting) != tc.waiting {
				t.Errorf("waiting = %v", !tc.waiting)
			}
		})
	}
}

func TestAStaticPodDoesNotWaitForServices(t *testing.T) {
	pod := testPod(corev1.Container{})
	for source, waits := range map[string]bool{"api": true, "file": false} {
		pod.Annotations["kubernetes.io/config.source"] = source
		_, _, err := Resolve(pod, &pod.Spec.Containers[0], Objects{}, Node{}, Addresses{})
		if errors.Is(err, ErrWaiting) != waits {
			t.Errorf("source %s: %v", source, err)
		}
	}
}

func TestSubPaths(t *testing.T) {
	env := []corev1.EnvVar{
		{Name: "D", Value: "dir"}, {Name: "EMPTY"}, {Name: "UP", Value: "a/../.."}, {Name: "ROOT", Value: "/etc"},
	}
	for name, tc := range map[string]struct {
		mount   corev1.VolumeMount
		want    string
		wantErr string
	}{
		"none":                      {},
		"literal, not expanded":     {mount: corev1.VolumeMount{SubPath: "$(D)"}, want: "$(D)"},
		"expanded":                  {mount: corev1.VolumeMount{SubPathExpr: "x/$(D)/$$(D)"}, want: "x/dir/$(D)"},
		"dots that are no backstep": {mount: corev1.VolumeMount{SubPathExpr: "..$(D)/..."}, want: "..dir/..."},
		"missing or empty": {
			mount: corev1.VolumeMount{SubPathExpr: "$(NONE)/$(EMPTY)/$(D)"}, wantErr: "missing value for EMPTY, NONE",
		},
		"absolute": {
			mount: corev1.VolumeMount{SubPathExpr: "$(ROOT)"}, wantErr: "error SubPath `/etc` must not be an absolute path",
		},
		"backsteps": {
			mount:   corev1.VolumeMount{SubPathExpr: "x/$(UP)"},
			wantErr: "unable to provision SubPath `x/a/../..`: must not contain '..'",
		},
		"backsteps in a literal path": {
			mount: corev1.VolumeMount{SubPath: "../x"}, wantErr: "unable to provision SubPath `../x`: must not contain '..'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(corev1.Container{Env: env, VolumeMounts: []corev1.VolumeMount{tc.mount}})
			got, _, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), Node{}, Addresses{})
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || errors.Is(err, ErrWaiting) {
					t.Errorf("error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m := got.VolumeMounts[0]; m.SubPath != tc.want || m.SubPathExpr != "" {
				t.Errorf("subPath %q, subPathExpr %q; want %q and none", m.SubPath, m.SubPathExpr, tc.want)
			}
		})
	}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}

func TestFieldRefs(t *testing.T) {
	at := Addresses{PodIPs: []string{"10.0.0.9", "fd00::9"}, HostIPs: []string{"192.0.2.1", "2001:db8::1"}}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u-1",
		"metadata.labels['app']": "web", "metadata.labels['none']": "", "metadata.annotations['example.com/Note']": "n",
		"metadata.labels": "app=\"web\"\nb=\"x\\\"y\\n\"", "metadata.annotations": `example.com/Note="n"`,
		"spec.nodeName": "n1", "spec.host": "n1", "spec.serviceAccountName": "sa",
		"status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,2001:db8::1",
		"status.podIP": "10.0.0.9", "status.podIPs": "10.0.0.9,fd00::9",
	} {
		pod := testPod(corev1.Container{Env: []corev1.EnvVar{{Name: "V", ValueFrom: field(path)}}})
		got, _, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), Node{}, at)
		if err != nil || got.Env[0].Value != want {
			t.Errorf("%s = %+v, %v; want %q", path, got.Env, err, want)
		}
	}
}

func TestFieldRefErrors(t *testing.T) {
	for path, want := range map[string]string{
		"spec.restartPolicy":          "unsupported fieldPath: spec.restartPolicy",
		"metadata.name['x']":          `fieldPath "metadata.name['x']" does not support subscript`,
		"metadata.labels['x']['']":    "invalid key subscript in metadata.labels['x']['']: ",
		"metadata.annotations['a b']": "invalid key subscript in metadata.annotations['a b']: ",
		"status.podIP":                "status.podIP: not known yet",
		"status.hostIPs":              "status.hostIPs: not known yet",
	} {
		_, err := podField(testPod(corev1.Container{}), &corev1.ObjectFieldSelector{FieldPath: path}, Addresses{})
		if err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%s: error = %v, want %s", path, err, want)
		}
		if waits := path == "status.podIP" || path == "status.hostIPs"; errors.Is(err, ErrWaiting) != waits {
			t.Errorf("%s: waits = %v", path, !waits)
		}
	}
	if _, err := podField(
		testPod(corev1.Container{}), &corev1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}, Addresses{},
	); err == nil {
		t.Error("a version of the API that does not exist was taken")
	}
}

func TestAPodOnTheHostsNetworkHasItsAddresses(t *testing.T) {
	pod := testPod(corev1.Container{})
	pod.Spec.HostNetwork = true
	got, err := podField(
		pod, &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}, Addresses{HostIPs: []string{"192.0.2.1"}},
	)
	if err != nil || got != "192.0.2.1" {
		t.Errorf("podIP = %q, %v", got, err)
	}
}

func TestResourceFieldRefs(t *testing.T) {
	node := Node{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("3900m"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100G"), "hugepages-2Mi": resource.MustParse("1Gi"),
	}}
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("100M"),
		},
		Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("128Mi"), "hugepages-2Mi": resource.MustParse("4Mi"),
		},
	}
	podLevel := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	for name, tc := range map[string]struct {
		ref  corev1.ResourceFieldSelector
		pod  *corev1.ResourceRequirements
		want string
	}{
		"rounded up": {ref: corev1.ResourceFieldSelector{Resource: "requests.cpu"}, want: "1"},
		"in thousandths": {
			ref: corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")}, want: "250",
		},
		"in bytes": {ref: corev1.ResourceFieldSelector{Resource: "limits.memory"}, want: "134217728"},
		"in Mi": {
			ref: corev1.ResourceFieldSelector{Resource: "requests.memory", Divisor: resource.MustParse("1Mi")}, want: "96",
		},
		"exactly in Mi": {
			ref: corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}, want: "128",
		},
		"huge pages": {
			ref: corev1.ResourceFieldSelector{Resource: "limits.hugepages-2Mi", Divisor: resource.MustParse("1Mi")}, want: "4",
		},
		"no default of huge pages": {
			ref: corev1.ResourceFieldSelector{Resource: "limits.hugepages-2Mi", ContainerName: "i"}, want: "0",
		},
		"no default of requests": {ref: corev1.ResourceFieldSelector{Resource: "requests.ephemeral-storage"}, want: "0"},
		"behaviour 18: cpu":      {ref: corev1.ResourceFieldSelector{Resource: "limits.cpu"}, want: "4"},
		"behaviour 18: disk": {
			ref: corev1.ResourceFieldSelector{Resource: "limits.ephemeral-storage"}, want: "100000000000",
		},
		"the pod's limit before": {ref: corev1.ResourceFieldSelector{Resource: "limits.cpu"}, pod: podLevel, want: "2"},
		"another container": {
			ref: corev1.ResourceFieldSelector{
				Resource: "limits.memory", ContainerName: "i", Divisor: resource.MustParse("1Gi"),
			},
			want: "8",
		},
		"the same container, by name": {
			ref: corev1.ResourceFieldSelector{
				Resource: "limits.memory", ContainerName: "c", Divisor: resource.MustParse("1Mi"),
			},
			want: "128",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(corev1.Container{
				Resources: resources, Env: []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &tc.ref}}},
			})
			pod.Spec.Resources = tc.pod
			got, _, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), node, Addresses{})
			if err != nil || got.Env[0].Value != tc.want {
				t.Errorf("%+v, %v; want %s", got.Env, err, tc.want)
			}
		})
	}
	if q := node.Allocatable[corev1.ResourceCPU]; q.String() != "3900m" {
		t.Errorf("the node was changed: %s", q.String())
	}
}

func TestResourceFieldErrors(t *testing.T) {
	pod := testPod(corev1.Container{})
	for want, ref := range map[string]corev1.ResourceFieldSelector{
		"container none not found":                        {Resource: "limits.cpu", ContainerName: "none"},
		"unsupported container resource : limits.pods":    {Resource: "limits.pods"},
		"unsupported container resource : cpu":            {Resource: "cpu"},
		"unsupported container resource : used.cpu":       {Resource: "used.cpu"},
		"unsupported container resource : requests.gpu/x": {Resource: "requests.gpu/x"},
	} {
		if _, err := resourceField(pod, &pod.Spec.Containers[0], &ref, nil); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}
