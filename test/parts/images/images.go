package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Names under which test hosts hold the images. The domain .test is reserved
// (RFC 2606), so a pull that was not meant to happen reaches nobody.
const (
	BusyboxRef = "registry.burstlet.test/busybox:1.36"
	PauseRef   = "registry.burstlet.test/pause:3.10"
)

// searchPath is the PATH of processes in the images.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// epoch is the time of every file and image: anything fixed will do.
func epoch() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// Busybox returns an image with busybox's applets, running as root with "sh"
// as its command. It fails when this machine's busybox is missing or is not
// static: an image holds no libraries.
func Busybox() (v1.Image, error) {
	layer, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	return build(layer, busyboxConfig())
}

// Pause returns the image of a sandbox's own container: a process that sleeps.
// As PID 1 it does not hear SIGTERM; runtimes end sandboxes with SIGKILL. It
// reaps no orphans, so in a pod with a shared process namespace zombies stay
// until the pod ends.
func Pause() (v1.Image, error) {
	layer, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	return build(layer, pauseConfig())
}

// All returns every image by its name; they share one layer.
func All() (map[string]v1.Image, error) {
	layer, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	busybox, err := build(layer, busyboxConfig())
	if err != nil {
		return nil, err
	}
	pause, err := build(layer, pauseConfig())
	if err != nil {
		return nil, err
	}
	return map[string]v1.Image{BusyboxRef: busybox, PauseRef: pause}, nil
}

func busyboxConfig() v1.Config {
	return v1.Config{Env: []string{searchPath}, Cmd: []string{"sh"}, WorkingDir: "/"}
}

func pauseConfig() v1.Config {
	return v1.Config{
		Env:        []string{searchPath},
		Entrypoint: []string{"/bin/sleep", "2147483647"},
		User:       "65534:65534",
		WorkingDir: "/",
	}
}

// WriteArchive writes images, by their full names with tags, into one file in
// the format of "docker save", which "ctr images import" reads.
func WriteArchive(path string, images map[string]v1.Image) error {
	if len(images) == 0 {
		return errors.New("write image archive: no images given")
	}
	refs := make(map[name.Reference]v1.Image, len(images))
	for ref, image := range images {
		tag, err := name.NewTag(ref, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("parse image name %q: %w", ref, err)
		}
		refs[tag] = image
	}
	if err := tarball.MultiRefWriteToFile(path, refs); err != nil {
		// Half an archive must not be taken for a whole one.
		return errors.Join(fmt.Errorf("write image archive %s: %w", path, err), removeIfThere(path))
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(filepath.Clean(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove partial image archive: %w", err)
	}
	return nil
}

func build(layer v1.Layer, config v1.Config) (v1.Image, error) {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: epoch()},
		Config:       config,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("set image config: %w", err)
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "burstlet test images"},
	})
	if err != nil {
		return nil, fmt.Errorf("append image layer: %w", err)
	}
	return image, nil
}
