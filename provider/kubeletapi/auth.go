package kubeletapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// The kubelet's own defaults for what it remembers of the API server's answers.
const (
	tokenTTL  = 2 * time.Minute
	allowTTL  = 5 * time.Minute
	denyTTL   = 30 * time.Second
	reviewMax = 10 * time.Second
)

// auth decides who a caller is and what the caller may do.
type auth struct {
	node  string
	authn authenticator.Request
	authz authorizer.Authorizer
}

func newAuth(cfg Config, ca *clientCA) (*auth, error) {
	// Fewer and shorter tries than an API server makes: a caller waits.
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
	authnConfig := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		ClientCertificateCAContentProvider: ca,
		CacheTTL:                           tokenTTL,
		WebhookRetryBackoff:                backoff,
		TokenAccessReviewTimeout:           reviewMax,
	}
	if !cfg.DisableTokenReview {
		authnConfig.TokenAccessReviewClient = cfg.Client.AuthenticationV1()
	}
	authn, _, err := authnConfig.New()
	if err != nil {
		return nil, fmt.Errorf("configure authentication of the kubelet API: %w", err)
	}
	if cfg.AlwaysAllow {
		return &auth{cfg.NodeName, authn, authorizerfactory.NewAlwaysAllowAuthorizer()}, nil
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: cfg.Client.AuthorizationV1(),
		AllowCacheTTL:             allowTTL,
		DenyCacheTTL:              denyTTL,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("configure authorization of the kubelet API: %w", err)
	}
	return &auth{cfg.NodeName, authn, authz}, nil
}

// wrap lets only those requests through that are authenticated and allowed.
func (a *auth) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := a.authn.AuthenticateRequest(r)
		if err != nil {
			log.G(r.Context()).WithError(err).Debug("kubelet API caller not authenticated")
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		attrs := attributes(a.node, who.User, r)
		for _, attr := range attrs {
			decision, _, err := a.authz.Authorize(r.Context(), attr)
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
