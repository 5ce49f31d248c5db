package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is one file of a layer; root owns it, everybody may read it.
type file struct {
	// path in the image, without a leading slash.
	path string
	mode int64
	// content; nil makes it a directory.
	content []byte
}

// newLayer packs files and the directories above them, all of one time. Files of a
// directory are given one after the other, so that it is named once.
func newLayer(created time.Time, files ...file) (v1.Layer, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	w := layerWriter{tar: tar.NewWriter(zip), created: created, made: map[string]bool{".": true}}
	for _, f := range files {
		if err := w.add(f); err != nil {
			return nil, fmt.Errorf("write /%s into the layer: %w", f.path, err)
		}
	}
	if err := w.tar.Close(); err != nil {
		return nil, fmt.Errorf("end layer: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("end layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read layer: %w", err)
	}
	return layer, nil
}

type layerWriter struct {
	tar     *tar.Writer
	created time.Time
	made    map[string]bool
}

func (w *layerWriter) add(f file) error {
	if err := w.parents(f.path); err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content))}
	if f.content == nil {
		header.Typeflag, header.Name = tar.TypeDir, f.path+"/"
		w.made[f.path] = true
	}
	if err := w.header(header); err != nil {
		return err
	}
	_, err := w.tar.Write(f.content)
	return err
}

// parents writes the directories above a path that are not there yet.
func (w *layerWriter) parents(name string) error {
	parent := path.Dir(name)
	if w.made[parent] {
		return nil
	}
	if err := w.parents(parent); err != nil {
		return err
	}
	w.made[parent] = true
	return w.header(&tar.Header{Typeflag: tar.TypeDir, Name: parent + "/", Mode: 0o755})
}

func (w *layerWriter) header(h *tar.Header) error {
	h.ModTime, h.Format = w.created, tar.FormatUSTAR
	return w.tar.WriteHeader(h)
}
