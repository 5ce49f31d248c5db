package explain

import (
	"cmp"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/syncloop/volumes"
)

// unknownVolume stands in for what a claim is bound to.
const unknownVolume = "fs-00000000"

// launchOf is a launch of a pod in which what is not known here stands in by
// name: values of ConfigMaps and Secrets, tokens, claims. Variables of whole
// objects (envFrom) and of Services are left out.
func launchOf(c config.Configuration, b backend.Backend, pod *corev1.Pod) (backend.LaunchSpec, error) {
	node := resolve.Node{
		Name: c.Node.Name, Allocatable: c.Node.Capacity.ResourceList(), EphemeralVolumes: b.Limits.EphemeralVolumes,
	}
	if c.Pods.APIServer != "" {
		var err error
		if node.APIServer, err = netip.ParseAddrPort(c.Pods.APIServer); err != nil {
			return backend.LaunchSpec{}, fmt.Errorf("pods.apiServer: %w", err)
		}
	}
	objects, addresses := standIns(pod), resolve.Addresses{Late: true}
	whole := b.Files == nil // volumes travel in the launch
	if !whole {
		addresses = resolve.Addresses{PodIPs: []string{"(status.podIP)"}, HostIPs: []string{"(status.hostIP)"}}
		pod = withMessagePaths(pod)
	}
	spec := backend.LaunchSpec{Pod: pod}
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for j := range list {
			container, origins, err := resolve.Resolve(pod, &list[j], objects, node, addresses)
			if err != nil {
				return spec, fmt.Errorf("container %s: %w", list[j].Name, err)
			}
			spec.Containers = append(spec.Containers, backend.ContainerSpec{
				Pod: pod, Container: container, Origins: origins, Init: i == 0, Hash: resolve.Hash(&list[j]),
				Credentials: standInLogin(pod),
			})
		}
	}
	if !whole {
		return spec, nil
	}
	for _, v := range volumes.Specs(pod, objects, node, addresses) {
		if v.Err != nil {
			return spec, fmt.Errorf("volume %s: %w", v.Spec.Name, v.Err)
		}
		spec.Volumes = append(spec.Volumes, v.Spec)
	}
	return spec, nil
}

// withMessagePaths is the pod with the termination messages that the API server's
// defaults give its containers.
func withMessagePaths(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].TerminationMessagePath = cmp.Or(list[i].TerminationMessagePath, corev1.TerminationMessagePathDefault)
		}
	}
	return pod
}

// standInLogin shows where a login would stand.
func standInLogin(pod *corev1.Pod) []backend.Credential {
	if len(pod.Spec.ImagePullSecrets) == 0 {
		return nil
	}
	return []backend.Credential{{Username: "-", Password: "-"}}
}

// objects gathers what a pod refers to.
type standInObjects struct{ resolve.Objects }

// standIns are what a pod refers to, with words that say so in the place of
// values.
func standIns(pod *corev1.Pod) resolve.Objects {
	o := standInObjects{resolve.Objects{
		ConfigMaps: map[string]resolve.Object[*corev1.ConfigMap]{}, Secrets: map[string]resolve.Object[*corev1.Secret]{},
		Bundles: map[string]resolve.Object[string]{}, Tokens: map[resolve.TokenKey]resolve.Object[resolve.Token]{},
		Claims: map[string]resolve.Object[resolve.Claim]{}, ServicesSynced: true,
	}}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			o.environment(&list[i])
		}
	}
	for i := range pod.Spec.Volumes {
		o.volume(pod, &pod.Spec.Volumes[i])
	}
	return o.Objects
}

func (o standInObjects) configMap(name string, keys ...string) {
	if o.ConfigMaps[name].Value == nil {
		o.ConfigMaps[name] = resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{Data: map[string]string{}}}
	}
	for _, key := range keys {
		o.ConfigMaps[name].Value.Data[key] = "(" + key + " of ConfigMap " + name + ")"
	}
}

func (o standInObjects) secret(name string, keys ...string) {
	if o.Secrets[name].Value == nil {
		o.Secrets[name] = resolve.Object[*corev1.Secret]{Value: &corev1.Secret{Data: map[string][]byte{}}}
	}
	for _, key := range keys {
		o.Secrets[name].Value.Data[key] = []byte("(" + key + " of Secret " + name + ")")
	}
}

func (o standInObjects) environment(c *corev1.Container) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			o.configMap(from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			o.secret(from.SecretRef.Name)
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			continue
		}
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil {
			o.configMap(ref.Name, ref.Key)
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			o.secret(ref.Name, ref.Key)
		}
	}
}

func (o standInObjects) volume(pod *corev1.Pod, v *corev1.Volume) {
	switch s := v.VolumeSource; {
	case s.ConfigMap != nil:
		o.configMap(s.ConfigMap.Name, keysOf(s.ConfigMap.Items)...)
	case s.Secret != nil:
		o.secret(s.Secret.SecretName, keysOf(s.Secret.Items)...)
	case s.PersistentVolumeClaim != nil, s.Ephemeral != nil:
		// Claims of other kinds are told at the launch.
		o.Claims[resolve.ClaimName(pod, v)] = resolve.Object[resolve.Claim]{Value: resolve.Claim{
			Source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "efs.csi.aws.com"}}, Handle: unknownVolume,
		}}
	case s.Projected != nil:
		for i := range s.Projected.Sources {
			o.projection(&s.Projected.Sources[i])
		}
	}
}

func (o standInObjects) projection(p *corev1.VolumeProjection) {
	switch {
	case p.ConfigMap != nil:
		o.configMap(p.ConfigMap.Name, keysOf(p.ConfigMap.Items)...)
	case p.Secret != nil:
		o.secret(p.Secret.Name, keysOf(p.Secret.Items)...)
	case p.ServiceAccountToken != nil:
		o.Tokens[resolve.TokenKeyOf(p.ServiceAccountToken)] = resolve.Object[resolve.Token]{Value: resolve.Token{Value: "-"}}
	case p.ClusterTrustBundle != nil:
		o.Bundles[resolve.BundleKey(p.ClusterTrustBundle)] = resolve.Object[string]{Value: "-"}
	}
}

func keysOf(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}
