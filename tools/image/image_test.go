package main

import (
	"archive/tar"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestTheArchiveIsOneNamedIndexOfAllPlatforms(t *testing.T) {
	path, told := made(t, options{name: "docker.io/example/burstlet:v1"}, testRelease())
	top := unpacked(t, path)
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	index, descriptor := inner(t, top)
	if d := cmp.Diff(map[string]string{
		"io.containerd.image.name":          "docker.io/example/burstlet:v1",
		"org.opencontainers.image.ref.name": "v1",
	}, descriptor.Annotations); d != "" {
		t.Error(d)
	}
	if descriptor.MediaType != types.OCIImageIndex {
		t.Errorf("the index is %s", descriptor.MediaType)
	}
	images := imagesOf(t, index)
	if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, both) {
		t.Errorf("platforms %q", got)
	}
	for _, want := range []string{digestOf(t, index), path +
		" holds docker.io/example/burstlet:v1", "linux/arm64 sha256:"} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, without %s", told, want)
		}
	}
	if got := string(entries(t, path)["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("the layout is %s", got)
	}
}

func TestWithoutANameTheArchiveHasThatOfTheRelease(t *testing.T) {
	path, _ := made(t, options{}, testRelease())
	_, descriptor := inner(t, unpacked(t, path))
	if got := descriptor.Annotations["io.containerd.image.name"]; got != "ghcr.io/burstlet/burstlet:v1.2.3" {
		t.Errorf("the name is %s", got)
	}
}

