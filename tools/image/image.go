package main

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
)

// user runs burstlet: a number, so that runAsNonRoot can tell that it is not root.
const user = "65532:65532"

// Names of that user, for what asks for them ("doctor", a runtime that sets HOME).
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// Keys of labels and annotations (OCI image specification, "Pre-Defined
// Annotation Keys").
const (
	annotationTitle       = "org.opencontainers.image.title"
	annotationDescription = "org.opencontainers.image.description"
	annotationVersion     = "org.opencontainers.image.version"
	annotationRevision    = "org.opencontainers.image.revision"
	annotationSource      = "org.opencontainers.image.source"
	annotationLicenses    = "org.opencontainers.image.licenses"
	annotationRefName     = "org.opencontainers.image.ref.name"
)

// buildIndexes compiles for platforms ("linux/arm64") and makes an image of each kind for
// each: an index for each kind.
func buildIndexes(
	ctx context.Context, rel release, platforms []string, compile compiler, kinds ...kind,
) ([]v1.ImageIndex, error) {
	parsed, err := parsePlatforms(platforms)
	if err != nil {
		return nil, err
	}
	base, err := baseLayer(rel)
	if err != nil {
		return nil, err
	}
	adds := make([][]mutate.IndexAddendum, len(kinds))
	var packing errgroup.Group
	for i, platform := range parsed {
		// A build uses all cores, and goes on while what came before is packed.
		content, err := compileAll(ctx, platform, compile, kinds)
		if err != nil {
			return nil, errors.Join(err, packing.Wait())
		}
		for k := range kinds {
			if i == 0 {
				adds[k] = make([]mutate.IndexAddendum, len(parsed))
			}
			packing.Go(func() error {
				image, err := newImage(rel, kinds[k], platform, base, content)
				adds[k][i] = mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}}
				return err
			})
		}
	}
	if err := packing.Wait(); err != nil {
		return nil, err
	}
	var out []v1.ImageIndex
	for k := range kinds {
		index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), adds[k]...)
		annotated, ok := mutate.Annotations(index, labels(rel, kinds[k])).(v1.ImageIndex)
		if !ok {
			return nil, fmt.Errorf("annotate the index: it became %T", index)
		}
		out = append(out, annotated)
	}
	return out, nil
}

func compileAll(ctx context.Context, platform v1.Platform, compile compiler, kinds []kind) (map[program][]byte, error) {
	content := map[program][]byte{}
	for _, k := range kinds {
		for _, p := range k.programs {
			if content[p] != nil {
				continue
			}
			var err error
			if content[p], err = compile(ctx, p, platform.Architecture); err != nil {
				return nil, err
			}
		}
	}
	return content, nil
}

func parsePlatforms(platforms []string) ([]v1.Platform, error) {
	var out []v1.Platform
	seen := map[string]bool{}
	for _, text := range platforms {
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, fmt.Errorf("read platform %q: %w", text, err)
		}
		if _, known := machines[p.Architecture]; !known || p.OS != "linux" || p.String() != "linux/"+p.Architecture {
			return nil, fmt.Errorf("there is no burstlet for platform %q: it is linux/amd64 or linux/arm64", text)
		}
		if seen[text] {
			return nil, fmt.Errorf("platform %q is named twice", text)
		}
		seen[text] = true
		out = append(out, *p)
	}
	if len(out) == 0 {
		return nil, errors.New("no platform is named")
	}
	return out, nil
}

// baseLayer is what does not depend on the platform.
func baseLayer(rel release) (v1.Layer, error) {
	return newLayer(rel.created,
		file{path: "etc/group", mode: 0o644, content: []byte(group)},
		file{path: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		file{path: rootsPath, mode: 0o644, content: roots()},
		file{path: "home/nonroot", mode: 0o755},
	)
}

func newImage(rel release, k kind, platform v1.Platform, base v1.Layer, content map[program][]byte) (v1.Image, error) {
	created := v1.Time{Time: rel.created}
	blank := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(blank, &v1.ConfigFile{
		Architecture: platform.Architecture,
		OS:           platform.OS,
		Created:      created,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			Env:        []string{"PATH=/bin:/"},
			Entrypoint: []string{"/" + k.entrypoint.path},
			Cmd:        k.cmd,
			WorkingDir: "/",
			Labels:     labels(rel, k),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	adds := []mutate.Addendum{{Layer: base, History: v1.History{Created: created, CreatedBy: "users, CAs"}}}
	for _, p := range k.programs {
		layer, err := newLayer(rel.created, file{path: p.path, mode: 0o755, content: content[p]})
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "/" + p.path}})
	}
	if image, err = mutate.Append(image, adds...); err != nil {
		return nil, fmt.Errorf("put the layers into the image: %w", err)
	}
	return image, nil
}

// labels are those of the image, and the annotations of the index.
func labels(rel release, k kind) map[string]string {
	out := map[string]string{
		annotationTitle:       k.title,
		annotationDescription: k.description,
		annotationVersion:     rel.version,
		annotationSource:      "https://github.com/burstlet/burstlet",
		annotationLicenses:    "Apache-2.0",
	}
	if rel.revision != "" {
		out[annotationRevision] = rel.revision
	}
	return out
}
