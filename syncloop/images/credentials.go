package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images/reference"
)

// hubKey is where docker keeps the login of Docker Hub
// ("https://index.docker.io/v1/").
const hubKey = reference.HubLegacy

// Credentials returns the logins that a pod's pull secrets hold for an image, in
// the order in which they are to be tried: longer paths first, then as the pod
// names its secrets (kubelet: credentialprovider.BasicDockerKeyring). Secrets
// that the pod does not name are not looked at. The error tells of secrets that
// cannot be used, by name and without their contents; what the others hold is
// returned all the same.
func Credentials(pod *corev1.Pod, secrets []*corev1.Secret, image string) ([]backend.Credential, error) {
	ref, err := reference.Parse(image)
	if err != nil {
		return nil, backend.Classed(backend.ErrInvalid, err)
	}
	ring := keyring{}
	var errs []error
	for _, named := range pod.Spec.ImagePullSecrets {
		i := slices.IndexFunc(secrets, func(s *corev1.Secret) bool {
			return s != nil && s.Name == named.Name && s.Namespace == pod.Namespace
		})
		if named.Name == "" || i < 0 {
			continue // the caller knows what it could not find
		}
		if err := ring.add(secrets[i]); err != nil {
			errs = append(errs, fmt.Errorf("pull secret %q: %w", named.Name, err))
		}
	}
	return ring.lookup(ref.Repository), errors.Join(errs...)
}

// keyring holds logins by the registry and path that they are for.
type keyring map[string][]backend.Credential

// login is an entry of a docker config. The errors of its decoding could quote
// it, so they are never passed on.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
}

func (k keyring) add(secret *corev1.Secret) error {
	logins, err := decode(secret)
	if err != nil {
		return err
	}
	credentials := map[string]backend.Credential{}
	for address, l := range logins {
		c := backend.Credential{
			Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken,
			Secret: secret.Namespace + "/" + secret.Name + "/" + string(secret.UID),
		}
		if l.Auth != "" {
			var ok bool
			if c.Username, c.Password, ok = decodeAuth(l.Auth); !ok {
				return errors.New("an auth field is not base64 of user:password")
			}
		}
		if c.IdentityToken != "" {
			// Docker keeps a user that means nothing beside a token, and runtimes
			// would prefer it.
			c.Username, c.Password = "", ""
		}
		credentials[address] = c
	}
	for _, address := range slices.Sorted(maps.Keys(credentials)) {
		c := credentials[address]
		var ok bool
		if c.Registry, ok = keyOf(address); !ok {
			err = errors.New("the address of a registry is malformed")
			continue
		}
		k[c.Registry] = append(k[c.Registry], c)
	}
	return err
}

// decode returns the logins of a secret by registry address.
func decode(secret *corev1.Secret) (map[string]login, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]login `json:"auths"`
		}
		if json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config) != nil {
			return nil, fmt.Errorf("%s is not a docker config", corev1.DockerConfigJsonKey)
		}
		return config.Auths, nil
	case corev1.SecretTypeDockercfg:
		var logins map[string]login
		if json.Unmarshal(secret.Data[corev1.DockerConfigKey], &logins) != nil {
			return nil, fmt.Errorf("%s is not a docker config", corev1.DockerConfigKey)
		}
		return logins, nil
	}
	return nil, fmt.Errorf("its type is %q, not %s or %s", secret.Type,
		corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
}

// decodeAuth reads base64 of user:password, padded or not.
func decodeAuth(auth string) (user, password string, ok bool) {
	encoding := base64.RawStdEncoding
	auth = strings.TrimSpace(auth)
	if strings.HasSuffix(auth, "=") {
		encoding = base64.StdEncoding
	}
	data, err := encoding.DecodeString(auth)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(data), ":")
}

// keyOf is what an address of a docker config stands for: host and path, without
// the scheme and the version of the registry's API.
func keyOf(address string) (string, bool) {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	p := u.Path
	if strings.HasPrefix(p, "/v1/") || strings.HasPrefix(p, "/v2/") {
		p = p[len("/v1"):]
	}
	if p == "/" {
		p = ""
	}
	return u.Host + p, true
}

// LoginsFor returns those of a plugin's answer that cover an image, by its full name without
// tag and digest, in the order in which they are to be tried. They are those of a
// ServiceAccount (namespace/name/UID), or without one the node's own. Addresses that are
// malformed cover nothing.
func LoginsFor(repository, account string, logins map[string]backend.Credential) []backend.Credential {
	ring := keyring{}
	for _, address := range slices.Sorted(maps.Keys(logins)) {
		if key, ok := keyOf(address); ok {
			c := logins[address]
			c.Registry, c.Node, c.ServiceAccount = key, account == "", account
			ring[key] = append(ring[key], c)
		}
	}
	return ring.lookup(repository)
}

// MatchesAny is true for an image, by its full name without tag and digest, that one of the
// patterns covers (matchImages of a CredentialProvider).
func MatchesAny(patterns []string, repository string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, repository) })
}

// CheckPattern is an error for what no image matches.
func CheckPattern(pattern string) error {
	if u, err := url.Parse("https://" + pattern); err != nil || u.Host == "" || strings.Contains(pattern, "://") {
		return errors.New("must be a host, perhaps with globs, a port and a path, and no scheme")
	}
	return nil
}

// lookup returns every login whose key covers the repository. That of Docker Hub
// is kept under a name that images do not have, and serves if there is no other.
func (k keyring) lookup(repository string) []backend.Credential {
	var out []backend.Credential
	take := func(key string) {
		for _, c := range k[key] {
			if !slices.ContainsFunc(out, c.SameLogin) {
				out = append(out, c)
			}
		}
	}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(k))) {
		if covers(key, repository) {
			take(key)
		}
	}
	if len(out) == 0 && strings.HasPrefix(repository, reference.Hub+"/") {
		take(hubKey)
	}
	return out
}

// covers is true where key names the repository's host, each part of it perhaps
// a glob, and the beginning of its path.
func covers(key, repository string) bool {
	keyURL, err := url.Parse("https://" + key)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + repository)
	if err != nil {
		return false
	}
	globs, parts := strings.Split(keyURL.Hostname(), "."), strings.Split(target.Hostname(), ".")
	if keyURL.Port() != target.Port() || len(globs) != len(parts) || !strings.HasPrefix(target.Path, keyURL.Path) {
		return false
	}
	for i, glob := range globs {
		if ok, err := path.Match(glob, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
