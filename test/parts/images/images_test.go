package images

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/burstlet/burstlet/test/kit/need"
)

func needBusybox(t *testing.T) {
	t.Helper()
	if err := CheckBusybox(); err != nil {
		need.Missing(t, "images cannot be built: %v", err)
	}
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func TestImagesAreDeterministic(t *testing.T) {
	needBusybox(t)
	for name, make := range map[string]func() (v1.Image, error){"busybox": Busybox, "pause": Pause} {
		first, err := make()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		second, err := make()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if digest(t, first) != digest(t, second) {
			t.Errorf("%s: two builds have different digests", name)
		}
	}
}

func TestBusyboxHasWhatTestsUse(t *testing.T) {
	needBusybox(t)
	image, err := Busybox()
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	found := map[string]*tar.Header{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(header.Name, "/")] = header
	}
	for _, applet := range []string{
		"sh", "sleep", "cat", "httpd", "nc", "wget", "stat", "id", "env",
		"tar",                                // kubectl cp
		"head", "tail", "tty", "stty", "seq", // exec, attach, logs
		"mkdir", "touch", "chmod", "ls", "ln", "readlink", "mount", "df", "sha256sum", "dd", // volumes
		"hostname", "nslookup", "ip", "ps", "kill", "awk", "grep", "sed", "timeout",
	} {
		if h := found["bin/"+applet]; h == nil || h.Linkname != "busybox" {
			t.Errorf("bin/%s is no link to busybox: %+v", applet, h)
		}
	}
	if h := found["tmp"]; h == nil || h.Mode&0o7777 != 0o1777 {
		t.Errorf("tmp is not open to all users: %+v", h)
	}
	if h := found["bin/busybox"]; h == nil || h.Typeflag != tar.TypeReg || h.Mode&0o111 == 0 {
		t.Errorf("bin/busybox cannot be run: %+v", h)
	}
}

func TestWriteArchive(t *testing.T) {
	needBusybox(t)
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "images.tar")
	if err := WriteArchive(path, all); err != nil {
		t.Fatal(err)
	}
	for ref, want := range all {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tarball.ImageFromPath(path, &tag)
		if err != nil {
			t.Fatalf("read %s back: %v", ref, err)
		}
		wantConfig, err := want.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if gotConfig, err := got.ConfigName(); err != nil || gotConfig != wantConfig {
			t.Errorf("%s: config %v, %v; want %v", ref, gotConfig, err, wantConfig)
		}
	}
}

func TestWriteArchiveRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.tar")
	if err := WriteArchive(path, nil); err == nil {
		t.Error("an archive of nothing was written")
	}
	if err := WriteArchive(path, map[string]v1.Image{"not a name": nil}); err == nil {
		t.Error("an image without a valid name was written")
	}
}
