package objectcache

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// claim is one PersistentVolumeClaim of one pod. Pods do not share what was read:
// the kubelet too looks for each pod whether the claim is still what it was, and
// the Node authorizer allows no watch. The Cache's lock guards it.
type claim struct {
	name  string
	task  task
	known bool
	value resolve.Claim
	err   error
	retry retry
}

func (c *Cache) useClaims(e *podEntry, after []resolve.ClaimRef) {
	difference(claimNames(e.refs.Claims), claimNames(after),
		func(name string) {
			if old := e.claims[name]; old != nil {
				c.drop(&old.task)
				delete(e.claims, name)
			}
		},
		func(name string) {
			if e.claims[name] != nil {
				return // named by two volumes
			}
			m := &claim{name: name}
			m.task.run = func(ctx context.Context) time.Duration { return c.readClaim(ctx, e, m) }
			e.claims[name] = m
			c.schedule(&m.task, time.Now())
		})
}

func claimNames(refs []resolve.ClaimRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.Name
	}
	return names
}

func claimSnapshot(e *podEntry) map[string]resolve.Object[resolve.Claim] {
	if len(e.claims) == 0 {
		return nil
	}
	out := make(map[string]resolve.Object[resolve.Claim], len(e.claims))
	for name, m := range e.claims {
		if m.known || m.err != nil {
			out[name] = resolve.Object[resolve.Claim]{Value: m.value, Err: m.err}
		}
	}
	return out
}

// readClaim reads the claim and its volume. Once bound a claim stays what it is.
func (c *Cache) readClaim(ctx context.Context, e *podEntry, m *claim) time.Duration {
	c.mu.Lock()
	pod, refs := e.pod, e.refs.Claims
	c.mu.Unlock()
	value, err := c.boundVolume(ctx, pod, m.name, refs)
	if err != nil {
		err = fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, m.name, err)
	}
	c.mu.Lock()
	if m.task.ended || ctx.Err() != nil {
		c.mu.Unlock()
		return never
	}
	delay, tell := never, true
	if err == nil {
		m.known, m.value, m.err = true, value, nil
	} else {
		var told bool
		delay, told = m.retry.failed(time.Now(), err)
		tell = told && (m.err == nil || m.err.Error() != err.Error())
		if told {
			m.err = err
		}
	}
	c.mu.Unlock()
	if err != nil {
		log.G(ctx).WithError(err).WithField("pod", pod.Namespace+"/"+pod.Name).WithField("uid", pod.UID).
			Debug("Claim not read")
	}
	if tell {
		c.notify(pod.UID)
	}
	return delay
}

func (c *Cache) boundVolume(ctx context.Context, pod *corev1.Pod, name string, refs []resolve.ClaimRef) (resolve.Claim, error) {
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
