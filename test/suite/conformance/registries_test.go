package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
)

func TestServedFilesAreFoundByDigest(t *testing.T) {
	const layers = 2
	image, err := random.Image(100, layers)
	if err != nil {
		t.Fatal(err)
	}
	files, err := servedFiles(image)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, file := range files {
		content[strings.TrimPrefix(file.Path, "var/registry/pause/")] = string(file.Content)
	}
	if got := content["manifests/testing"]; got != digest.String() {
		t.Errorf("the tag leads to %q, want %s", got, digest)
	}
	manifest, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := content["manifests/sha256/"+digest.Hex[:2]+"/"+digest.Hex+"/data"]; got != string(manifest) {
		t.Errorf("the manifest is %q", got)
	}
	if want := 1 + 1 + 1 + layers; len(content) != want { // tag, manifest, config
		t.Errorf("%d files, want %d", len(content), want)
	}
}
