package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

var both = []string{"linux/amd64", "linux/arm64"}

// testRelease is one whose image anybody can make again.
func testRelease() release {
	return release{version: "v1.2.3", revision: "0123456789abcdef", created: time.Unix(1_700_000_000, 0).UTC()}
}

// fakeBuild stands in for the Go compiler.
func fakeBuild(_ context.Context, p program, goarch string) ([]byte, error) {
	return []byte("the program " + p.path + " for " + goarch), nil
}

// made builds with fake programs and returns the archive's path and what was told.
func made(t *testing.T, o options, rel release) (path, told string) {
	t.Helper()
	var out bytes.Buffer
	o.out = filepath.Join(t.TempDir(), "bin", "image.tar")
	if o.platforms == nil {
		o.platforms = both
	}
	o.version = rel.version
	if err := o.run(t.Context(), &out, rel, fakeBuild); err != nil {
		t.Fatal(err)
	}
	return o.out, out.String()
}

// unpacked reads an archive as others do: as a layout in a directory.
func unpacked(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, content := range entries(t, path) {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func entries(t *testing.T, path string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name] != nil {
			t.Errorf("%s is there twice", header.Name)
		}
		if out[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// inner is the index of the platforms, which the archive names.
func inner(t *testing.T, top v1.ImageIndex) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive names %d things", len(manifest.Manifests))
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0]
}

// imagesOf are the images of an index by platform.
func imagesOf(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if m.Platform == nil {
			t.Fatalf("image %s has no platform", m.Digest)
		}
		if out[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// contentOf lists the file system of an image.
func contentOf(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	out := map[string]*tar.Header{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out["/"+strings.TrimSuffix(header.Name, "/")] = header
	}
}

func layersOf(t *testing.T, image v1.Image) []string {
	t.Helper()
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, layer := range manifest.Layers {
		out = append(out, layer.Digest.String())
	}
	return out
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("error: %v", err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("error is %v, not %q", err, text)
	}
}
