package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// registries is Configs at the images' own registries. Of an image two things
// are fetched: its manifest, by way of an index for its machine, and its config.
type registries struct {
	client http.RoundTripper
	// pace is polite to registries: a Deployment has one image, a cluster some.
	pace *rate.Limiter
	// ecr logs in to private ECR where the pod brings no login.
	ecr *ecrLogins
}

// NewRegistries is Configs at the images' own registries. mirrors are endpoints by the
// registry's host, as a pod names it; login is asked for logins to private ECR where the
// pod brings none.
func NewRegistries(mirrors map[string]string, login ECRAPI) (Configs, error) {
	m, err := ParseMirrors(mirrors)
	if err != nil {
		return nil, err
	}
	return &registries{
		client: mirrored{registry.DefaultTransport, m}, pace: rate.NewLimiter(20, 20), ecr: newECRLogins(login),
	}, nil
}

// ParseMirrors reads endpoints, by the registry's host: URLs, or hosts that are asked by
// HTTPS. It is an error if one has a path or a user, which is not quoted.
func ParseMirrors(mirrors map[string]string) (map[string]*url.URL, error) {
	out := map[string]*url.URL{}
	for host, endpoint := range mirrors {
		u, err := ecsconfig.Mirror(endpoint)
		if err != nil {
			return nil, fmt.Errorf("the mirror of %s %w", host, err)
		}
		if host == "docker.io" {
			host = name.DefaultRegistry
		}
		out[host] = u
	}
	return out, nil
}

// mirrored sends the requests to a registry to its mirror.
type mirrored struct {
	inner   http.RoundTripper
	mirrors map[string]*url.URL
}

// RoundTrip implements http.RoundTripper.
func (m mirrored) RoundTrip(r *http.Request) (*http.Response, error) {
	if to := m.mirrors[r.URL.Host]; to != nil {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, to.Host
	}
	return m.inner.RoundTrip(r)
}

// Config implements Configs.
func (r *registries) Config(
	ctx context.Context, image, arch string, logins []backend.Credential,
) (taskdef.ImageConfig, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("%w: %w", errImageName, err)
	}
	if err := r.pace.Wait(ctx); err != nil {
		return taskdef.ImageConfig{}, err
	}
	if region := taskdef.ECRRegion(image); region != "" && len(logins) == 0 {
		login, err := r.ecr.login(ctx, region)
		if err != nil {
			return taskdef.ImageConfig{}, err
		}
		logins = []backend.Credential{login}
	}
	var last error
	for _, login := range authenticators(logins) {
		file, err := fetch(ref, registry.WithContext(ctx), registry.WithAuth(login), registry.WithTransport(r.client),
			registry.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err == nil {
			c := file.Config
			return taskdef.ImageConfig{
				Entrypoint: c.Entrypoint, Cmd: c.Cmd, User: c.User, Env: c.Env, StopSignal: c.StopSignal,
			}, nil
		}
		if last = runtimeError(ref, err); !refusedLogin(err) {
			break
		}
	}
	return taskdef.ImageConfig{}, last
}

func fetch(ref name.Reference, options ...registry.Option) (*v1.ConfigFile, error) {
	image, err := registry.Image(ref, options...)
	if err != nil {
		return nil, err
	}
	return image.ConfigFile()
}

// authenticators are the logins, in turn; without any the registry is asked as
// anyone.
func authenticators(logins []backend.Credential) []authn.Authenticator {
	var out []authn.Authenticator
	for _, l := range logins {
		out = append(out, authn.FromConfig(authn.AuthConfig{
			Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken,
		}))
	}
	if len(out) == 0 {
		out = append(out, authn.Anonymous)
	}
	return out
}

// refusedLogin is true where another login may help.
func refusedLogin(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden)
}

// runtimeError is an error of a registry in the words of a container runtime (containerd:
// "failed to resolve reference"). It says no URL: one may hold a token.
func runtimeError(ref name.Reference, err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err
		}
		return fmt.Errorf("failed to resolve reference %q: %w", ref.Name(), err)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("failed to resolve reference %q: %s: not found", ref.Name(), ref.Name())
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("failed to resolve reference %q: pull access denied, repository does not exist or may "+
			"require authorization: %s",
			ref.Name(), http.StatusText(answer.StatusCode))
	}
	return fmt.Errorf("failed to resolve reference %q: unexpected status from its registry: %d %s", ref.Name(),
		answer.StatusCode, http.StatusText(answer.StatusCode))
}
