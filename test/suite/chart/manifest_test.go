package chart

import (
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifest is one object as it was rendered.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	text              string
}

// hook is true for what exists only while an uninstallation or upgrade runs.
func (m manifest) hook() bool { return m.Annotations["helm.sh/hook"] != "" }

var between = regexp.MustCompile(`(?m)^---$`)

// manifests splits a file into its objects.
func manifests(t *testing.T, text string) []manifest {
	t.Helper()
	var all []manifest
	for _, one := range between.Split(text, -1) {
		m := manifest{text: one}
		if err := yaml.Unmarshal([]byte(one), &m); err != nil {
			t.Fatalf("%v in:\n%s", err, one)
		}
		if m.Kind != "" {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no objects in:\n%s", text)
	}
	return all
}

// find decodes the one object of a kind and name strictly: unknown fields are errors.
func find[T any](t *testing.T, all []manifest, kind, name string) T {
	t.Helper()
	i := slices.IndexFunc(all, func(m manifest) bool { return m.Kind == kind && m.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	var object T
	if err := yaml.UnmarshalStrict([]byte(all[i].text), &object); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return object
}
