package ecs

import (
	"context"
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// canary is in every value of a Secret.
const canary = "canary-7f3a"

// resolved is a launch of a pod as the engine would make it, in small: values of
// ConfigMaps and Secrets tell where they come from.
func resolved(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	spec := specOf(pod, attempt)
	for i := range spec.Containers {
		resolveVariables(pod, &spec.Containers[i])
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; mountsOf(&pod.Spec, v.Name) > 0 {
			spec.Volumes = append(spec.Volumes, resolveVolume(pod, v))
		}
	}
	return spec
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
			set(from.Prefix+"key", canary+"/"+s.Name, backend.OriginSecret)
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
			set(v.Name, canary+"/"+from.SecretKeyRef.Key, backend.OriginSecret)
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
		spec.Source = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: efsDriver}}
		spec.Handle, spec.ReadOnly = pod.Annotations["handle"], c.ReadOnly
		return spec
	}
	if hasFiles(spec) {
		spec.ReadOnly = true
		spec.Files = []backend.File{{Path: "f", Data: []byte(canary + "/" + v.Name), Mode: 0o644}}
	}
	return spec
}

// refsOf are where a store would have put the payloads of a launch.
func refsOf(spec backend.LaunchSpec) payloadRefs {
	arn := func(s string) string {
		return "arn:aws:secretsmanager:eu-central-1:123456789012:secret:burstlet/n/" + s + "-AbCdEf"
	}
	refs := payloadRefs{PullARNs: map[string]string{}}
	if len(secretEnvOf(spec)) > 0 {
		refs.EnvARN = arn("env")
	}
	shared, own := filesOf(spec)
	if len(shared) > 0 {
		refs.FilesARNs = []string{arn("files")}
	}
	if len(own)+len(shared) > 0 {
		refs.PodName, refs.PodKey, refs.PodStored = "burstlet/n/pod/"+string(spec.Pod.UID), "key-of-"+string(spec.Pod.UID), len(own) > 0
	}
	if len(shared) > 0 {
		refs.FilesTag = "tagtagta"
	}
	for name, login := range pullLogins(spec) {
		refs.PullARNs[name] = arn("pull-" + aws.ToString(&login.Username))
	}
	return refs
}

// anImage is what every image says of itself, in these tests.
var anImage = ImageConfig{Entrypoint: []string{"/entry"}, Cmd: []string{"serve"}, User: "nobody:nogroup", Env: []string{"PATH=/bin", "HOME=/srv"}, StopSignal: "SIGQUIT"}

// imagesFor are the images of a launch.
func imagesFor(spec backend.LaunchSpec) imageConfigs {
	out := imageConfigs{}
	for _, c := range spec.Containers {
		out[c.Container.Name] = anImage
	}
	return out
}

// images are those of a registry that never fails: root's, which run nothing.
type images struct{}

func (images) Config(context.Context, string, string, []backend.Credential) (ImageConfig, error) {
	return ImageConfig{Entrypoint: []string{"true"}}, nil
}
