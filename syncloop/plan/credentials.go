package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
)

// imageVolumes are the images that a container mounts, each with its logins. False while
// one of those is not known yet.
func (v view) imageVolumes(p *Plan, m podContainer) ([]backend.ImageVolume, bool) {
	var out []backend.ImageVolume
	for i := range m.VolumeMounts {
		name := m.VolumeMounts[i].Name
		source := backend.ImageVolumeOf(v.Pod, name)
		if source == nil || slices.ContainsFunc(out, func(o backend.ImageVolume) bool { return o.Name == name }) {
			continue
		}
		creds, known := v.credentials(p, source.Reference)
		if !known {
			return nil, false
		}
		out = append(out, backend.ImageVolume{
			Name: name, Reference: source.Reference, PullPolicy: source.PullPolicy, Credentials: creds,
		})
	}
	return out, true
}

// credentials are the logins for a container's image that the pod's pull secrets
// hold. A secret that cannot be had or read keeps nobody waiting, as for a
// kubelet: an Event is recorded, and the pull is tried. False while one is not known
// yet.
func (v view) credentials(p *Plan, image string) ([]backend.Credential, bool) {
	refs := v.Pod.Spec.ImagePullSecrets
	if len(refs) == 0 {
		return nil, true
	}
	var secrets []*corev1.Secret
	var missing []string
	for _, ref := range refs {
		object, known := v.Objects.Secrets[ref.Name]
		switch {
		case ref.Name == "": // the API allows it
		case !known:
			return nil, false
		case object.Err != nil:
			missing = append(missing, ref.Name)
		default:
			secrets = append(secrets, object.Value)
		}
	}
	if len(missing) > 0 {
		p.record(corev1.EventTypeWarning, reasonNoPullSecret, fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
			"attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	creds, err := images.Credentials(v.Pod, secrets, image)
	if err != nil && !errors.Is(err, backend.ErrInvalid) { // the pull reports a bad image name
		p.record(corev1.EventTypeWarning, reasonNoPullSecret, err.Error())
	}
	return creds, true
}
