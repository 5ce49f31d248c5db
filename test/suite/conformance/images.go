package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// Names of the images that tests ask for: test/utils/image/manifest.go of
// Kubernetes 1.36.
const (
	agnhostImage     = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
	agnhostPrevImage = "registry.k8s.io/e2e-test-images/agnhost:2.55"
	busyboxImage     = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	glibcImage       = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"
	nginxImage       = "registry.k8s.io/e2e-test-images/nginx:1.15-4"
	noNewPrivsImage  = "registry.k8s.io/e2e-test-images/nonewprivs:1.4"
	nonRootImage     = "registry.k8s.io/e2e-test-images/nonroot:1.5"
	pauseImage       = "registry.k8s.io/pause:3.10.2"
)

// Users of agnhost's image, one of them in a group that only the image knows.
const (
	agnhostPasswd = "root:x:0:0:root:/root:/bin/sh\n" +
		"user-defined-in-image:x:1000:1000:Linux User,,,:/home/user-defined-in-image:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
	agnhostGroup = "root:x:0:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n"
)

// pauseScript ends at once when it is asked to, as the real one does.
const pauseScript = "trap 'exit 0' INT TERM; sleep 2147483647 & wait"

// debianPrograms are in agnhost's image beside busybox, by their packages: probes
// and hooks are written for bash, and dial with curl and OpenBSD's nc.
func debianPrograms() map[string]string {
	return map[string]string{"bash": "bash", "curl": "curl", "nc.openbsd": "netcat-openbsd", "ldd": "libc-bin"}
}

// missingPackages names the Debian packages that the images need and that this
// machine lacks.
func missingPackages() []string { return containerd.MissingBinaries(debianPrograms()) }

// suiteImages makes the images by the names that tests give them.
func suiteImages(p Programs) (map[string]v1.Image, error) {
	pause, err := images.Derive(v1.Config{
		Entrypoint: []string{"/bin/sh", "-c", pauseScript}, User: "65535:65535", WorkingDir: "/",
	})
	if err != nil {
		return nil, fmt.Errorf("make pause's image: %w", err)
	}
	agnhost, err := agnhostOf(p, pause)
	if err != nil {
		return nil, fmt.Errorf("make agnhost's image: %w", err)
	}
	noNewPrivs, err := noNewPrivsOf(p)
	if err != nil {
		return nil, fmt.Errorf("make nonewprivs' image: %w", err)
	}
	all := map[string]v1.Image{
		agnhostImage: agnhost, agnhostPrevImage: agnhost, noNewPrivsImage: noNewPrivs, pauseImage: pause,
	}
	for name, config := range map[string]v1.Config{
		busyboxImage: {Cmd: []string{"sh"}},
		glibcImage:   {Cmd: []string{"sh"}, Labels: map[string]string{"name": "glibc-dns-testing"}},
		// Tests give it a command of its own: it is another image, that is all.
		nginxImage:   {Cmd: []string{"httpd", "-f"}, Labels: map[string]string{"name": "nginx"}},
		nonRootImage: {Cmd: []string{"sh"}, User: "1234"},
	} {
		if all[name], err = images.Derive(config); err != nil {
			return nil, fmt.Errorf("make image %s: %w", name, err)
		}
	}
	return all, nil
}

// agnhostOf makes agnhost's image, which serves another one.
func agnhostOf(p Programs, served v1.Image) (v1.Image, error) {
	var paths []string
	for _, name := range []string{"bash", "curl", "nc.openbsd"} {
		path, err := namespaces.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		paths = append(paths, path)
	}
	files, err := images.Programs(paths...)
	if err != nil {
		return nil, err
	}
	tools, err := images.Layer(append(files,
		images.File{Path: "bin/nc", Link: "nc.openbsd"},
		// Debian's busybox shell takes its own applets before programs, nc too.
		images.File{Path: "bin/sh", Link: "bash"},
	)...)
	if err != nil {
		return nil, err
	}
	own, err := agnhostLayer(p, served)
	if err != nil {
		return nil, err
	}
	ports := map[string]struct{}{}
	for _, port := range strings.Fields("80 8080 8081 9376 5000") {
		ports[port+"/tcp"] = struct{}{}
	}
	return images.Derive(v1.Config{
		Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, WorkingDir: "/", ExposedPorts: ports,
	}, tools, own)
}

func agnhostLayer(p Programs, served v1.Image) (v1.Layer, error) {
	content, err := os.ReadFile(p.Agnhost)
	if err != nil {
		return nil, fmt.Errorf("read agnhost: %w", err)
	}
	cert, key, err := servingCertificate()
	if err != nil {
		return nil, fmt.Errorf("make agnhost's certificate: %w", err)
	}
	files, err := servedFiles(served)
	if err != nil {
		return nil, fmt.Errorf("lay out agnhost's registry: %w", err)
	}
	return images.Layer(append(files,
		images.File{Path: "agnhost", Mode: 0o755, Content: content},
		images.File{Path: "agnhost-2", Link: "agnhost"},
		images.File{Path: "uploads", Mode: 0o755, Dir: true},
		images.File{Path: "etc/passwd", Mode: 0o644, Content: []byte(agnhostPasswd)},
		images.File{Path: "etc/group", Mode: 0o644, Content: []byte(agnhostGroup)},
		images.File{Path: "localhost.crt", Mode: 0o644, Content: cert},
		images.File{Path: "localhost.key", Mode: 0o644, Content: key},
	)...)
}

// importAll brings images onto a host.
func importAll(ctx context.Context, host *remotehost.Host, all map[string]v1.Image) (err error) {
	dir, err := os.MkdirTemp("", "burstlet-conformance-")
	if err != nil {
		return fmt.Errorf("make directory for images: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	archive := filepath.Join(dir, "images.tar")
	if err := images.WriteArchive(archive, all); err != nil {
		return err
	}
	return host.ImportImages(ctx, archive)
}

func noNewPrivsOf(p Programs) (v1.Image, error) {
	content, err := os.ReadFile(p.NoNewPrivs)
	if err != nil {
		return nil, fmt.Errorf("read nonewprivs: %w", err)
	}
	// It tells its effective user: setuid makes that root, unless it may not.
	layer, err := images.Layer(images.File{Path: "usr/local/bin/nnp", Mode: 0o6755, Content: content})
	if err != nil {
		return nil, err
	}
	return images.Derive(v1.Config{Cmd: []string{"nnp"}}, layer)
}
