package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// imagesView lends backend.Images.
type imagesView struct{ *view }

// Find looks into the image store.
func (v imagesView) Find(ctx context.Context, image string) (string, error) {
	op := fmt.Sprintf("find image %q", image)
	if err := v.request(ctx, op); err != nil {
		return "", err
	}
	id, ok := v.stored(image)
	if !ok {
		return "", backend.Errorf(backend.ErrNotFound, "%s: not on the remote", op)
	}
	if err := v.reply(ctx, op); err != nil {
		return "", err
	}
	return id, nil
}

func (v imagesView) stored(image string) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, ok := v.images[normalize(image)]
	return id, ok
}

// Pull puts the image into the store. Every name that is valid exists, but for
// those with "missing" in the last element of their repository. Credentials are
// not looked at.
func (v imagesView) Pull(ctx context.Context, image string, _ []backend.Credential) (backend.PulledImage, error) {
	op := fmt.Sprintf("pull image %q", image)
	if !imageName.MatchString(image) {
		return backend.PulledImage{}, backend.Errorf(backend.ErrInvalid, "%s: not a valid image name", op)
	}
	if err := v.request(ctx, op); err != nil {
		return backend.PulledImage{}, err
	}
	if err := wait(ctx, v.cfg.Latency.Pull, op); err != nil {
		return backend.PulledImage{}, err
	}
	if isMissing(image) {
		return backend.PulledImage{}, pullError(image)
	}
	id := imageID(image)
	if err := v.store(image, id); err != nil {
		return backend.PulledImage{}, err
	}
	if err := v.reply(ctx, op); err != nil {
		return backend.PulledImage{}, err
	}
	return backend.PulledImage{ID: id, Size: v.sizeOf(normalize(image))}, nil
}

// imageName is the grammar of image references: host, path, tag, digest.
var imageName = regexp.MustCompile(`^(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*` +
	`(?::\w[\w.-]{0,127})?(?:@sha256:[a-f0-9]{64})?$`)

// repository is an image's name without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

// normalize gives a name without tag and digest the tag latest.
func normalize(image string) string {
	if image == repository(image) {
		return image + ":latest"
	}
	return image
}

func isMissing(image string) bool {
	return strings.Contains(path.Base(repository(image)), "missing")
}

// pullError is what a registry's 404 looks like. It has no class: it may be
// pushed a moment later.
func pullError(image string) error {
	return fmt.Errorf("pull image %q: failed to resolve reference: not found", image)
}

func imageID(image string) string {
	sum := sha256.Sum256([]byte(normalize(image)))
	return "sha256:" + hex.EncodeToString(sum[:])
}
