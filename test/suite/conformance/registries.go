package conformance

import (
	"context"
	"fmt"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	// upstreamRegistry is the one that the tests' images are named after.
	upstreamRegistry = "registry.k8s.io"
	// agnhost serves what it finds here as a registry of its own, with this one image.
	servedDir   = "var/registry"
	servedImage = "pause"
	servedTag   = "testing"
)

// serveUpstream lets a host pull the images from where they are said to be. It has
// them, but tests of pulling ask again, and on a full disk the node removes what is
// not in use.
func serveUpstream(ctx context.Context, host *remotehost.Host, all map[string]v1.Image) error {
	store := registry.New()
	for name, image := range all {
		if err := store.Push(image, name); err != nil {
			return err
		}
	}
	return host.ServeRegistry(ctx, upstreamRegistry, store)
}

// servedFiles lays an image out for agnhost's fake-registry-server: manifests and
// blobs by their digests, and a tag as a file that holds one.
func servedFiles(image v1.Image) ([]images.File, error) {
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	configDigest, err := image.ConfigName()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	files := []images.File{
		servedFile("manifests", digest, manifest),
		servedFile("blobs", configDigest, config),
		{Path: path.Join(servedDir, servedImage, "manifests", servedTag), Mode: 0o644, Content: []byte(digest.String())},
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("read layers: %w", err)
	}
	for _, layer := range layers {
		file, err := servedLayer(layer)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func servedLayer(layer v1.Layer) (images.File, error) {
	digest, err := layer.Digest()
	if err != nil {
		return images.File{}, fmt.Errorf("read layer: %w", err)
	}
	blob, err := layer.Compressed()
	if err != nil {
		return images.File{}, fmt.Errorf("read layer: %w", err)
	}
	content, err := io.ReadAll(blob)
	if err != nil {
		return images.File{}, fmt.Errorf("read layer: %w", err)
	}
	return servedFile("blobs", digest, content), blob.Close()
}

func servedFile(kind string, digest v1.Hash, content []byte) images.File {
	return images.File{
		Path: path.Join(servedDir, servedImage, kind, digest.Algorithm, digest.Hex[:2], digest.Hex, "data"),
		Mode: 0o644, Content: content,
	}
}
