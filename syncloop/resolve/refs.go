package resolve

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refs is what a pod refers to outside itself: what its Objects must hold before
// all of it can be resolved. Optional references stand in it too. Lists are
// sorted and hold no name twice.
type Refs struct {
	// ConfigMaps and Secrets of the pod's namespace that env, envFrom and mounted
	// volumes name.
	ConfigMaps, Secrets []string
	// PullSecrets are spec.imagePullSecrets. A missing one keeps nothing from
	// starting.
	PullSecrets []string
	// Tokens of the pod's service account.
	Tokens []TokenKey
	// Bundles are the ClusterTrustBundles that projected volumes ask for.
	Bundles []Bundle
	// Claims of the pod's namespace.
	Claims []ClaimRef
	// RuntimeClasses are the pod's one, or none.
	RuntimeClasses []string
	// Services is true when a container's environment names services, which it
	// always does: that of the API server stands in every container.
	Services bool
}

// Bundle selects trust anchors: one ClusterTrustBundle by name, or all of a
// signer that the labels select (a nil selector selects none, an empty one all).
type Bundle struct {
	// Key is the selection as Objects.Bundles has it.
	Key           string
	Name          string
	SignerName    string
	LabelSelector *metav1.LabelSelector
}

// ClaimRef names a PersistentVolumeClaim that a pod mounts.
type ClaimRef struct {
	Name string
	// Ephemeral is true for the claim of a generic ephemeral volume: it counts
	// only if the pod owns it (CheckClaim).
	Ephemeral bool
}

// defaultExpiration is the API's default of a token's expirationSeconds.
const defaultExpiration = 3600

// TokenKeyOf is the key of the token that a projected source asks for.
func TokenKeyOf(p *corev1.ServiceAccountTokenProjection) TokenKey {
	key := TokenKey{Audience: p.Audience, Expiration: defaultExpiration}
	if p.ExpirationSeconds != nil {
		key.Expiration = *p.ExpirationSeconds
	}
	return key
}

// BundleKey is the key in Objects.Bundles of what a projected source selects.
func BundleKey(p *corev1.ClusterTrustBundleProjection) string {
	if p.Name != nil {
		return "name:" + *p.Name
	}
	key := "signer:"
	if p.SignerName != nil {
		key += *p.SignerName
	}
	if p.LabelSelector == nil {
		return key
	}
	// String of a selector sorts the labels; of one that cannot be parsed it is
	// the words of the API type, and the cache reports the error under that key.
	if s, err := metav1.LabelSelectorAsSelector(p.LabelSelector); err == nil {
		return key + "?" + s.String()
	}
	return key + "?" + p.LabelSelector.String()
}

func bundleOf(p *corev1.ClusterTrustBundleProjection) Bundle {
	b := Bundle{Key: BundleKey(p), LabelSelector: p.LabelSelector}
	if p.Name != nil {
		b.Name = *p.Name
	} else if p.SignerName != nil {
		b.SignerName = *p.SignerName
	}
	return b
}

// ClaimName is the claim that a volume mounts: the one it names, or for a generic
// ephemeral volume the one made for it; empty for other kinds.
func ClaimName(pod *corev1.Pod, vol *corev1.Volume) string {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName
	case vol.Ephemeral != nil:
		return pod.Name + "-" + vol.Name
	}
	return ""
}

// Mounted are the names of the volumes that a container of the pod mounts. The
// kubelet sets up no other.
func Mounted(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	eachContainer(pod, func(c *corev1.Container) {
		for _, m := range c.VolumeMounts {
			names[m.Name] = true
		}
	})
	return names
}

// eachContainer calls f for the init, app and ephemeral containers, in order.
func eachContainer(pod *corev1.Pod, f func(*corev1.Container)) {
	for i := range pod.Spec.InitContainers {
		f(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		f(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		// The API keeps the two types convertible.
		f((*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// References lists what a pod refers to. Volumes that no container mounts are
// left out.
func References(pod *corev1.Pod) Refs {
	r := refSet{
		configMaps: map[string]bool{}, secrets: map[string]bool{}, pull: map[string]bool{},
		tokens: map[TokenKey]bool{}, bundles: map[string]Bundle{}, claims: map[ClaimRef]bool{},
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		// The API admits entries without a name; the kubelet skips them.
		if s.Name != "" {
			r.pull[s.Name] = true
		}
	}
	eachContainer(pod, r.container)
	mounted := Mounted(pod)
	for i := range pod.Spec.Volumes {
		if vol := &pod.Spec.Volumes[i]; mounted[vol.Name] {
			r.volume(pod, vol)
		}
	}
	refs := r.refs()
	if name := pod.Spec.RuntimeClassName; name != nil && *name != "" {
		refs.RuntimeClasses = []string{*name}
	}
	return refs
}

// refSet gathers references without doubles.
type refSet struct {
	configMaps, secrets, pull map[string]bool
	tokens                    map[TokenKey]bool
	bundles                   map[string]Bundle
	claims                    map[ClaimRef]bool
}

func (r refSet) refs() Refs {
	return Refs{
		ConfigMaps:  slices.Sorted(maps.Keys(r.configMaps)),
		Secrets:     slices.Sorted(maps.Keys(r.secrets)),
		PullSecrets: slices.Sorted(maps.Keys(r.pull)),
		Tokens: slices.SortedFunc(maps.Keys(r.tokens), func(a, b TokenKey) int {
			return cmp.Or(cmp.Compare(a.Audience, b.Audience), cmp.Compare(a.Expiration, b.Expiration))
		}),
		Bundles: slices.SortedFunc(maps.Values(r.bundles), func(a, b Bundle) int { return cmp.Compare(a.Key, b.Key) }),
		Claims: slices.SortedFunc(maps.Keys(r.claims), func(a, b ClaimRef) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), compareBool(a.Ephemeral, b.Ephemeral))
		}),
		Services: true,
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func (r refSet) container(c *corev1.Container) {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			r.configMaps[ref.Name] = true
		}
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			r.secrets[ref.Name] = true
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.ConfigMapKeyRef != nil {
			r.configMaps[from.ConfigMapKeyRef.Name] = true
		}
		if from.SecretKeyRef != nil {
			r.secrets[from.SecretKeyRef.Name] = true
		}
	}
}

func (r refSet) volume(pod *corev1.Pod, vol *corev1.Volume) {
	switch {
	case vol.ConfigMap != nil:
		r.configMaps[vol.ConfigMap.Name] = true
	case vol.Secret != nil:
		r.secrets[vol.Secret.SecretName] = true
	case vol.Projected != nil:
		for i := range vol.Projected.Sources {
			r.projection(&vol.Projected.Sources[i])
		}
	default:
		if name := ClaimName(pod, vol); name != "" {
			r.claims[ClaimRef{Name: name, Ephemeral: vol.Ephemeral != nil}] = true
		}
	}
}

func (r refSet) projection(p *corev1.VolumeProjection) {
	switch {
	case p.ConfigMap != nil:
		r.configMaps[p.ConfigMap.Name] = true
	case p.Secret != nil:
		r.secrets[p.Secret.Name] = true
	case p.ServiceAccountToken != nil:
		r.tokens[TokenKeyOf(p.ServiceAccountToken)] = true
	case p.ClusterTrustBundle != nil:
		b := bundleOf(p.ClusterTrustBundle)
		r.bundles[b.Key] = b
	}
}
