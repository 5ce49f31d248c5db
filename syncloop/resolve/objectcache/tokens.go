package objectcache

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// When a token is renewed (pkg/kubelet/token, requiresRefresh).
const (
	maxTokenAge    = 24 * time.Hour
	maxTokenJitter = 10 * time.Second
)

// token is one token of one pod. The Cache's lock guards it.
type token struct {
	key   resolve.TokenKey
	task  task
	value resolve.Token
	// valid is until when value is good, by our clock; the zero time without one.
	valid time.Time
	// kept is until when the token is good that a process before this one placed.
	kept  time.Time
	err   error // of the last request, once pods are to know
	retry retry
}

// Adopt is Set for a pod that a process before this one has started: placedAt
// says, by volume name, when the tokens in a volume were written. They are not
// requested anew before their time has come: until then Objects.Kept has their
// keys and Objects.Tokens does not. Volumes that are not named have no token that
// could be kept. A later call replaces an earlier one, so that Adopt(pod, nil) says
// that nothing that was placed is left, as after a reboot of the host. A token that
// this process requested is never requested again for it.
func (c *Cache) Adopt(pod *corev1.Pod, placedAt map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.set(pod)
	now := time.Now()
	placed := placedTokens(pod, placedAt)
	for key, t := range e.tokens {
		if !t.valid.IsZero() {
			continue
		}
		at, ok := placed[key]
		if ok && at.After(now) { // by another clock
			at = now
		}
		ttl := time.Duration(key.Expiration) * time.Second
		switch {
		case ok && at.Add(ttl).After(now):
			t.kept = at.Add(ttl)
			c.schedule(&t.task, at.Add(tokenAge(ttl)))
		case !t.kept.IsZero():
			t.kept = time.Time{}
			c.schedule(&t.task, now)
		}
	}
}

// placedTokens says since when each token stands in all volumes that want it.
func placedTokens(pod *corev1.Pod, placedAt map[string]time.Time) map[resolve.TokenKey]time.Time {
	placed := make(map[resolve.TokenKey]time.Time)
	lacking := make(map[resolve.TokenKey]bool)
	mounted := resolve.Mounted(pod)
	for _, vol := range pod.Spec.Volumes {
		if vol.Projected == nil || !mounted[vol.Name] {
			continue
		}
		at, ok := placedAt[vol.Name]
		for _, source := range vol.Projected.Sources {
			if source.ServiceAccountToken == nil {
				continue
			}
			key := resolve.TokenKeyOf(source.ServiceAccountToken)
			if !ok {
				lacking[key] = true
			} else if first, seen := placed[key]; !seen || at.Before(first) {
				placed[key] = at
			}
		}
	}
	for key := range lacking {
		delete(placed, key)
	}
	return placed
}

// tokenAge is the age at which a token is renewed: 80 % of its life, a day at
// most, and a little earlier at random.
func tokenAge(ttl time.Duration) time.Duration {
	return max(0, min(ttl/5*4, maxTokenAge)-jitter(maxTokenJitter))
}

func (c *Cache) useTokens(e *podEntry, after []resolve.TokenKey) {
	difference(e.refs.Tokens, after,
		func(key resolve.TokenKey) {
			c.drop(&e.tokens[key].task)
			delete(e.tokens, key)
		},
		func(key resolve.TokenKey) {
			t := &token{key: key}
			t.task.run = func(ctx context.Context) time.Duration { return c.requestToken(ctx, e, t) }
			e.tokens[key] = t
			c.schedule(&t.task, time.Now())
		})
}

// tokenSnapshot is what is known of the pod's tokens.
func tokenSnapshot(e *podEntry, now time.Time) (
	known map[resolve.TokenKey]resolve.Object[resolve.Token], kept map[resolve.TokenKey]bool,
) {
	for key, t := range e.tokens {
		var o resolve.Object[resolve.Token]
		switch {
		case t.valid.After(now):
			o.Value = t.value
		case t.kept.After(now):
			if kept == nil {
				kept = make(map[resolve.TokenKey]bool)
			}
			kept[key] = true
			continue
		case t.err != nil:
			o.Err = t.err
		default:
			continue
		}
		if known == nil {
			known = make(map[resolve.TokenKey]resolve.Object[resolve.Token])
		}
		known[key] = o
	}
	return known, kept
}

// requestToken asks for a token and says when to ask again.
func (c *Cache) requestToken(ctx context.Context, e *podEntry, t *token) time.Duration {
	c.mu.Lock()
	pod := e.pod
	c.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	reply, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(call,
		pod.Spec.ServiceAccountName, tokenRequest(pod, t.key), metav1.CreateOptions{})
	if err != nil {
		return c.tokenFailed(ctx, e, t, err)
	}
	ttl := time.Duration(t.key.Expiration) * time.Second
	if s := reply.Spec.ExpirationSeconds; s != nil && *s > 0 {
		ttl = time.Duration(*s) * time.Second // the API server may bound it
	}
	c.mu.Lock()
	ended := t.task.ended
	t.value = resolve.Token{Value: reply.Status.Token, Expires: reply.Status.ExpirationTimestamp.Time}
	t.valid, t.kept, t.err, t.retry = asked.Add(ttl), time.Time{}, nil, retry{}
	c.mu.Unlock()
	if !ended {
		c.notify(pod.UID)
	}
	return max(0, time.Until(asked.Add(max(time.Second, tokenAge(ttl)))))
}

func tokenRequest(pod *corev1.Pod, key resolve.TokenKey) *authenticationv1.TokenRequest {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.Expiration,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		},
	}}
	if key.Audience != "" {
		r.Spec.Audiences = []string{key.Audience}
	}
	return r
}

// tokenFailed says when to ask again. The token at hand stays while it is good.
func (c *Cache) tokenFailed(ctx context.Context, e *podEntry, t *token, err error) time.Duration {
	c.mu.Lock()
	pod, now := e.pod, time.Now()
	if t.task.ended || ctx.Err() != nil {
		c.mu.Unlock()
		return never
	}
	delay, told := t.retry.failed(now, err)
	had := t.valid
	if t.kept.After(had) {
		had = t.kept
	}
	if pod.DeletionTimestamp != nil && (refused(err) || apierrors.IsConflict(err)) {
		// The API no longer has the pod: there is no token for it, nor a need.
		delay, told = never, had.IsZero()
	}
	tell := false
	if told && !had.After(now) {
		tell = t.err == nil
		t.err = tokenError(pod, t.key, had, err)
	}
	report := told && t.retry.report()
	c.mu.Unlock()
	entry := log.G(ctx).WithError(err).WithField("pod", pod.Namespace+"/"+pod.Name).WithField("uid", pod.UID)
	if report {
		entry.Warn("couldn't update token")
	} else {
		entry.Debug("couldn't update token yet")
	}
	if tell {
		c.notify(pod.UID)
	}
	return delay
}

func tokenError(pod *corev1.Pod, key resolve.TokenKey, had time.Time, err error) error {
	if had.IsZero() {
		return fmt.Errorf("failed to fetch token: %w", err)
	}
	return fmt.Errorf("token %q/%q/%q expired and refresh failed: %w",
		pod.Spec.ServiceAccountName, pod.Namespace, key.Audience, err)
}
