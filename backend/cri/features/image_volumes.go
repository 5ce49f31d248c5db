package features

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// imageVolumesSince are the versions of runtimes that mount an image, and a directory of
// one. CRI has no word for it: older ones would mount nothing, or all of the image.
var imageVolumesSince = map[string]struct{ image, subPath string }{
	"containerd": {"2.1", "2.2"},
	"cri-o":      {"1.31", "1.33"},
}

// SupportsImageVolumes refuses mounts of images that the runtime cannot make. Errors:
// Unsupported, naming the field.
func (f *Runtime) SupportsImageVolumes(ctx context.Context, pod *corev1.Pod) error {
	image, subPath := convert.ImageMountFields(pod)
	if image == "" {
		return nil
	}
	v, err := f.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return transport.Failed(err, "ask the container runtime for its version")
	}
	name, have := v.GetRuntimeName(), v.GetRuntimeVersion()
	since, known := imageVolumesSince[name]
	const why = "%s: the container runtime of this node, %s %s, cannot mount %s: use %s %s or newer"
	switch {
	case !known:
		const instead = "containerd"
		return backend.Errorf(
			backend.ErrUnsupported, why, image, name, have, "an image", instead, imageVolumesSince[instead].image,
		)
	case !AtLeast(have, since.image):
		return backend.Errorf(backend.ErrUnsupported, why, image, name, have, "an image", name, since.image)
	case subPath != "" && !AtLeast(have, since.subPath):
		return backend.Errorf(
			backend.ErrUnsupported, why, subPath, name, have, "a directory of an image", name, since.subPath,
		)
	}
	return nil
}

// AtLeast is false for what is no version.
func AtLeast(have, want string) bool {
	v, err := version.ParseGeneric(have)
	return err == nil && v.AtLeast(version.MustParseGeneric(want))
}
