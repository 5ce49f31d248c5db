package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// annotationContainerdName is the full name that containerd gives an imported
// image (its package images, AnnotationImageName).
const annotationContainerdName = "io.containerd.image.name"

// writeArchive writes an OCI image layout as one tar file, whole or not at all.
func writeArchive(path string, index v1.ImageIndex, tag name.Tag) (err error) {
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write image archive %s: %w", path, errors.Join(err, os.Remove(out.Name())))
		}
	}()
	if err := errors.Join(archive(out, index, tag), out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

func archive(out io.Writer, index v1.ImageIndex, tag name.Tag) error {
	w := &layoutWriter{tar: tar.NewWriter(out), made: map[string]bool{}}
	if err := w.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			annotationContainerdName: tag.String(), // as given: docker.io is not index.docker.io there
			annotationRefName:        tag.TagStr(),
		}},
	})
	top, err := named.RawManifest()
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if err := w.file("index.json", top); err != nil {
		return err
	}
	if err := w.index(index); err != nil {
		return err
	}
	return w.tar.Close()
}

// layoutWriter writes the files of a layout, each blob once.
type layoutWriter struct {
	tar  *tar.Writer
	made map[string]bool
}

func (w *layoutWriter) index(index v1.ImageIndex) error {
	if err := w.manifest(index); err != nil {
		return err
	}
	content, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	for _, m := range content.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return fmt.Errorf("read image %s: %w", m.Digest, err)
		}
		if err := w.image(image); err != nil {
			return fmt.Errorf("image %s: %w", m.Digest, err)
		}
	}
	return nil
}

func (w *layoutWriter) image(image v1.Image) error {
	if err := w.manifest(image); err != nil {
		return err
	}
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("read layers: %w", err)
	}
	for _, layer := range append([]v1.Layer{config}, layers...) {
		if err := w.layer(layer); err != nil {
			return err
		}
	}
	return nil
}

func (w *layoutWriter) manifest(of partial.WithRawManifest) error {
	content, err := of.RawManifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	return w.blob(digest, int64(len(content)), bytes.NewReader(content))
}

func (w *layoutWriter) layer(layer v1.Layer) (err error) {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("read layer: %w", err)
	}
	size, err := layer.Size()
	if err != nil {
		return fmt.Errorf("read layer %s: %w", digest, err)
	}
	content, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("read layer %s: %w", digest, err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return w.blob(digest, size, content)
}

func (w *layoutWriter) blob(digest v1.Hash, size int64, content io.Reader) error {
	path := "blobs/" + digest.Algorithm + "/" + digest.Hex
	if w.made[path] {
		return nil
	}
	w.made[path] = true
	if err := w.header(path, size); err != nil {
		return err
	}
	if _, err := io.Copy(w.tar, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (w *layoutWriter) file(path string, content []byte) error {
	if err := w.header(path, int64(len(content))); err != nil {
		return err
	}
	if _, err := w.tar.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (w *layoutWriter) header(path string, size int64) error {
	err := w.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
