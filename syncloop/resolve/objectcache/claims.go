package objectcache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// useClaims reads the claims and their volumes, each once for each pod: pods do not
// share what was read. The kubelet too looks for each pod whether the claim is
// still what it was, and the Node authorizer allows no watch.
func (c *Cache) useClaims(e *podEntry, after []resolve.ClaimRef) {
	use(c, e, e.claims, claimNames(e.refs.Claims), claimNames(after), func(
		ctx context.Context, name string,
	) (resolve.Claim, error) {
		c.mu.Lock()
		pod, refs := e.pod, e.refs.Claims
		c.mu.Unlock()
		value, err := c.boundVolume(ctx, pod, name, refs)
		if err != nil {
			err = fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
		}
		return value, err
	})
}

func claimNames(refs []resolve.ClaimRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.Name
	}
	return names
}

func (c *Cache) boundVolume(
	ctx context.Context, pod *corev1.Pod, name string, refs []resolve.ClaimRef,
) (resolve.Claim, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pvc, err := c.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(call, name, metav1.GetOptions{})
	if err != nil {
		return resolve.Claim{}, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	for _, ref := range refs {
		if ref.Name != name {
			continue
		}
		if err := resolve.CheckClaim(pod, ref, pvc); err != nil {
			return resolve.Claim{}, err
		}
	}
	pv, err := c.client.CoreV1().PersistentVolumes().Get(call, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return resolve.Claim{}, fmt.Errorf("failed to fetch PV %s from API server: %w", pvc.Spec.VolumeName, err)
	}
	if err := resolve.CheckBinding(pvc, pv); err != nil {
		return resolve.Claim{}, err
	}
	return resolve.SourceOf(pv)
}
