package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestLackEventsAreThoseOfVirtualKubelet(t *testing.T) {
	v := func(name string, from *corev1.EnvVarSource) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: from}
	}
	for name, tc := range map[string]struct {
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want []LackEvent
	}{
		"nothing to refer to": {env: []corev1.EnvVar{{Name: "A", Value: "b"}, v("B", nil)}},
		"all there": {
			from: []corev1.EnvFromSource{fromConfigMap("", "cm", false), fromSecret("", "s", true), {}},
			env: []corev1.EnvVar{
				v("A", configMapKey("cm", "k", false)), v("B", secretKey("s", "k", true)),
				v("C", &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}),
			},
		},
		"optional ones: all are told": {
			from: []corev1.EnvFromSource{fromConfigMap("", "gone", true), fromSecret("", "gone", true)},
			env: []corev1.EnvVar{
				v("A", configMapKey("gone", "k", true)), v("B", secretKey("gone", "k", true)),
				v("C", configMapKey("cm", "none", true)), v("D", secretKey("s", "none", true)),
			},
			want: []LackEvent{
				{"OptionalConfigMapNotFound", `configmap "gone" not found`},
				{"OptionalSecretNotFound", `secret "gone" not found`},
				{"OptionalConfigMapNotFound", `skipping optional envvar "A": configmap "gone" not found`},
				{"OptionalSecretNotFound", `skipping optional envvar "B": secret "gone" not found`},
				{"OptionalConfigMapKeyNotFound", `skipping optional envvar "C": key "none" does not exist in configmap "cm"`},
				{"OptionalSecretKeyNotFound", `skipping optional envvar "D": key "none" does not exist in secret "s"`},
			},
		},
		"a mandatory ConfigMap of envFrom ends the list": {
			from: []corev1.EnvFromSource{fromConfigMap("", "gone", false), fromSecret("", "gone", false)},
			env:  []corev1.EnvVar{v("A", configMapKey("gone", "k", false))},
			want: []LackEvent{{"MandatoryConfigMapNotFound", `configmap "gone" not found`}},
		},
		"a mandatory Secret of envFrom ends the list": {
			from: []corev1.EnvFromSource{fromSecret("", "gone", false), fromConfigMap("", "gone", false)},
			want: []LackEvent{{"MandatorySecretNotFound", `secret "gone" not found`}},
		},
		"a mandatory ConfigMap of a variable": {
			env:  []corev1.EnvVar{v("A", configMapKey("gone", "k", false)), v("B", secretKey("gone", "k", false))},
			want: []LackEvent{{"MandatoryConfigMapNotFound", `configmap "gone" not found`}},
		},
		"a mandatory Secret of a variable": {
			env:  []corev1.EnvVar{v("B", secretKey("gone", "k", false)), v("A", configMapKey("gone", "k", false))},
			want: []LackEvent{{"MandatorySecretNotFound", `secret "gone" not found`}},
		},
		"a mandatory key": {
			env:  []corev1.EnvVar{v("A", configMapKey("cm", "none", false)), v("B", secretKey("s", "none", false))},
			want: []LackEvent{{"MandatoryConfigMapKeyNotFound", `key "none" does not exist in configmap "cm"`}},
		},
		"a mandatory key of a Secret": {
			env:  []corev1.EnvVar{v("B", secretKey("s", "none", false))},
			want: []LackEvent{{"MandatorySecretKeyNotFound", `key "none" does not exist in secret "s"`}},
		},
		"one that cannot be read is not forgiven, not even an optional one": {
			env: []corev1.EnvVar{v("A", configMapKey("deny", "k", true)), v("B", secretKey("gone", "k", true))},
			want: []LackEvent{{
				"FailedToReadOptionalConfigMap", `skipping optional envvar "A": failed to read configmap "deny"`,
			}},
		},
		"a mandatory one that cannot be read": {
			from: []corev1.EnvFromSource{fromConfigMap("", "deny", false)},
			want: []LackEvent{{"FailedToReadMandatoryConfigMap", `failed to read configmap "deny"`}},
		},
		"one that is not known yet": {
			env: []corev1.EnvVar{
				v("A", secretKey("gone", "k", true)), v("B", configMapKey("unknown", "k", true)),
				v("C", secretKey("gone", "k", true)),
			},
			want: []LackEvent{{"OptionalSecretNotFound", `skipping optional envvar "A": secret "gone" not found`}},
		},
		"a literal hides its source, as in Resolve": {
			env: []corev1.EnvVar{{Name: "A", Value: "x", ValueFrom: configMapKey("gone", "k", false)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Name: "c", EnvFrom: tc.from, Env: tc.env}
			if diff := cmp.Diff(tc.want, LackEvents(c, testObjects())); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
