package ecs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

type refusal = backend.Refusal

// Limits of a definition (ECS service quotas, and ECS API, ContainerDefinition).
const (
	maxContainers = 10
	maxImage      = 255
	minMemoryMiB  = 6
)

// Check says which fields of a pod Fargate cannot honour, by the rules in
// fields.go. A field that has no rule is refused.
func Check(pod *corev1.Pod) []backend.Refusal {
	spec := &pod.Spec
	out := apply("spec", reflect.ValueOf(*spec), podRules)
	if n := len(spec.InitContainers) + len(spec.Containers); n > maxContainers {
		out = append(out, refusal{Field: "spec.initContainers", Why: fmt.Sprintf("a Fargate task has at most %d containers, this has %d", maxContainers, n)})
	}
	for i, c := range spec.InitContainers {
		out = append(out, checkContainer(fmt.Sprintf("spec.initContainers[%d]", i), spec, c)...)
	}
	for i, c := range spec.Containers {
		out = append(out, checkContainer(fmt.Sprintf("spec.containers[%d]", i), spec, c)...)
	}
	if _, err := fit(needOf(spec)); err != nil {
		out = append(out, refusal{Field: "spec.containers[*].resources", Why: err.Error() + ": ask for less"})
	}
	return out
}

func checkContainer(path string, spec *corev1.PodSpec, c corev1.Container) []refusal {
	return append(apply(path, reflect.ValueOf(c), containerRules), userIsSet(path, spec.SecurityContext, c.SecurityContext)...)
}

// apply goes through the fields of a struct that are set.
func apply(path string, v reflect.Value, rules map[string]rule) []refusal {
	var out []refusal
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if unset(f) {
			continue
		}
		at := path + "." + name
		switch r, ok := rules[name]; {
		case !ok:
			out = append(out, refusal{Field: at, Why: "this field is newer than this backend: remove it"})
		case r.who == refused && !isFalse(f):
			out = append(out, refusal{Field: at, Why: r.why})
		case r.who == partly:
			out = append(out, r.check(at, f.Interface(), r.why)...)
		}
	}
	return out
}

func unset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// isFalse is true for a pointer to false: asking for what is the case anyway.
func isFalse(v reflect.Value) bool {
	return v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Bool && !v.Elem().Bool()
}

func podSecurity(path string, value any, _ string) []refusal {
	sc, _ := value.(*corev1.PodSecurityContext)
	return apply(path, reflect.ValueOf(*sc), podSecurityRules)
}

func containerSecurity(path string, value any, _ string) []refusal {
	sc, _ := value.(*corev1.SecurityContext)
	return apply(path, reflect.ValueOf(*sc), securityRules)
}

// userIsSet wants a user beside a group (ECS API, ContainerDefinition: user takes
// a group only behind one), and for runAsNonRoot, because the image's user is not
// known before the task runs.
func userIsSet(path string, pod *corev1.PodSecurityContext, own *corev1.SecurityContext) []refusal {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	user := first(own.RunAsUser, pod.RunAsUser)
	nonRoot := first(own.RunAsNonRoot, pod.RunAsNonRoot)
	var out []refusal
	if first(own.RunAsGroup, pod.RunAsGroup) != nil && user == nil {
		out = append(out, refusal{Field: path + ".securityContext.runAsGroup", Why: "Fargate takes a group only with a user: set runAsUser too"})
	}
	if nonRoot != nil && *nonRoot && (user == nil || *user == 0) {
		out = append(out, refusal{Field: path + ".securityContext.runAsNonRoot", Why: "the image's user is not known here: set runAsUser to one other than 0"})
	}
	return out
}

// oneOf allows some values of a string.
func oneOf(allowed ...string) func(string, any, string) []refusal {
	return func(path string, value any, why string) []refusal {
		v := reflect.ValueOf(value)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if slices.Contains(allowed, v.String()) {
			return nil
		}
		return []refusal{{Field: path, Why: why}}
	}
}

func notFalse(path string, value any, why string) []refusal {
	if isFalse(reflect.ValueOf(value)) {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func oneContainer(path string, value any, why string) []refusal {
	var out []refusal
	cs, _ := value.([]corev1.Container)
	for i := 1; i < len(cs); i++ {
		out = append(out, refusal{Field: fmt.Sprintf("%s[%d]", path, i), Why: why})
	}
	return out
}

func graceFits(path string, value any, why string) []refusal {
	if s, _ := value.(*int64); *s > maxStop {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func osIsLinux(path string, value any, why string) []refusal {
	if os, _ := value.(*corev1.PodOS); os.Name != corev1.Linux && os.Name != "" {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func imageFits(path string, value any, why string) []refusal {
	if s, _ := value.(string); len(s) > maxImage {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func profileIsDefault(path string, value any, why string) []refusal {
	kind := ""
	switch p := value.(type) {
	case *corev1.SeccompProfile:
		kind = string(p.Type)
	case *corev1.AppArmorProfile:
		kind = string(p.Type)
	}
	if kind == "RuntimeDefault" {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

func noStopSignal(path string, value any, why string) []refusal {
	if l, _ := value.(*corev1.Lifecycle); l.StopSignal != nil {
		return []refusal{{Field: path + ".stopSignal", Why: why}}
	}
	return nil
}

func capabilitiesFit(path string, value any, why string) []refusal {
	caps, _ := value.(*corev1.Capabilities)
	if slices.ContainsFunc(caps.Add, func(c corev1.Capability) bool { return c != "SYS_PTRACE" }) {
		return []refusal{{Field: path + ".add", Why: why}}
	}
	return nil
}

// portsFit is ECS API, PortMapping, under awsvpc.
func portsFit(path string, value any, _ string) []refusal {
	var out []refusal
	seen := map[int32]bool{}
	ports, _ := value.([]corev1.ContainerPort)
	for i, p := range ports {
		add := func(field, why string) {
			out = append(out, refusal{Field: fmt.Sprintf("%s[%d].%s", path, i, field), Why: why})
		}
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			add("hostPort", "on Fargate it must be the containerPort: remove it")
		}
		if p.HostIP != "" {
			add("hostIP", "a Fargate task has one address: remove it")
		}
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			add("protocol", "Fargate has TCP and UDP: use one of them")
		}
		if seen[p.ContainerPort] {
			add("containerPort", "ECS takes a port once, not for two protocols: remove one")
		}
		seen[p.ContainerPort] = true
	}
	return out
}

// resourcesFit refuses what Fargate has not, by resource.
func resourcesFit(path string, value any, _ string) []refusal {
	r, _ := value.(corev1.ResourceRequirements)
	var out []refusal
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		names := make([]string, 0, len(part.list))
		for name := range part.list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				names = append(names, string(name))
			}
		}
		slices.Sort(names)
		for _, name := range names {
			out = append(out, refusal{Field: path + "." + part.name + "." + name, Why: "only cpu and memory are possible on Fargate yet: remove it"})
		}
	}
	if m, ok := r.Limits[corev1.ResourceMemory]; ok && !m.IsZero() && m.Value() < minMemoryMiB*mib {
		out = append(out, refusal{Field: path + ".limits.memory", Why: fmt.Sprintf("ECS wants at least %dMi: raise it", minMemoryMiB)})
	}
	if len(r.Claims) > 0 {
		out = append(out, refusal{Field: path + ".claims", Why: "Fargate has no devices to claim: remove them"})
	}
	return out
}
