package images

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// entriesOf lists what an image's file system holds, as mode and name.
func entriesOf(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	entries := map[string]*tar.Header{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries[header.Name] = header
	}
}

func TestDerivedImageHasItsFilesAboveBusybox(t *testing.T) {
	needBusybox(t)
	layer, err := Layer(
		File{Path: "usr/local/bin/tool", Mode: 0o6755, Content: []byte("#!/bin/sh\n")},
		File{Path: "bin/nc", Link: "tool"},
		File{Path: "uploads", Mode: 0o1777, Dir: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	image, err := Derive(v1.Config{User: "1234"}, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != "1234" || !slices.Equal(config.Config.Env, []string{searchPath}) {
		t.Errorf("configuration %+v, %v", config, err)
	}
	entries := entriesOf(t, image)
	if e := entries["usr/local/bin/tool"]; e == nil || e.Mode&0o7777 != 0o6755 {
		t.Errorf("the program is %+v", e)
	}
	if e := entries["usr/local"]; e == nil || e.Typeflag != tar.TypeDir {
		t.Errorf("the directory above is %+v", e)
	}
	if e := entries["bin/nc"]; e == nil || e.Linkname != "tool" {
		t.Errorf("the link is %+v, busybox's own", e)
	}
	if e := entries["uploads"]; e == nil || e.Mode&0o7777 != 0o1777 {
		t.Errorf("the directory is %+v", e)
	}
	if entries["bin/busybox"] == nil {
		t.Error("busybox is not there")
	}
}

func TestLayersOfTheSameFilesAreOne(t *testing.T) {
	one, two := File{
		Path: "a/one", Mode: 0o644, Content: []byte("1"),
	}, File{Path: "a/two", Mode: 0o644, Content: []byte("2")}
	var digests []string
	for _, files := range [][]File{{one, two}, {two, one}} {
		layer, err := Layer(files...)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, hash.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %q differ", digests)
	}
}

func TestParseLibraries(t *testing.T) {
	got, err := parseLibraries("\tlinux-vdso.so.1 (0x00007fdc0cb04000)\n" +
		"\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fdc0c7fe000)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007fdc0cb06000)\n")
	if want := []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := parseLibraries("\tlibgone.so.1 => not found\n"); err == nil {
		t.Error("a missing library was taken for none")
	}
}

func TestProgramsComeWithTheirLibraries(t *testing.T) {
	files, err := Programs("/bin/sh", "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if files[0].Path != "bin/sh" || files[0].Mode != 0o755 || len(files[0].Content) == 0 {
		t.Errorf("the program is %s, %o, %d bytes", files[0].Path, files[0].Mode, len(files[0].Content))
	}
	seen := map[string]bool{}
	for _, file := range files {
		if seen[file.Path] {
			t.Errorf("%s is there twice", file.Path)
		}
		seen[file.Path] = true
	}
	if len(files) < 2 {
		t.Error("there are no libraries")
	}
	if _, err := Programs("/nonexistent/program"); err == nil {
		t.Error("a missing program was read")
	}
}

func TestTaskImageHoldsTheProgramAlone(t *testing.T) {
	needBusybox(t)
	image, err := Task(busyboxPath) // any static program
	if err != nil {
		t.Fatal(err)
	}
	entries := entriesOf(t, image)
	if e := entries["burstlet-task"]; len(entries) != 1 || e == nil || e.Mode&0o777 != 0o755 || e.Size == 0 {
		t.Errorf("the image holds %v", entries)
	}
	config, err := image.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/burstlet-task"}) {
		t.Errorf("configuration %+v, %v", config, err)
	}
	if _, err := Task("/bin/sh"); err == nil || !strings.Contains(err.Error(), "dynamically linked") {
		t.Errorf("a program that needs libraries: %v", err)
	}
}
