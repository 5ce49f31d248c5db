// Package imageref reads the names of images. It imports the contract and nothing else
// of the project.
package imageref

import (
	"regexp"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// The grammar of image references (distribution/reference), part by part.
var (
	referenceDomain = regexp.MustCompile(
		`^(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])` +
			`(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*(?::[0-9]+)?$`,
	)
	referenceIPv6      = regexp.MustCompile(`^\[[a-fA-F0-9:]+\](?::[0-9]+)?$`)
	referenceComponent = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	referenceTag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	referenceDigest    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$`)
	referenceID        = regexp.MustCompile(`^(?:sha256:)?[0-9a-f]{64}$`)
)

// repositoryMax is the longest name of a repository.
const repositoryMax = 255

// Normalize checks an image's name and adds the tag that it leaves out. Errors:
// Invalid for a name that no registry can have.
func Normalize(image string) (string, error) {
	if referenceID.MatchString(image) {
		return image, nil
	}
	name, digest, hasDigest := strings.Cut(image, "@")
	tag, hasTag := "", false
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag, hasTag = name[:i], name[i+1:], true
	}
	switch {
	case !validRepository(name):
		return "", backend.Errorf(
			backend.ErrInvalid, "%q is not an image name: the repository is malformed (lower case only)", image,
		)
	case hasTag && !referenceTag.MatchString(tag):
		return "", backend.Errorf(backend.ErrInvalid, "%q is not an image name: the tag is malformed", image)
	case hasDigest && !referenceDigest.MatchString(digest):
		return "", backend.Errorf(backend.ErrInvalid, "%q is not an image name: the digest is malformed", image)
	case hasTag || hasDigest:
		return image, nil
	default:
		return image + ":latest", nil
	}
}

func validRepository(name string) bool {
	if name == "" || len(name) > repositoryMax {
		return false
	}
	first, rest, ok := strings.Cut(name, "/")
	if ok && isDomain(first) {
		if !referenceDomain.MatchString(first) && !referenceIPv6.MatchString(first) {
			return false
		}
		name = rest
	}
	for part := range strings.SplitSeq(name, "/") {
		if !referenceComponent.MatchString(part) {
			return false
		}
	}
	return true
}

// isDomain tells a registry from the first part of a repository on Docker Hub.
func isDomain(first string) bool {
	return strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first
}
