package resolve

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// LackEvent is a Warning Event that virtual-kubelet makes where a container's
// environment refers to something that is not there. The kubelet has no such
// Events; users who come from virtual-kubelet may watch for their reasons.
type LackEvent struct{ Reason, Message string }

// LackEvents lists those of one container, in virtual-kubelet's order and words
// (internal/podutils, env.go): envFrom first, then env, up to the first reference
// that keeps the container from starting. Its InvalidEnvironmentVariableNames is
// not among them, because here no name is skipped. An object that is not known
// yet ends the list.
func LackEvents(c *corev1.Container, o Objects) []LackEvent {
	var events []LackEvent
	for i := range c.EnvFrom {
		lack, ok := lackFrom(&c.EnvFrom[i], o)
		if events = lack.tell(events); !ok {
			return events
		}
	}
	for i := range c.Env {
		lack, ok := lackValue(&c.Env[i], o)
		if events = lack.tell(events); !ok {
			return events
		}
	}
	return events
}

// lack is what a reference found wanting; the zero value is nothing.
type lack struct {
	// kind and word are how reasons and messages call the object.
	kind, word string
	name       string
	// key is what the object lacks; empty when the object itself is missing.
	key string
	// variable is the one that an optional reference leaves unset; empty for
	// envFrom.
	variable   string
	optional   bool
	unreadable bool
}

func lackOfConfigMap(name string, mayLack *bool) lack {
	return lack{kind: "ConfigMap", word: "configmap", name: name, optional: optional(mayLack)}
}

func lackOfSecret(name string, mayLack *bool) lack {
	return lack{kind: "Secret", word: "secret", name: name, optional: optional(mayLack)}
}

// lackFrom checks one envFrom source; false when nothing after it counts.
func lackFrom(from *corev1.EnvFromSource, o Objects) (lack, bool) {
	switch {
	case from.ConfigMapRef != nil:
		l := lackOfConfigMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		return missingIn(l, o.ConfigMaps, func(*corev1.ConfigMap) string { return "" })
	case from.SecretRef != nil:
		l := lackOfSecret(from.SecretRef.Name, from.SecretRef.Optional)
		return missingIn(l, o.Secrets, func(*corev1.Secret) string { return "" })
	}
	return lack{}, true
}

// lackValue checks one variable; false when nothing after it counts.
func lackValue(v *corev1.EnvVar, o Objects) (lack, bool) {
	switch from := v.ValueFrom; {
	case v.Value != "" || from == nil:
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		l := lackOfConfigMap(ref.Name, ref.Optional)
		l.variable = v.Name
		return missingIn(l, o.ConfigMaps, func(c *corev1.ConfigMap) string { return absent(c.Data, ref.Key) })
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		l := lackOfSecret(ref.Name, ref.Optional)
		l.variable = v.Name
		return missingIn(l, o.Secrets, func(s *corev1.Secret) string { return absent(s.Data, ref.Key) })
	}
	return lack{}, true
}

// absent is the key if the data does not hold it.
func absent[V any](data map[string]V, key string) string {
	if _, ok := data[key]; ok {
		return ""
	}
	return key
}

// missingIn finds the object that l names, and asks it for the key that it lacks.
// Only what is optional and missing lets the list go on.
func missingIn[T any](l lack, objects map[string]Object[*T], lacks func(*T) string) (lack, bool) {
	object, known := objects[l.name]
	switch {
	case !known:
		return lack{}, false
	case object.Err == nil && object.Value != nil:
		if l.key = lacks(object.Value); l.key == "" {
			return lack{}, true
		}
	case object.Err != nil && !missing(object.Err):
		l.unreadable = true
		return l, false // the container does not start, optional or not
	}
	return l, l.optional
}

// tell adds the Event, if there is something to tell.
func (l lack) tell(events []LackEvent) []LackEvent {
	if l.kind == "" {
		return events
	}
	need, skipping := "Mandatory", ""
	if l.optional {
		need = "Optional"
		if l.variable != "" {
			skipping = fmt.Sprintf("skipping optional envvar %q: ", l.variable)
		}
	}
	switch {
	case l.unreadable:
		what := fmt.Sprintf("failed to read %s %q", l.word, l.name)
		return append(events, LackEvent{"FailedToRead" + need + l.kind, skipping + what})
	case l.key != "":
		what := fmt.Sprintf("key %q does not exist in %s %q", l.key, l.word, l.name)
		return append(events, LackEvent{need + l.kind + "KeyNotFound", skipping + what})
	}
	what := fmt.Sprintf("%s %q not found", l.word, l.name)
	return append(events, LackEvent{need + l.kind + "NotFound", skipping + what})
}
