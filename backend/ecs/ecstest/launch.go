// Package ecstest makes launches for the tests of backend/ecs and its parts, as the
// engine would make them, and reads the policies of deploy/aws.
package ecstest

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Pod is a pod of one container, app, which runs a command.
func Pod(name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1", Command: command}}},
	}
}

// WithInit adds init containers with these commands.
func WithInit(pod *corev1.Pod, commands ...[]string) *corev1.Pod {
	for i, c := range commands {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers,
			corev1.Container{Name: fmt.Sprint("init", i), Image: "busybox:1", Command: c})
	}
	return pod
}

// Spec is the launch of an attempt of a pod whose fields need no resolving.
func Spec(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	spec := backend.LaunchSpec{Pod: pod, Attempt: attempt}
	for _, c := range pod.Spec.InitContainers {
		spec.Containers = append(spec.Containers,
			backend.ContainerSpec{Pod: pod, Container: c, Init: true, Attempt: attempt, Hash: "h-" + c.Name})
	}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers,
			backend.ContainerSpec{Pod: pod, Container: c, Attempt: attempt, Hash: "h-" + c.Name})
	}
	return spec
}

// Canary is in every value of a Secret.
const Canary = "canary-7f3a"

// Resolved is a launch of a pod as the engine would make it, in small: values of
// ConfigMaps and Secrets tell where they come from.
func Resolved(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	spec := Spec(pod, attempt)
	for i := range spec.Containers {
		resolveVariables(pod, &spec.Containers[i])
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; isMounted(&pod.Spec, v.Name) {
			spec.Volumes = append(spec.Volumes, resolveVolume(pod, v))
		}
	}
	return spec
}

func isMounted(spec *corev1.PodSpec, volume string) bool {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) {
			return true
		}
	}
	return false
}

func resolveVariables(pod *corev1.Pod, spec *backend.ContainerSpec) {
	c := spec.Container.DeepCopy()
	values := map[string]string{}
	spec.Origins.Env = map[string]backend.Origin{}
	var env []corev1.EnvVar
	set := func(name, value string, origin backend.Origin) {
		values[name], spec.Origins.Env[name] = value, origin
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	for _, from := range c.EnvFrom {
		if s := from.SecretRef; s != nil {
			set(from.Prefix+"key", Canary+"/"+s.Name, backend.OriginSecret)
		} else {
			set(from.Prefix+"key", "of "+from.ConfigMapRef.Name, backend.OriginShared)
		}
	}
	for _, v := range c.Env {
		switch from := v.ValueFrom; {
		case from == nil:
			value, origin := expanded(v.Value, values, spec.Origins.Env)
			set(v.Name, value, origin)
		case from.SecretKeyRef != nil:
			set(v.Name, Canary+"/"+from.SecretKeyRef.Key, backend.OriginSecret)
		case from.ConfigMapKeyRef != nil:
			set(v.Name, "of "+from.ConfigMapKeyRef.Key, backend.OriginShared)
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			set(v.Name, pod.Name, backend.OriginPod)
		default:
			set(v.Name, fmt.Sprint(pod.UID), backend.OriginPod)
		}
	}
	c.Env, c.EnvFrom = env, nil
	for _, list := range []struct {
		words   []string
		origins *[]backend.Origin
	}{{c.Command, &spec.Origins.Command}, {c.Args, &spec.Origins.Args}} {
		for i, word := range list.words {
			value, origin := expanded(word, values, spec.Origins.Env)
			list.words[i] = value
			*list.origins = append(*list.origins, origin)
		}
	}
	spec.Container = *c
}

var variable = regexp.MustCompile(`\$\(([A-Za-z_]+)\)`)

func expanded(s string, values map[string]string, origins map[string]backend.Origin) (string, backend.Origin) {
	var origin backend.Origin
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		name := variable.FindStringSubmatch(ref)[1]
		origin |= origins[name]
		return values[name]
	}), origin
}

func resolveVolume(pod *corev1.Pod, v *corev1.Volume) backend.VolumeSpec {
	spec := backend.VolumeSpec{Pod: pod, Name: v.Name, Source: v.VolumeSource}
	if c := v.PersistentVolumeClaim; c != nil {
		spec.Source = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "efs.csi.aws.com"}}
		spec.Handle, spec.ReadOnly = pod.Annotations["handle"], c.ReadOnly
		return spec
	}
	if s := v.VolumeSource; s.ConfigMap != nil || s.Secret != nil || s.Projected != nil || s.DownwardAPI != nil {
		spec.ReadOnly = true
		spec.Files = []backend.File{{Path: "f", Data: []byte(Canary + "/" + v.Name), Mode: 0o644}}
	}
	return spec
}

// WithVolume gives a pod a volume made for it, of a size.
func WithVolume(pod *corev1.Pod, name, size string) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse(size),
				}},
			},
		}},
	}})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	return pod
}
