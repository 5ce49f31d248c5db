package volumes

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// Wanted is one volume that containers of a pod mount.
type Wanted struct {
	// Spec is ready to be placed if Err is nil; else only Pod, Name and the
	// volume's own Source stand in it.
	Spec backend.VolumeSpec
	// Err is resolve.ErrWaiting while something is not known, else why the
	// volume cannot be made: see Message. Unsupported is among its classes.
	Err error
	// Keep is true, and Err is ErrWaiting, for a volume that lacks nothing but
	// tokens which were placed before and are good yet: where the volume is
	// placed it stays as it is; where it is not, tokens must be asked for.
	Keep bool
}

// Message is what the kubelet says of Err in its FailedMount Event.
func (w Wanted) Message() string {
	if source := w.Spec.Source; source.PersistentVolumeClaim != nil || source.Ephemeral != nil {
		return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to "+
			"process volumes=[%s]: %v",
			w.Spec.Name, w.Spec.Name, w.Err)
	}
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", w.Spec.Name, w.Err)
}

// Specs are the volumes of the pod that a container mounts, in the order of the
// pod. It is called again whenever what they are made of may have changed: a
// volume whose Hash is not the one placed is to be placed again. No address
// matters: files of the downward API can name metadata and resources only.
func Specs(pod *corev1.Pod, o resolve.Objects, node resolve.Node, _ resolve.Addresses) []Wanted {
	mounted := resolve.Mounted(pod)
	var out []Wanted
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; mounted[v.Name] && v.Image == nil { // an image is mounted at the start
			out = append(out, wanted(pod, i, o, node))
		}
	}
	return out
}

// wanted is the i-th volume of the pod.
func wanted(pod *corev1.Pod, i int, o resolve.Objects, node resolve.Node) Wanted {
	vol := &pod.Spec.Volumes[i]
	w := Wanted{Spec: backend.VolumeSpec{Pod: pod, Name: vol.Name, Source: vol.VolumeSource}}
	spec := w.Spec
	var err error
	switch {
	case vol.ConfigMap != nil, vol.Secret != nil, vol.Projected != nil, vol.DownwardAPI != nil:
		// The kubelet mounts these read-only for everyone.
		spec.ReadOnly = true
		spec.Files, err = resolve.Files(pod, vol, o, node)
	case vol.Ephemeral != nil && node.EphemeralVolumes: // made at the launch, from its template
	case vol.PersistentVolumeClaim != nil, vol.Ephemeral != nil:
		err = bind(&spec, vol, o)
	case vol.NFS != nil:
		spec.ReadOnly = vol.NFS.ReadOnly
	case vol.EmptyDir != nil, vol.HostPath != nil:
	default:
		err = backend.Errorf(
			backend.ErrUnsupported, "spec.volumes[%d].%s is not supported", i, resolve.KindOf(vol.VolumeSource),
		)
	}
	if err != nil {
		w.Err = err
		w.Keep = errors.Is(err, resolve.ErrWaiting) && waitsForKept(pod, vol, o, node)
		return w
	}
	// The size of a tmpfs follows the pod's resources, whose change makes no
	// other volume: it is not part of the hash.
	spec.Hash = hash(spec)
	spec.Source = sized(spec.Source, pod, node)
	w.Spec = spec
	return w
}

// bind replaces a claim by what its bound volume says.
func bind(spec *backend.VolumeSpec, vol *corev1.Volume, o resolve.Objects) error {
	name := resolve.ClaimName(spec.Pod, vol)
	claim, known := o.Claims[name]
	if !known {
		return fmt.Errorf("claim %q: %w", name, resolve.ErrWaiting)
	}
	if claim.Err != nil {
		return claim.Err
	}
	spec.Source, spec.Persistent, spec.MountOptions = claim.Value.Source, claim.Value.Local, claim.Value.MountOptions
	spec.Handle = claim.Value.Handle
	spec.ReadOnly = claim.Value.ReadOnly || vol.PersistentVolumeClaim != nil && vol.PersistentVolumeClaim.ReadOnly
	if spec.ReadOnly && spec.Source.NFS != nil {
		// Both say so, for a server may refuse to be mounted in another way.
		spec.Source.NFS = spec.Source.NFS.DeepCopy()
		spec.Source.NFS.ReadOnly = true
	}
	return nil
}

// waitsForKept reports a projected volume that would be ready if the kept tokens
// were at hand.
func waitsForKept(pod *corev1.Pod, vol *corev1.Volume, o resolve.Objects, node resolve.Node) bool {
	if vol.Projected == nil || len(o.Kept) == 0 {
		return false
	}
	tokens := make(map[resolve.TokenKey]resolve.Object[resolve.Token], len(o.Tokens)+len(o.Kept))
	for key := range o.Kept {
		tokens[key] = resolve.Object[resolve.Token]{}
	}
	for key, token := range o.Tokens {
		tokens[key] = token
	}
	o.Tokens = tokens
	_, err := resolve.Files(pod, vol, o, node)
	return err == nil
}
