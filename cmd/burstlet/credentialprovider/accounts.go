package credentialprovider

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	configv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/burstlet/burstlet/backend/pause"
)

const (
	callLimit = 30 * time.Second
	// maxTokenAge is when a token is renewed that has not lived for four fifths of its time
	// (kubelet: pkg/kubelet/token, requiresRefresh).
	maxTokenAge = 24 * time.Hour
	// The Node authorizer learns of a pod a moment after it was bound: a refusal is asked
	// again after 10, 20 … 640 ms.
	refusedFirst, refusedLast = 10 * time.Millisecond, time.Second
)

var errEcho = errors.New("it has the service account token as a password, which is only for cacheType Token")

// accounts reads ServiceAccounts and requests their tokens, as the node.
type accounts struct {
	client typedcorev1.ServiceAccountsGetter

	mu     sync.Mutex
	tokens map[tokenKey]token
}

type tokenKey struct {
	pod, account types.UID
	audience     string
}

type token struct {
	value        string
	renew, until time.Time
}

func newAccounts(client typedcorev1.ServiceAccountsGetter) *accounts {
	return &accounts{client: client, tokens: map[tokenKey]token{}}
}

// caller is for whom a plugin is asked; the zero value for all pods of the node.
type caller struct {
	// account is namespace/name/UID of a ServiceAccount, token one of its tokens.
	account, token string
	annotations    map[string]string
	// key tells callers apart that get answers of their own.
	key string
	// alone is true for one whose answers serve nobody else, cacheType Token.
	alone bool
}

// caller is for whom a plugin with these attributes is asked where a pod wants an image. False
// where it is not asked: the pod has no ServiceAccount, or one without an annotation that it
// must have.
func (a *accounts) caller(
	ctx context.Context, pod *corev1.Pod, with *configv1.ServiceAccountTokenAttributes,
) (caller, bool, error) {
	if with == nil {
		return caller{}, true, nil
	}
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return caller{}, !*with.RequireServiceAccount, nil
	}
	account, err := retried(ctx, func(ctx context.Context) (*corev1.ServiceAccount, error) {
		return a.client.ServiceAccounts(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return caller{}, false, fmt.Errorf("read its ServiceAccount %s: %w", name, err)
	}
	who := caller{
		account: pod.Namespace + "/" + name + "/" + string(account.UID), annotations: map[string]string{},
		alone: with.CacheType == configv1.TokenServiceAccountTokenCacheType,
	}
	for _, key := range with.RequiredServiceAccountAnnotationKeys {
		value, has := account.Annotations[key]
		if !has {
			log.G(ctx).WithField("serviceAccount", pod.Namespace+"/"+name).WithField("annotation", key).
				Debug("a credential provider is not asked: the ServiceAccount lacks an annotation")
			return caller{}, false, nil
		}
		who.annotations[key] = value
	}
	for _, key := range with.OptionalServiceAccountAnnotationKeys {
		if value, has := account.Annotations[key]; has {
			who.annotations[key] = value
		}
	}
	if who.token, err = a.token(ctx, pod, account, with.ServiceAccountTokenAudience); err != nil {
		return caller{}, false, fmt.Errorf("request a token of its ServiceAccount %s for audience %q: %w",
			name, with.ServiceAccountTokenAudience, err)
	}
	return who, true, who.name()
}

// name makes the caller's key (kubelet: generateServiceAccountCacheKey).
func (c *caller) name() error {
	parts := []any{c.account, c.annotations}
	if c.alone {
		parts = append(parts, sha256.Sum256([]byte(c.token)))
	}
	key, err := json.Marshal(parts)
	c.key = string(key)
	return err
}

// refuses is an error for an answer that is the caller's own token and would be given to other
// pods, too.
func (c *caller) refuses(response *credentialproviderv1.CredentialProviderResponse) error {
	for _, auth := range response.Auth {
		if c.token != "" && !c.alone && auth.Password == c.token {
			return errEcho
		}
	}
	return nil
}

// token is one of a ServiceAccount that is bound to a pod. One that is at hand serves until it
// is due, or cannot be renewed, as long as it is good.
func (a *accounts) token(
	ctx context.Context, pod *corev1.Pod, account *corev1.ServiceAccount, audience string,
) (string, error) {
	key, now := tokenKey{pod.UID, account.UID, audience}, time.Now()
	a.mu.Lock()
	had := a.tokens[key]
	a.mu.Unlock()
	if now.Before(had.renew) {
		return had.value, nil
	}
	request := &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: account.UID},
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			},
		},
	}
	reply, err := retried(ctx, func(ctx context.Context) (*authenticationv1.TokenRequest, error) {
		return a.client.ServiceAccounts(pod.Namespace).CreateToken(ctx, account.Name, request, metav1.CreateOptions{})
	})
	if err != nil {
		if now.Before(had.until) {
			log.G(ctx).WithError(err).WithField("pod", pod.Namespace+"/"+pod.Name).Warn(
				"the token for credential providers is not renewed yet",
			)
			return had.value, nil
		}
		return "", err
	}
	until := reply.Status.ExpirationTimestamp.Time
	a.keep(key, token{value: reply.Status.Token, renew: now.Add(min(until.Sub(now)/5*4, maxTokenAge)), until: until}, now)
	return reply.Status.Token, nil
}

// keep keeps a token, and forgets those whose time is over.
func (a *accounts) keep(key tokenKey, t token, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for old, t := range a.tokens {
		if !now.Before(t.until) {
			delete(a.tokens, old)
		}
	}
	a.tokens[key] = t
}

// retried asks the API server, for a second again while it refuses.
func retried[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for wait := refusedFirst; ; wait *= 2 {
		reply, err := ask(ctx)
		if !apierrors.IsForbidden(err) || wait > refusedLast || pause.For(ctx, wait) != nil {
			return reply, err
		}
	}
}
