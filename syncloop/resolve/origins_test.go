package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

const mixed = backend.OriginPod | backend.OriginSecret

func TestOriginsOfVariables(t *testing.T) {
	name := corev1.EnvVar{Name: "NAME", ValueFrom: field("metadata.name")}
	password := corev1.EnvVar{Name: "PASSWORD", ValueFrom: secretKey("s", "k", false)}
	for behaviour, tc := range map[string]struct {
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want map[string]backend.Origin
	}{
		"what was resolved is told, if it is nothing": {want: map[string]backend.Origin{}},
		"literals and ConfigMaps are shared": {
			from: []corev1.EnvFromSource{fromConfigMap("", "cm", false)},
			env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: configMapKey("cm", "k", false)}, {
				Name: "C", Value: "$(A)$(B)$(NONE)",
			}},
			want: map[string]backend.Origin{"1": 0, "A.b-c": 0, "k": 0, "A": 0, "B": 0, "C": 0},
		},
		"resources are those of the template": {
			env: []corev1.EnvVar{{
				Name:      "A",
				ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}},
			}},
			want: map[string]backend.Origin{"A": 0},
		},
		"pods of one template share a namespace and an account, and nothing else": {
			env: []corev1.EnvVar{
				{Name: "NS", ValueFrom: field("metadata.namespace")},
				{Name: "SA", ValueFrom: field("spec.serviceAccountName")},
				{Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
				name,
			},
			want: map[string]backend.Origin{
				"NS": 0, "SA": 0, "NODE": backend.OriginPod, "LABEL": backend.OriginPod, "NAME": backend.OriginPod,
			},
		},
		"a Secret by key and as a whole": {
			from: []corev1.EnvFromSource{fromSecret("p_", "s", false)},
			env:  []corev1.EnvVar{password},
			want: map[string]backend.Origin{
				"p_k": backend.OriginSecret, "p_other": backend.OriginSecret, "PASSWORD": backend.OriginSecret,
			},
		},
		"a reference hands it on, however far": {
			env: []corev1.EnvVar{password, {Name: "URL", Value: "user:$(PASSWORD)@host"}, {Name: "AGAIN", Value: "<$(URL)>"}, {
				Name: "ESCAPED", Value: "$$(URL)",
			}},
			want: map[string]backend.Origin{
				"PASSWORD": backend.OriginSecret, "URL": backend.OriginSecret, "AGAIN": backend.OriginSecret,
				"ESCAPED": backend.OriginShared,
			},
		},
		"of both": {
			env:  []corev1.EnvVar{name, password, {Name: "BOTH", Value: "$(NAME):$(PASSWORD)"}},
			want: map[string]backend.Origin{"NAME": backend.OriginPod, "PASSWORD": backend.OriginSecret, "BOTH": mixed},
		},
		"the last of a name counts": {
			from: []corev1.EnvFromSource{fromSecret("", "s", false)},
			env:  []corev1.EnvVar{{Name: "k", Value: "public"}},
			want: map[string]backend.Origin{"k": backend.OriginShared, "other": backend.OriginSecret},
		},
		"an optional one that is lacking leaves envFrom's": {
			from: []corev1.EnvFromSource{fromSecret("", "s", false)},
			env:  []corev1.EnvVar{{Name: "k", ValueFrom: configMapKey("gone", "k", true)}},
			want: map[string]backend.Origin{"k": backend.OriginSecret, "other": backend.OriginSecret},
		},
	} {
		t.Run(behaviour, func(t *testing.T) {
			pod := testPod(corev1.Container{EnvFrom: tc.from, Env: tc.env})
			_, got, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), Node{}, Addresses{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Env); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOriginsOfServicesAreShared(t *testing.T) {
	pod, o := testPod(corev1.Container{Args: []string{"$(KUBERNETES_SERVICE_HOST)"}}), testObjects()
	o.Services = []*corev1.Service{service(
		"default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443},
	)}
	_, got, err := Resolve(pod, &pod.Spec.Containers[0], o, Node{}, Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Env) == 0 || got.Args != nil {
		t.Fatalf("%+v", got)
	}
	for name, origin := range got.Env {
		if origin != backend.OriginShared {
			t.Errorf("%s is of %d", name, origin)
		}
	}
}

func TestOriginsOfWords(t *testing.T) {
	pod := testPod(corev1.Container{
		Command: []string{"run", "--name=$(NAME)"}, Args: []string{"$(URL)", "plain", "$$(URL)", "$(NAME)$(URL)"},
		Env: []corev1.EnvVar{
			{Name: "NAME", ValueFrom: field("metadata.name")},
			{Name: "URL", ValueFrom: secretKey("s", "k", false)},
		},
	})
	_, got, err := Resolve(pod, &pod.Spec.Containers[0], testObjects(), Node{}, Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]backend.Origin{backend.OriginShared, backend.OriginPod}, got.Command); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		[]backend.Origin{backend.OriginSecret, backend.OriginShared, backend.OriginShared, mixed}, got.Args,
	); diff != "" {
		t.Error(diff)
	}
}
