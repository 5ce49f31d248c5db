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

// registries is Configs at the images' own registries. A tag is asked for its digest by
// HEAD, which registries that count pulls do not count (Docker Hub, "Usage and limits"). Of
// a digest that is not known two things are fetched: its manifest, by way of an index for
// its machine, and its config.
type registries struct {
	client http.RoundTripper
	// mirrors are as configured: what one says need not be what another does.
	mirrors map[string]*url.URL
	known   *Known
	// pace is polite to registries: a Deployment has one image, a cluster some.
	pace *rate.Limiter
	// ecr logs in to private ECR where the pod brings no login.
	ecr *ecrLogins
}

// NewRegistries is Configs at the images' own registries. mirrors are endpoints by the
// registry's host, as a pod names it; login is asked for logins to private ECR where the
// pod brings none; what known holds is not asked for (nil: nothing).
func NewRegistries(mirrors map[string]string, login ECRAPI, known *Known) (Configs, error) {
	m, err := ParseMirrors(mirrors)
	if err != nil {
		return nil, err
	}
	if known == nil {
		known = NewKnown()
	}
	return &registries{
		client: mirrored{registry.DefaultTransport, m}, mirrors: m, known: known,
		pace: rate.NewLimiter(20, 20), ecr: newECRLogins(login),
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

func (*registries) remembersTags() {}

// Config implements Configs.
func (r *registries) Config(
	ctx context.Context, image, arch string, logins []backend.Credential,
) (taskdef.ImageConfig, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("%w: %w", errImageName, err)
	}
	key := imageKey(ref.Name(), "", logins)
	if to := r.mirrors[ref.Context().RegistryStr()]; to != nil {
		key += "\n" + to.String()
	}
	_, exact := ref.(name.Digest)
	var found taskdef.ImageConfig
	var fetched bool
	digest, err := r.known.resolve(ctx, key, exact, func() (string, error) {
		if err := r.pace.Wait(ctx); err != nil {
			return "", err
		}
		var digest string
		err := r.withLogins(ctx, ref, logins, func(options []registry.Option) (err error) {
			digest, found, fetched, err = r.ask(ref, arch, options)
			return err
		})
		return digest, err
	})
	if err != nil || fetched {
		return found, err
	}
	if config, ok := r.known.config(digest, arch); ok {
		return config, nil
	}
	err = r.known.inTurn(ctx, key, func() error { // another machine's, or forgotten
		var ok bool
		if found, ok = r.known.config(digest, arch); ok {
			return nil
		}
		if err := r.pace.Wait(ctx); err != nil {
			return err
		}
		return r.withLogins(ctx, ref, logins, func(options []registry.Option) (err error) {
			found, err = r.fetch(ref.Context().Digest(digest), arch, options)
			return err
		})
	})
	return found, err
}

// ask resolves a name, and fetches what the image says where that is not known.
func (r *registries) ask(
	ref name.Reference, arch string, options []registry.Option,
) (string, taskdef.ImageConfig, bool, error) {
	digest := ref.Identifier()
	_, exact := ref.(name.Digest)
	_, known := r.known.config(digest, arch)
	if !exact || known { // also whether these logins are let in
		var err error
		if digest, err = digestOf(ref, options); err != nil {
			return "", taskdef.ImageConfig{}, false, err
		}
	}
	if config, ok := r.known.config(digest, arch); ok {
		return digest, config, true, nil
	}
	config, err := r.fetch(ref.Context().Digest(digest), arch, options)
	return digest, config, true, err
}

// digestOf asks for a digest by HEAD, and by GET where a registry does not have that.
func digestOf(ref name.Reference, options []registry.Option) (string, error) {
	head, err := registry.Head(ref, options...)
	if err == nil {
		return head.Digest.String(), nil
	}
	var answer *transport.Error
	var asked *url.Error
	switch {
	case errors.As(err, &asked):
		return "", err
	case errors.As(err, &answer) && answer.StatusCode != http.StatusBadRequest &&
		answer.StatusCode != http.StatusMethodNotAllowed && answer.StatusCode != http.StatusNotImplemented:
		return "", err
	}
	got, err := registry.Get(ref, options...)
	if err != nil {
		return "", err
	}
	return got.Digest.String(), nil
}

// withLogins asks with each login in turn until one is let in. Errors are in the words of a
// container runtime.
func (r *registries) withLogins(
	ctx context.Context, ref name.Reference, logins []backend.Credential, ask func([]registry.Option) error,
) error {
	if region := taskdef.ECRRegion(ref.Name()); region != "" && len(logins) == 0 {
		login, err := r.ecr.login(ctx, region)
		if err != nil {
			return err
		}
		logins = []backend.Credential{login}
	}
	var last error
	for _, login := range authenticators(logins) {
		err := ask([]registry.Option{registry.WithContext(ctx), registry.WithAuth(login), registry.WithTransport(r.client)})
		if err == nil {
			return nil
		}
		if last = runtimeError(ref, err); !refusedLogin(err) {
			break
		}
	}
	return last
}

// fetch fetches what an image says of itself on a machine, and keeps it.
func (r *registries) fetch(ref name.Digest, arch string, options []registry.Option) (taskdef.ImageConfig, error) {
	image, err := registry.Image(
		ref, append(options, registry.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))...,
	)
	if err != nil {
		return taskdef.ImageConfig{}, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return taskdef.ImageConfig{}, err
	}
	c := file.Config
	config := taskdef.ImageConfig{Entrypoint: c.Entrypoint, Cmd: c.Cmd, User: c.User, Env: c.Env, StopSignal: c.StopSignal}
	r.known.keep(ref.DigestStr(), arch, config)
	return config, nil
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
