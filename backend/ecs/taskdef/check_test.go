package taskdef

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Every field of the API is classified, and nothing else is: a new version of the
// API fails here until somebody decides what becomes of its fields.
func TestEveryFieldHasARule(t *testing.T) {
	for _, tc := range []struct {
		of    any
		rules map[string]rule
	}{
		{corev1.PodSpec{}, podRules},
		{corev1.PodSecurityContext{}, podSecurityRules},
		{corev1.Container{}, containerRules},
		{corev1.SecurityContext{}, securityRules},
	} {
		typ := reflect.TypeOf(tc.of)
		fields := map[string]bool{}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			fields[name] = true
			r, ok := tc.rules[name]
			switch {
			case !ok:
				t.Errorf("%s.%s has no rule", typ.Name(), name)
			case r.who == refused && r.why == "":
				t.Errorf("%s.%s is refused without a why", typ.Name(), name)
			case r.who != refused && r.how == "":
				t.Errorf("%s.%s is taken, and nobody says what becomes of it", typ.Name(), name)
			case (r.who == partly) != (r.check != nil):
				t.Errorf("%s.%s: a check is for partly, and partly has one", typ.Name(), name)
			}
		}
		for name := range tc.rules {
			if !fields[name] {
				t.Errorf("%s has no field %s", typ.Name(), name)
			}
		}
	}
}

// Every refused field is refused by name when it is set.
func TestRefusedFieldsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		of    any
		rules map[string]rule
	}{
		{corev1.PodSpec{}, podRules},
		{corev1.PodSecurityContext{}, podSecurityRules},
		{corev1.Container{}, containerRules},
		{corev1.SecurityContext{}, securityRules},
	} {
		typ := reflect.TypeOf(tc.of)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			v := reflect.New(typ).Elem()
			set(v.Field(i))
			k := &checking{cfg: fullConfig, pod: &corev1.Pod{}}
			got := k.apply("x", v, map[string]rule{name: tc.rules[name]})
			want := tc.rules[name].who == refused
			if refusedNow := len(got) == 1 && got[0].Field == "x."+name; tc.rules[name].who != partly && refusedNow != want {
				t.Errorf("%s.%s: refused %v, want %v", typ.Name(), name, got, want)
			}
			if got := k.apply("x", v, nil); len(got) != 1 {
				t.Errorf("%s.%s: without a rule: %v", typ.Name(), name, got)
			}
		}
	}
}

// set gives a field some value other than zero.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.Bool {
			v.Elem().SetBool(true)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int32:
		v.SetInt(1)
	default: // a struct
		set(v.Field(0))
	}
}

func TestTheEndOfALogNeedsItsLogGroup(t *testing.T) {
	pod := podOf("p", "true")
	pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	got := Checker(bareConfig).Check(pod)
	if len(got) != 1 || got[0].Field != "spec.containers[0].terminationMessagePolicy" ||
		!strings.Contains(got[0].Why, "backend.ecs.logGroup") {
		t.Errorf("%v", got)
	}
	pod.Annotations = map[string]string{Prefix + "log-driver": "none"}
	if got := Checker(fullConfig).Check(pod); len(got) != 1 {
		t.Errorf("without a log: %v", got)
	}
}