func TestEachImageRunsBurstletAsAUserWithoutRights(t *testing.T) {
	path, _ := made(t, options{}, testRelease())
	index, _ := inner(t, unpacked(t, path))
	wantLabels := map[string]string{
		"org.opencontainers.image.title":       "burstlet",
		"org.opencontainers.image.description": "A virtual kubelet that runs pods on hosts over SSH and on AWS Fargate",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.revision":    "0123456789abcdef",
		"org.opencontainers.image.source":      "https://github.com/burstlet/burstlet",
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
	if manifest, err := index.IndexManifest(); err != nil || !maps.Equal(manifest.Annotations, wantLabels) {
		t.Errorf("the index has the annotations %v, %v", manifest.Annotations, err)
	}
	for platform, image := range imagesOf(t, index) {
		got, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if at := got.OS + "/" + got.Architecture; at != platform {
			t.Errorf("the image of %s is for %s", platform, at)
		}
		if !got.Created.Equal(time.Unix(1_700_000_000, 0)) {
			t.Errorf("it is of %v", got.Created)
		}
		if d := cmp.Diff(v1.Config{
			User: "65532:65532", Env: []string{"PATH=/bin:/"}, Entrypoint: []string{"/bin/burstlet"}, Cmd: []string{"run"},
			WorkingDir: "/", Labels: wantLabels,
		}, got.Config); d != "" {
			t.Errorf("%s: %s", platform, d)
		}
		manifest, err := image.Manifest()
		if err != nil || manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON {
			t.Errorf("manifest %+v, %v", manifest, err)
		}
		for _, layer := range manifest.Layers {
			if layer.MediaType != types.OCILayer {
				t.Errorf("layer %s is %s", layer.Digest, layer.MediaType)
			}
		}
	}
}

func TestTheImageHoldsNothingButItsPrograms(t *testing.T) {
	path, _ := made(t, options{}, testRelease())
	index, _ := inner(t, unpacked(t, path))
	want := map[string]int64{
		"/bin": 0o755, "/bin/burstlet": 0o755, "/burstlet-task": 0o755,
		"/etc": 0o755, "/etc/passwd": 0o644, "/etc/group": 0o644,
		"/etc/ssl": 0o755, "/etc/ssl/certs": 0o755, "/etc/ssl/certs/ca-certificates.crt": 0o644,
		"/home": 0o755, "/home/nonroot": 0o755,
	}
	for platform, image := range imagesOf(t, index) {
		got := map[string]int64{}
		for name, header := range contentOf(t, image) {
			// All bits: setuid, setgid and sticky ones too.
			got[name] = header.Mode
			if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir {
				t.Errorf("%s is of type %q", name, header.Typeflag)
			}
			if header.Uid != 0 || header.Gid != 0 || len(header.PAXRecords) > 0 {
				t.Errorf("%s belongs to %d:%d and has %v", name, header.Uid, header.Gid, header.PAXRecords)
			}
			if !header.ModTime.Equal(testRelease().created) {
				t.Errorf("%s is of %v", name, header.ModTime)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", platform, d)
		}
	}
}

func TestTheSameInputsGiveTheSameArchive(t *testing.T) {
	read := func(rel release) (archive []byte, index v1.ImageIndex) {
		path, _ := made(t, options{name: "registry.burstlet.test/burstlet:1"}, rel)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		index, _ = inner(t, unpacked(t, path))
		return content, index
	}
	first, index := read(testRelease())
	second, again := read(testRelease())
	if digestOf(t, index) != digestOf(t, again) || !slices.Equal(first, second) {
		t.Error("two builds differ")
	}
	other := testRelease()
	other.version = "v1.2.4"
	_, next := read(other)
	if digestOf(t, index) == digestOf(t, next) {
		t.Error("another version has the same digest")
	}
	for platform, image := range imagesOf(t, index) {
		if !slices.Equal(layersOf(t, image), layersOf(t, imagesOf(t, next)[platform])) {
			t.Errorf("%s: the same programs are other layers in another version", platform)
		}
	}
}

func TestRootsAreThoseThatAWSNeeds(t *testing.T) {
	names := map[string]bool{}
	rest := roots()
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		names[cert.Subject.CommonName] = true
	}
	for _, want := range []string{
		"Amazon Root CA 1", "Amazon Root CA 2", "Amazon Root CA 3", "Amazon Root CA 4",
		"Starfield Services Root Certificate Authority - G2", "ISRG Root X1",
	} {
		if !names[want] {
			t.Errorf("%s is missing", want)
		}
	}
	if len(rest) > 0 || len(names) < 100 {
		t.Errorf("%d CAs, and %d bytes that are none", len(names), len(rest))
	}
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	broken := errors.New("it does not compile")
	dir := t.TempDir()
	o := options{out: filepath.Join(dir, "image.tar"), version: "v1", platforms: both}
	built := 0
	err := o.run(t.Context(), t.Output(), testRelease(), func(context.Context, program, string) ([]byte, error) {
		if built++; built == 3 {
			return nil, broken
		}
		return []byte("program"), nil
	})
	if !errors.Is(err, broken) || built != 3 {
		t.Errorf("after %d: %v", built, err)
	}
	indexes, err := buildIndexes(t.Context(), testRelease(), both, fakeBuild, mainKind)
	if err != nil {
		t.Fatal(err)
	}
	tag := name.MustParseReference("registry.burstlet.test/burstlet:1").(name.Tag)
	if err := writeArchive(o.out, unreadable{indexes[0]}, tag); !errors.Is(err, errUnreadable) {
		t.Errorf("error is %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

var errUnreadable = errors.New("unreadable")

// unreadable is an index whose images cannot be read.
type (
	unreadable struct{ anyIndex }
	anyIndex   = v1.ImageIndex // it has a method of its own name
)

func (unreadable) Image(v1.Hash) (v1.Image, error) { return nil, errUnreadable }

func TestWhatCannotBeIsRefusedBeforeABuild(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    options
		err  string
	}{
		{"nothing to do", options{}, "--out or --push is needed"},
		{"no registry", options{out: "x", name: "burstlet:v1"}, `the name "burstlet:v1" is not REGISTRY/REPOSITORY:TAG`},
		{"no tag", options{push: []string{"registry.burstlet.test/burstlet"}}, "is not REGISTRY/REPOSITORY:TAG"},
		{"no version that is a tag", options{out: "x", version: "v1+2"}, "is not REGISTRY/REPOSITORY:TAG"},
		{"no platform", options{out: "x", platforms: []string{}}, "no platform is named"},
		{
			"unknown platform",
			options{out: "x", platforms: []string{"linux/riscv64"}},
			`there is no burstlet for platform "linux/riscv64"`,
		},
		{"another system", options{out: "x", platforms: []string{"darwin/arm64"}}, "there is no burstlet"},
		{"a variant", options{out: "x", platforms: []string{"linux/arm64/v9"}}, "there is no burstlet"},
		{"twice", options{out: "x", platforms: []string{"linux/arm64", "linux/arm64"}}, "is named twice"},
		{"not a platform", options{out: "x", platforms: []string{"a/b/c/d"}}, `read platform "a/b/c/d"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.platforms == nil {
				tt.o.platforms = both
			}
			if tt.o.version == "" {
				tt.o.version = "v1"
			}
			wantError(t, tt.o.run(t.Context(), t.Output(), testRelease(), func(
				context.Context, program, string,
			) ([]byte, error) {
				t.Error("a program was built")
				return nil, nil
			}), tt.err)
		})
	}
}
