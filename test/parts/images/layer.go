package images

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// busyboxPath is where Debian's package busybox-static puts its binary.
const busyboxPath = "/bin/busybox"

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
)

// CheckBusybox says whether this machine's busybox can be put into an image,
// which is what [Busybox] and [Pause] need.
func CheckBusybox() error {
	if err := checkStatic(busyboxPath); err != nil {
		return fmt.Errorf("%w (package busybox-static)", err)
	}
	return nil
}

// checkStatic wants a program that runs in an image without libraries.
func checkStatic(program string) error {
	binary, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("open %s: %w", program, err)
	}
	for _, part := range binary.Progs {
		if part.Type == elf.PT_INTERP {
			err = fmt.Errorf("%s is dynamically linked", program)
			break
		}
	}
	return errors.Join(err, binary.Close())
}

func busyboxLayer() (v1.Layer, error) {
	if err := CheckBusybox(); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(busyboxPath)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	list, err := exec.Command(busyboxPath, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list busybox applets: %w", err)
	}
	content, err := layerTar(binary, strings.Fields(string(list)))
	if err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return layer, nil
}

// layerTar lays out the root file system. Directories that runtimes mount
// onto (proc, sys, dev) and files they replace are there, so that a read-only
// root works.
func layerTar(busybox []byte, applets []string) ([]byte, error) {
	var out bytes.Buffer
	w := &layerWriter{tar: tar.NewWriter(&out)}
	for _, dir := range []string{"bin", "dev", "etc", "home", "proc", "root", "run", "sys", "usr", "var"} {
		w.dir(dir, 0o755)
	}
	w.dir("tmp", 0o1777)
	w.file("bin/busybox", 0o755, busybox)
	slices.Sort(applets)
	for _, applet := range slices.Compact(applets) {
		if applet != "busybox" {
			w.link("bin/"+applet, "busybox")
		}
	}
	w.link("sbin", "bin")
	w.link("usr/bin", "../bin")
	w.link("usr/sbin", "../bin")
	w.link("var/run", "../run")
	w.file("etc/passwd", 0o644, []byte(passwd))
	w.file("etc/group", 0o644, []byte(group))
	for _, path := range []string{"etc/hostname", "etc/hosts", "etc/resolv.conf"} {
		w.file(path, 0o644, nil)
	}
	if w.err != nil {
		return nil, w.err
	}
	if err := w.tar.Close(); err != nil {
		return nil, fmt.Errorf("end tar: %w", err)
	}
	return out.Bytes(), nil
}

// layerWriter writes entries owned by root at the fixed time and keeps the
// first error.
type layerWriter struct {
	tar *tar.Writer
	err error
}

func (w *layerWriter) dir(path string, mode int64) {
	w.entry(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil)
}

func (w *layerWriter) file(path string, mode int64, content []byte) {
	w.entry(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content))}, content)
}

func (w *layerWriter) link(path, target string) {
	w.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, nil)
}

func (w *layerWriter) entry(header *tar.Header, content []byte) {
	if w.err != nil {
		return
	}
	header.ModTime, header.Format = epoch(), tar.FormatPAX
	if err := w.tar.WriteHeader(header); err != nil {
		w.err = fmt.Errorf("write header of %s: %w", header.Name, err)
		return
	}
	if _, err := w.tar.Write(content); err != nil {
		w.err = fmt.Errorf("write %s: %w", header.Name, err)
	}
}
