package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func lookupIn(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func TestExpand(t *testing.T) {
	known := lookupIn(map[string]string{"A": "1", "EMPTY": "", "B.C": "dot", "REF": "$(A)"})
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y": "x1y", "$(A)$(A)": "11",
		"$$(A)": "$(A)", "$$$(A)": "$1", "$$$$(A)": "$$(A)", "$(NONE)": "$(NONE)", "$(EMPTY)": "", "$(B.C)": "dot",
		"$A": "$A", "$": "$", "a$": "a$", "$(A": "$(A", "$()": "$()", "$$": "$", "$(A)$(": "1$(",
		"$(REF)": "$(A)", "$(A)$(NONE)$(A)": "1$(NONE)1", "$ (A)": "$ (A)", "$($(A))": "$($(A))", "\xff$(A)": "\xff1",
	} {
		if got := expand(in, known); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAProbesCommandSeesLiteralsOnly(t *testing.T) {
	c := &corev1.Container{Env: []corev1.EnvVar{
		{Name: "A", Value: "1"},
		{Name: "B", Value: "$(A)"},
		{Name: "F", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}}
	command := []string{"$(A)", "$(B)", "x$(F)", "$(NONE)"}
	if diff := cmp.Diff([]string{"1", "$(A)", "x", "$(NONE)"}, ProbeCommand(c, command)); diff != "" {
		t.Error(diff)
	}
	if command[0] != "$(A)" {
		t.Error("the probe's own command was changed")
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)$$(B$(", "$", "$$$(A)", "$(A$(A))", "\xff$("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nothing := lookupIn(nil)
		if got := expand(s, nothing); len(got) > len(s) {
			t.Errorf("expand(%q) grew to %q", s, got)
		}
		if !strings.Contains(s, "$$") {
			if got := expand(s, nothing); got != s {
				t.Errorf("expand(%q) = %q, with nothing to replace", s, got)
			}
		}
		// Escaping makes any text stand for itself.
		if got := expand(strings.ReplaceAll(s, "$", "$$"), lookupIn(map[string]string{"A": "no"})); got != s {
			t.Errorf("expand of %q escaped = %q", s, got)
		}
	})
}
