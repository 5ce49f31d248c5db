package explain

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/volumes"
)

// refusals are all that the engine and a backend have against a pod, each field
// once.
func refusals(b backend.Backend, pod *corev1.Pod) []backend.Refusal {
	all := slices.Concat(admit.Fields(pod, admit.AbilitiesOf(b)), volumes.Unsupported(pod), b.Check.Check(pod))
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(r backend.Refusal) bool {
		again := seen[r.Field]
		seen[r.Field] = true
		return again
	})
}

// allRefusals are refusals, with what the kubelet's own admission and the node's
// configuration have against the pod.
func allRefusals(c config.Configuration, b backend.Backend, pod *corev1.Pod) []backend.Refusal {
	out := refusals(b, pod)
	node := admit.Node{
		Name: c.Node.Name, Labels: pod.Spec.NodeSelector, Allocatable: roomy(c), OS: string(corev1.Linux),
		SupplementalGroupsPolicy: true,
		HostNetwork:              c.Pods.HostNetwork, HostPID: c.Pods.HostPID, HostIPC: c.Pods.HostIPC,
		HostPorts:            c.Pods.HostPorts,
		AllowedUnsafeSysctls: c.Pods.AllowedUnsafeSysctls, Can: admit.AbilitiesOf(b),
	}
	free := pod.DeepCopy() // where it may go is the scheduler's business
	free.Spec.NodeName, free.Spec.Affinity = c.Node.Name, nil
	if rejected := admit.Decide(free, node, nil, nil); rejected != nil &&
		(rejected.Reason != admit.ReasonUnsupported || len(out) == 0) {
		out = append(out, backend.Refusal{Field: "spec", Why: rejected.Reason + ": " + rejected.Message})
	}
	return out
}

// roomy is what the node can allocate where that is configured, else more than any
// pod asks for.
func roomy(c config.Configuration) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1M"), corev1.ResourcePods: resource.MustParse("1M"),
		corev1.ResourceMemory: resource.MustParse("1P"), corev1.ResourceEphemeralStorage: resource.MustParse("1P"),
	}
	maps.Copy(out, c.Node.Capacity.ResourceList())
	return out
}

// taken are the fields that are set and not refused, by path; how says what
// becomes of some.
func taken(pod *corev1.Pod, how map[string]string, refused []fieldFate) []fieldFate {
	var out []fieldFate
	for _, path := range setFields(pod) {
		isRefused := slices.ContainsFunc(refused, func(r fieldFate) bool {
			return r.Field == path || strings.HasPrefix(r.Field, path+".") || strings.HasPrefix(r.Field, path+"[")
		})
		if !isRefused {
			out = append(out, fieldFate{path, how[path]})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(how)) {
		if strings.HasPrefix(path, "metadata.") {
			out = append(out, fieldFate{path, how[path]})
		}
	}
	slices.SortStableFunc(out, func(a, b fieldFate) int { return cmp.Compare(section(a.Field), section(b.Field)) })
	return out
}

// section orders fields: annotations, the pod's, init containers', containers'.
func section(path string) int {
	switch {
	case strings.HasPrefix(path, "metadata."):
		return 0
	case strings.HasPrefix(path, "spec.initContainers["):
		return 2
	case strings.HasPrefix(path, "spec.containers["):
		return 3
	}
	return 1
}

// setFields are the paths of the fields that a pod sets, in the order of the API
// types; of containers and security contexts each field.
func setFields(pod *corev1.Pod) []string {
	out := fieldsOf("spec", reflect.ValueOf(pod.Spec))
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			out = append(out, fieldsOf(fmt.Sprintf("spec.%s[%d]", list.name, i), reflect.ValueOf(list.containers[i]))...)
		}
	}
	return out
}

func fieldsOf(path string, v reflect.Value) []string {
	var out []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		at := path + "." + name
		switch {
		case f.IsZero(), (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0:
		case name == "containers" || name == "initContainers": // each of their fields stands for itself
		case name == "securityContext":
			out = append(out, fieldsOf(at, f.Elem())...)
		default:
			out = append(out, at)
		}
	}
	return out
}
