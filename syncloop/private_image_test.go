package syncloop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// private is a registry that gives its images below a name to nobody without a login.
type private struct {
	backend.Images
	below string
}

func (p private) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	if len(creds) == 0 && strings.HasPrefix(image, p.below) {
		return backend.PulledImage{}, errors.New("401 Unauthorized")
	}
	return p.Images.Pull(ctx, image, creds)
}

// havePullSecret gives the namespace a Secret "pull" with a login at r.example.
func (a *api) havePullSecret() {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pull", UID: "s"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example":{"username":"u","password":"p"}}}`),
		},
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects.Secrets = map[string]resolve.Object[*corev1.Secret]{"pull": {Value: secret}}
}

// An image on the remote is no way around the registry, also for an engine that did not
// pull it itself.
func TestPrivateImages(t *testing.T) {
	hide := func(b *backend.Backend) { b.Images = private{b.Images, ""} }
	alone(t, hide, func(t *testing.T, a *api) {
		a.havePullSecret()
		image := func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "r.example/app" }
		withSecret := func(pod *corev1.Pod) {
			image(pod)
			pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		}
		a.create("mine", "u1", "Always", withSecret, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.phase("mine", corev1.PodRunning)
		a.create("theirs", "u2", "Always", image, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.phase("theirs", corev1.PodPending)
		if e := a.event("theirs", "Failed"); !strings.Contains(e, "401 Unauthorized") {
			t.Errorf("Event %q", e)
		}
		a.stop()
		b := a.remote.Backend()
		hide(&b)
		a.start(b)
		a.create("again", "u3", "Always", image, "sleep", "infinity")
		a.create("also-mine", "u4", "Never", withSecret, "sleep", "infinity")
		time.Sleep(20 * time.Second)
		a.phase("again", corev1.PodPending)
		a.phase("also-mine", corev1.PodRunning)
		a.phase("mine", corev1.PodRunning)
	})
}
