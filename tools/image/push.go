package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push uploads all platforms with the credentials that this user has for the
// registry, and returns the name by digest.
func push(ctx context.Context, index v1.ImageIndex, tag name.Tag) (string, error) {
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("read index: %w", err)
	}
	err = remote.WriteIndex(tag, index,
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("burstlet-image"))
	if err != nil {
		return "", fmt.Errorf("push %s: %w", tag, err)
	}
	return tag.String() + "@" + digest.String(), nil
}
