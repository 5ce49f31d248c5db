package taskdef

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// ImageConfig is what an image says of how it is run (OCI image specification,
// config).
type ImageConfig struct {
	Entrypoint, Cmd []string
	// User is "name", "uid" or either with ":group"; empty is root.
	User string
	// Env are "NAME=value".
	Env        []string
	StopSignal string
}

// Images are those that a launch needs, by container name. What is missing is
// not known.
type Images map[string]ImageConfig

// ErrNoCommand is containerd's, of an image without ENTRYPOINT and CMD.
var ErrNoCommand = errors.New("no command specified")

// NeedsImage is true for a container of which the pod does not say what it runs, or
// as whom.
func NeedsImage(pod *corev1.Pod, c corev1.Container) bool {
	return len(c.Command) == 0 || userOf(&pod.Spec, &c) == nil
}

// Argv is what a container runs (kubelet: command stands for ENTRYPOINT, and
// without args of its own it has none; args stand for CMD). Nil: nothing.
func Argv(spec backend.ContainerSpec, images Images) []string {
	c, image := &spec.Container, images[spec.Container.Name]
	switch {
	case len(c.Command) > 0:
		return slices.Concat(c.Command, c.Args)
	case len(c.Args) > 0:
		return slices.Concat(image.Entrypoint, c.Args)
	}
	return slices.Concat(image.Entrypoint, image.Cmd)
}

// NonRoot refuses a container that may not be root and would be (kubelet:
// verifyRunAsNonRoot, in its words).
func NonRoot(pod *corev1.Pod, c corev1.Container, images Images) error {
	if !isNonRoot(pod.Spec.SecurityContext, c.SecurityContext) {
		return nil
	}
	at := fmt.Sprintf("(pod: %q, container: %s)", describe(pod), c.Name)
	if user := userOf(&pod.Spec, &c); user != nil {
		if *user == 0 {
			return errors.New("container's runAsUser breaks non-root policy " + at)
		}
		return nil
	}
	user, _, _ := strings.Cut(images[c.Name].User, ":")
	switch n, err := strconv.ParseInt(cmp.Or(user, "0"), 10, 64); {
	case err != nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user "+
			"is non-root %s", user, at)
	case n == 0:
		return errors.New("container has runAsNonRoot and image will run as root " + at)
	}
	return nil
}

// describe is how the kubelet names a pod.
func describe(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

func isNonRoot(pod *corev1.PodSecurityContext, own *corev1.SecurityContext) bool {
	var asked *bool
	if own != nil {
		asked = own.RunAsNonRoot
	}
	if asked == nil && pod != nil {
		asked = pod.RunAsNonRoot
	}
	return asked != nil && *asked
}

// unknownImages stand in for images that are not asked for, to show what a launch
// would be.
func unknownImages(spec backend.LaunchSpec) Images {
	out := Images{}
	for _, c := range spec.Containers {
		if NeedsImage(spec.Pod, c.Container) {
			out[c.Container.Name] = ImageConfig{
				Entrypoint: []string{"<ENTRYPOINT of the image>"},
				Cmd:        []string{"<CMD of the image>"}, User: "<USER of the image>",
			}
		}
	}
	return out
}

// ecrHost is a private registry of Amazon ECR, by its name of IPv4 alone or by that of both
// (ECR user guide, "Private registries" and "Making requests to Amazon ECR over IPv6").
var ecrHost = regexp.MustCompile(`^[0-9]{12}\.(?:` +
	`dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.(?:com|com\.cn|eu)|` +
	`dkr-ecr(?:-fips)?\.([a-z0-9-]+)\.on\.(?:aws|amazonwebservices\.(?:com\.cn|eu)))$`)

// isECR is true for images of Amazon ECR's private registries.
func isECR(image string) bool { return ECRRegion(image) != "" }

// ECRRegion is the region of an image's private ECR registry; "" of any other.
func ECRRegion(image string) string {
	host, _, _ := strings.Cut(image, "/")
	if m := ecrHost.FindStringSubmatch(host); m != nil {
		return m[1] + m[2] // one of them
	}
	return ""
}
