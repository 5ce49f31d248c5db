package kubeletapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/provider/bound"
)

// The kubelet's own defaults for what it remembers of the API server's answers.
const (
	tokenTTL  = 2 * time.Minute
	allowTTL  = 5 * time.Minute
	denyTTL   = 30 * time.Second
	reviewMax = 10 * time.Second
)

// reviewBackoff are fewer and shorter tries than an API server makes: a caller waits.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
}

// auth decides who a caller is and what the caller may do.
type auth struct {
	node  string
	authn authenticator.Request
	authz authorizer.Authorizer
	// forbidden tells of callers who may not do what they want.
	forbidden forbidden
}

func newAuth(cfg Config, ca *clientCA, b *bounds) (*auth, error) {
	authn, err := newAuthn(cfg, ca, b)
	if err != nil {
		return nil, fmt.Errorf("configure authentication of the kubelet API: %w", err)
	}
	if cfg.AlwaysAllow {
		return &auth{cfg.NodeName, authn, authorizerfactory.NewAlwaysAllowAuthorizer(), newForbidden()}, nil
	}
	client, err := reviewer(cfg)
	if err != nil {
		return nil, err
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             allowTTL,
		DenyCacheTTL:              denyTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("configure authorization of the kubelet API: %w", err)
	}
	return &auth{cfg.NodeName, authn, sharedAuthz{authz, b.authorizations}, newForbidden()}, nil
}

// newAuthn is authenticatorfactory's delegating authenticator, with bounds between its
// parts: on what one address asks for above the cache, and below it on all reviews.
func newAuthn(cfg Config, ca *clientCA, b *bounds) (authenticator.Request, error) {
	ways := []authenticator.Request{x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion)}
	if !cfg.DisableTokenReview {
		client, err := reviewer(cfg)
		if err != nil {
			return nil, err
		}
		reviews, err := webhook.NewFromInterface(client.AuthenticationV1(), nil, *reviewBackoff(), reviewMax,
			webhook.AuthenticatorMetrics{
				RecordRequestTotal:   authenticatorfactory.RecordRequestTotal,
				RecordRequestLatency: authenticatorfactory.RecordRequestLatency,
			})
		if err != nil {
			return nil, fmt.Errorf("make token reviews: %w", err)
		}
		tokens := cache.New(boundTokens{reviews, b.tokenReviews}, false, tokenTTL, tokenTTL)
		ways = append(
			ways, sharedAuthn{union.New(bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens)), b.authentications},
		)
	}
	return group.NewAuthenticatedGroupAdder(union.New(ways...)), nil
}

// reviewer returns a client for reviews, with a limit of its own: that callers are
// reviewed must not keep what the node asks for itself, nor one kind of review the other.
func reviewer(cfg Config) (kubernetes.Interface, error) {
	if cfg.Reviews == nil {
		return cfg.Client, nil
	}
	c := rest.CopyConfig(cfg.Reviews)
	c.QPS, c.Burst, c.Timeout = reviewQPS, reviewBurst, reviewMax
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews of the kubelet API's callers: %w", err)
	}
	return client, nil
}

// boundTokens bounds the reviews of tokens.
type boundTokens struct {
	next  authenticator.Token
	slots *bound.Slots
}

// AuthenticateToken implements [authenticator.Token].
func (b boundTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	free, err := b.slots.Take()
	if err != nil {
		return nil, false, err
	}
	defer free()
	return b.next.AuthenticateToken(ctx, token) //nolint:wrapcheck // its caller says what failed
}

// sharedAuthn bounds what callers of one address have authenticated at once: who sends
// token after token leaves others their share of the reviews.
type sharedAuthn struct {
	next   authenticator.Request
	shares *bound.Shares
}

// AuthenticateRequest implements [authenticator.Request].
func (s sharedAuthn) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	free, err := s.shares.Take(r.Context(), bound.Client(r.RemoteAddr))
	if err != nil {
		return nil, false, err
	}
	defer free()
	return s.next.AuthenticateRequest(r) //nolint:wrapcheck // its caller says what failed
}

// sharedAuthz bounds what one user has authorized at once.
type sharedAuthz struct {
	authorizer.Authorizer
	shares *bound.Shares
}

// Authorize implements [authorizer.Authorizer].
func (s sharedAuthz) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	free, err := s.shares.Take(ctx, a.GetUser().GetName())
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	defer free()
	return s.Authorizer.Authorize(ctx, a) //nolint:wrapcheck // its caller says what failed
}

// wrap lets only those requests through that are authenticated and allowed.
func (a *auth) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := a.authn.AuthenticateRequest(r)
		if err != nil {
			log.G(r.Context()).WithError(err).Debug("kubelet API caller not authenticated")
		}
		if isBusy(err) {
			busy(w)
			return
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		r = withCaller(r, who.User.GetName())
		attrs := attributes(a.node, who.User, r)
		for _, attr := range attrs {
			decision, _, err := a.authz.Authorize(r.Context(), attr)
			if isBusy(err) {
				busy(w)
				return
			}
			if err != nil {
				log.G(r.Context()).WithError(err).Warn("cannot ask whether a kubelet API caller is allowed")
				http.Error(w, "Authorization error "+describe(attrs), http.StatusInternalServerError)
				return
			}
			if decision == authorizer.DecisionAllow {
				next.ServeHTTP(w, r)
				return
			}
		}
		a.forbidden.note(r)
		http.Error(w, "Forbidden "+describe(attrs), http.StatusForbidden)
	})
}

// describe says what was asked for, in the kubelet's words.
func describe(attrs []authorizer.AttributesRecord) string {
	subs := make([]string, len(attrs))
	for i, attr := range attrs {
		subs[i] = attr.Subresource
	}
	first := attrs[0]
	return fmt.Sprintf("(user=%s, verb=%s, resource=%s, subresource(s)=%v)",
		first.User.GetName(), first.Verb, first.Resource, subs)
}
