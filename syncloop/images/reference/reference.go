package reference

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Reference is an image name with what it leaves out filled in.
type Reference struct {
	// Repository has the registry: "docker.io/library/nginx".
	Repository string
	// Suffix is ":tag", "@digest" or both; ":latest" where the name has neither.
	Suffix string
}

// String is the name, with nothing left out.
func (r Reference) String() string { return r.Repository + r.Suffix }

// The grammar of image names (github.com/distribution/reference, which the
// kubelet and the runtimes parse them with).
var (
	nameIdentifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
	nameDomain     = regexp.MustCompile(
		`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|` +
			`\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`,
	)
	namePath   = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	nameTag    = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
	nameDigest = regexp.MustCompile(`^(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})$`)
)

// Docker Hub, by its name in references, and by that which logins for it have.
const (
	Hub       = "docker.io"
	HubLegacy = "index.docker.io"
)

const (
	hubLibrary = "library/"
	// pathMax bounds a repository's name, without the registry.
	pathMax = 255
)

var errFormat = errors.New("invalid reference format")

// Parse reads an image name as docker does: what has no registry is of Docker
// Hub, and what has no tag is the latest.
func Parse(image string) (Reference, error) {
	if nameIdentifier.MatchString(image) {
		return Reference{}, unparsed(image,
			fmt.Errorf("invalid repository name (%s), cannot specify 64-byte hexadecimal strings", image))
	}
	domain, path := splitDomain(image)
	path, digest, hasDigest := strings.Cut(path, "@")
	path, tag, hasTag := strings.Cut(path, ":")
	switch {
	case strings.ToLower(path) != path:
		return Reference{}, unparsed(image, fmt.Errorf("%w: repository name (%s) must be lowercase", errFormat, path))
	case !nameDomain.MatchString(domain), !namePath.MatchString(path),
		hasTag && !nameTag.MatchString(tag), hasDigest && !nameDigest.MatchString(digest):
		return Reference{}, unparsed(image, errFormat)
	case len(path) > pathMax:
		return Reference{}, unparsed(image, fmt.Errorf("repository name must not be more than %d characters", pathMax))
	}
	ref := Reference{Repository: domain + "/" + path}
	if hasTag {
		ref.Suffix = ":" + tag
	}
	if hasDigest {
		ref.Suffix += "@" + digest
	}
	if ref.Suffix == "" {
		ref.Suffix = ":latest"
	}
	return ref, nil
}

// splitDomain tells the registry from the repository: a first element is a
// registry if it could not be a name on Docker Hub.
func splitDomain(image string) (domain, path string) {
	first, rest, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		return Hub, hubLibrary + image
	case first == HubLegacy:
		domain, path = Hub, rest
	case first == "localhost", strings.ContainsAny(first, ".:"), strings.ToLower(first) != first:
		domain, path = first, rest
	default:
		domain, path = Hub, image
	}
	if domain == Hub && !strings.Contains(path, "/") {
		path = hubLibrary + path
	}
	return domain, path
}

func unparsed(image string, err error) error {
	return fmt.Errorf("couldn't parse image name %q: %w", image, err)
}
