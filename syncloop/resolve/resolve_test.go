package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	known := map[string]string{"A": "1", "EMPTY": "", "B.C": "dot"}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y": "x1y", "$(A)$(A)": "11",
		"$$(A)": "$(A)", "$$$(A)": "$1", "$(NONE)": "$(NONE)", "$(EMPTY)": "", "$(B.C)": "dot",
		"$A": "$A", "$": "$", "a$": "a$", "$(A": "$(A", "$()": "$()", "$$": "$", "$(A)$(": "1$(",
	} {
		if got := expand(in, known); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestContainer(t *testing.T) {
	c := corev1.Container{
		Command: []string{"sh", "-c", "echo $(B)"}, Args: []string{"$(LATER)"},
		Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2$(LATER)"}, {Name: "LATER", Value: "z"}},
	}
	before := c.DeepCopy()
	got := Container(&c)
	want := corev1.Container{
		Command: []string{"sh", "-c", "echo 12$(LATER)"}, Args: []string{"z"},
		Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "12$(LATER)"}, {Name: "LATER", Value: "z"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, &c); diff != "" {
		t.Errorf("the pod was changed: %s", diff)
	}
	if Hash(&c) != Hash(before) || Hash(&c) == Hash(&got) {
		t.Error("the hash is that of the spec, no more and no less")
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(B$(")
	f.Fuzz(func(t *testing.T, s string) {
		if got := expand(s, nil); len(got) > len(s) {
			t.Errorf("expand(%q) grew to %q", s, got)
		}
	})
}
