package resolve

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Objects is everything outside a pod that its environment and its volumes are
// made of, as known now. It is a value: what it holds is read-only.
type Objects struct {
	// ConfigMaps, Secrets and ClusterTrustBundles by name (bundles selected by
	// signer and labels: by BundleKey). An object that the pod references and
	// that stands in none of them is not known yet.
	ConfigMaps map[string]Object[*corev1.ConfigMap]
	Secrets    map[string]Object[*corev1.Secret]
	Bundles    map[string]Object[string]
	// Tokens by TokenKey.
	Tokens map[TokenKey]Object[Token]
	// Kept are tokens that are not in Tokens because one that was placed earlier,
	// before a restart, is young enough: a volume that holds it stays as placed.
	Kept map[TokenKey]bool
	// Claims tells, by claim name, the source of its bound volume.
	Claims map[string]Object[Claim]
	// RuntimeHandlers tells, by the name of a RuntimeClass, its handler.
	RuntimeHandlers map[string]Object[string]
	// EnvFiles are the files that the variables of the container at hand come from, as they
	// were read for its next start.
	EnvFiles map[EnvFile]Object[[]byte]
	// Services of the pod's namespace and of default, and whether they have been
	// listed once: before that no container may start.
	Services       []*corev1.Service
	ServicesSynced bool
}

// EnvFile is a file of a volume that sets variables (EnvVarSource.FileKeyRef). What it
// holds may be secret.
type EnvFile struct{ Volume, Path string }

// Object is one object as last seen. With Err set it cannot be had for now
// (missing, forbidden): Err says why, in words for the user. One that is missing
// is told by apierrors.IsNotFound or the class backend.ErrNotFound: that alone an
// optional reference forgives.
type Object[T any] struct {
	Value T
	Err   error
}

// TokenKey names one service-account token of a pod. Audience is empty for the
// API server's own, Expiration is in seconds.
type TokenKey struct {
	Audience   string
	Expiration int64
}

// Token is a service-account token bound to its pod. Never logged.
type Token struct {
	Value   string
	Expires time.Time
}

// Claim is what a PersistentVolumeClaim's bound volume says.
type Claim struct {
	Source   corev1.VolumeSource
	ReadOnly bool
	// Handle names the volume to its CSI driver; Source is then a CSI one.
	Handle string
	// Local is true for a local volume: Source is then the hostPath where it is.
	Local bool
	// MountOptions are those of the volume.
	MountOptions []string
}

// Node is what a pod may learn of its node and cluster.
type Node struct {
	Name string
	// Allocatable stands in for limits that a container does not set.
	Allocatable corev1.ResourceList
	// APIServer is the address of the API server that pods can reach; the zero
	// value leaves KUBERNETES_SERVICE_HOST to the Service.
	APIServer netip.AddrPort
	// EphemeralVolumes is true where the backend makes volumes of kind ephemeral
	// by itself (backend.Limits): nobody waits for their claims.
	EphemeralVolumes bool
	// RecursiveReadOnly are the runtime handlers that can make a mount read-only with all
	// that is mounted below it.
	RecursiveReadOnly []string
}

// Addresses are what is known of a pod's and its host's, primary first.
type Addresses struct {
	PodIPs, HostIPs []string
	// Late is true where the remote puts them in (backend.LatePodIP and its like):
	// then neither is looked at.
	Late bool
}
