package resolve

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
)

// Hash identifies a container's spec: a running container whose hash changed is
// replaced. Like the kubelet's HashContainer it covers the name and the image,
// which is all of a container that can change in a way that needs another one;
// resources are resized in place. It is over the spec, never over what the spec
// refers to: a changed ConfigMap restarts nothing.
func Hash(c *corev1.Container) string { return sum(c.Name, c.Image) }

// BackoffHash identifies what of a container a crash loop depends on: a change of
// it starts a new one (kubelet: GetBackoffKey).
func BackoffHash(c *corev1.Container) string { return sum(c.Name, c.Image, c.Resources.String()) }

func sum(words ...string) string {
	h := fnv.New64a()
	for _, w := range words {
		// A hash never fails to write.
		_, _ = h.Write([]byte(w))
		_, _ = h.Write([]byte{0})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
