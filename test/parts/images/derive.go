package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is one entry of a layer; the directories above it are made.
type File struct {
	// Path is that in the image, without a leading slash.
	Path string
	// Mode holds the permissions, with setuid (04000) and sticky bits.
	Mode int64
	// Content is the file's; with Link or Dir it is not looked at.
	Content []byte
	// Link makes it a symbolic link to there.
	Link string
	// Dir makes it a directory.
	Dir bool
}

// Layer makes a layer of files that root owns. The same files give the same
// digest, in whatever order they come.
func Layer(files ...File) (v1.Layer, error) {
	var out bytes.Buffer
	w := &layerWriter{tar: tar.NewWriter(&out)}
	made := map[string]bool{".": true}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, file := range files {
		w.parents(file.Path, made)
		switch {
		case file.Dir:
			made[file.Path] = true
			w.dir(file.Path, file.Mode)
		case file.Link != "":
			w.link(file.Path, file.Link)
		default:
			w.file(file.Path, file.Mode, file.Content)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	if err := w.tar.Close(); err != nil {
		return nil, fmt.Errorf("end tar: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithCompressedCaching, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return layer, nil
}

// parents writes the directories above a path that are not there yet.
func (w *layerWriter) parents(name string, made map[string]bool) {
	parent := path.Dir(name)
	if made[parent] {
		return
	}
	w.parents(parent, made)
	made[parent] = true
	w.dir(parent, 0o755)
}

// Derive returns the image of [Busybox] with further layers and another
// configuration, whose PATH is the usual one where it has no environment.
func Derive(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	base, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	if len(config.Env) == 0 {
		config.Env = []string{searchPath}
	}
	image, err := build(base, config)
	if err != nil {
		return nil, err
	}
	if image, err = mutate.AppendLayers(image, layers...); err != nil {
		return nil, fmt.Errorf("append image layers: %w", err)
	}
	return image, nil
}
