package resolve

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// text is a value and what it was made of.
type text struct {
	string
	origin backend.Origin
}

// environment is variables in the order in which they were first set.
type environment struct {
	names  []string
	values map[string]text
}

func newEnvironment() *environment { return &environment{values: map[string]text{}} }

// set gives a variable its value; one that was set keeps its place.
func (e *environment) set(name string, value text) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// share sets a variable that all pods of one template have alike.
func (e *environment) share(name, value string) { e.set(name, text{string: value}) }

func (e *environment) get(name string) (text, bool) {
	value, ok := e.values[name]
	return value, ok
}

// origins are those of all variables.
func (e *environment) origins() map[string]backend.Origin {
	out := make(map[string]backend.Origin, len(e.names))
	for _, name := range e.names {
		out[name] = e.values[name].origin
	}
	return out
}

func (e *environment) list() []corev1.EnvVar {
	if len(e.names) == 0 {
		return nil
	}
	out := make([]corev1.EnvVar, 0, len(e.names))
	for _, name := range e.names {
		out = append(out, corev1.EnvVar{Name: name, Value: e.values[name].string})
	}
	return out
}

// environment is the container's: envFrom, then env, which may replace what
// envFrom brought, then the services that nothing replaced (kubelet:
// makeEnvironmentVariables).
func (r resolver) environment() (*environment, error) {
	services, err := serviceVariables(r.pod, r.objects, r.node)
	if err != nil {
		return nil, err
	}
	vars := newEnvironment()
	for i := range r.container.EnvFrom {
		if err := r.from(vars, &r.container.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range r.container.Env {
		v := &r.container.Env[i]
		value, ok, err := r.value(v, vars, services)
		if err != nil {
			return nil, err
		}
		if ok {
			vars.set(v.Name, value)
		}
	}
	for _, name := range services.names {
		if _, taken := vars.get(name); !taken {
			vars.set(name, services.values[name])
		}
	}
	return vars, nil
}

// from sets all that one envFrom source holds, in the order of its keys.
func (r resolver) from(vars *environment, source *corev1.EnvFromSource) error {
	switch {
	case source.ConfigMapRef != nil:
		ref := source.ConfigMapRef
		configMap, err := r.objects.configMap(ref.Name, optional(ref.Optional))
		if err != nil || configMap == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
			vars.share(source.Prefix+key, configMap.Data[key])
		}
	case source.SecretRef != nil:
		ref := source.SecretRef
		secret, err := r.objects.secret(ref.Name, optional(ref.Optional))
		if err != nil || secret == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			vars.set(source.Prefix+key, text{string(secret.Data[key]), backend.OriginSecret})
		}
	}
	return nil
}

// value is that of one variable. It is false for an optional one whose source
// does not have it: the variable is then not set, or stays as envFrom left it.
func (r resolver) value(v *corev1.EnvVar, vars, services *environment) (text, bool, error) {
	if v.Value != "" || v.ValueFrom == nil {
		return expandText(v.Value, func(name string) (text, bool) {
			if value, ok := vars.get(name); ok {
				return value, true
			}
			return services.get(name)
		}), true, nil
	}
	switch from := v.ValueFrom; {
	case from.FieldRef != nil:
		value, err := podField(r.pod, from.FieldRef, r.at)
		return text{value, fieldOrigin(from.FieldRef.FieldPath, r.at)}, true, err
	case from.ResourceFieldRef != nil:
		value, err := resourceField(r.pod, r.container, from.ResourceFieldRef, podLimits(r.pod, r.node.Allocatable))
		return text{string: value}, true, err
	case from.ConfigMapKeyRef != nil:
		value, ok, err := r.configMapKey(from.ConfigMapKeyRef)
		return text{string: value}, ok, err
	case from.SecretKeyRef != nil:
		value, ok, err := r.secretKey(from.SecretKeyRef)
		return text{value, backend.OriginSecret}, ok, err
	case from.FileKeyRef != nil:
		return r.fileKey(from.FileKeyRef)
	}
	return text{}, true, nil
}

func (r resolver) configMapKey(ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	configMap, err := r.objects.configMap(ref.Name, optional(ref.Optional))
	if err != nil || configMap == nil {
		return "", false, err
	}
	value, ok := configMap.Data[ref.Key]
	if !ok && !optional(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, r.pod.Namespace, ref.Name)
	}
	return value, ok, nil
}

func (r resolver) secretKey(ref *corev1.SecretKeySelector) (string, bool, error) {
	secret, err := r.objects.secret(ref.Name, optional(ref.Optional))
	if err != nil || secret == nil {
		return "", false, err
	}
	value, ok := secret.Data[ref.Key]
	if !ok && !optional(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, r.pod.Namespace, ref.Name)
	}
	return string(value), ok, nil
}
