package convert

import (
	"path"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// fileNameMax is the longest file name that ext4 takes.
const fileNameMax = 255

// Container returns the runtime's configuration of an attempt of a container, all but its
// mounts. user is its image's.
func (n Converter) Container(
	spec backend.ContainerSpec, podAttempt int, user ImageUser, facts *host.Facts,
) *runtimeapi.ContainerConfig {
	c := &spec.Container
	resources := EnforcedOn(facts, Resources(*backend.WithPodLimits(spec.Pod, &c.Resources)), n.Swap(spec.Pod, c, facts))
	resources.HugepageLimits = hugePageLimits(spec.Pod, c, facts.HugePages)
	resources.OomScoreAdj = oomScore(spec.Pod, c, facts.Memory)
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(spec.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: ImageOf(spec), UserSpecifiedImage: c.Image},
		Command:     c.Command,
		Args:        c.Args,
		WorkingDir:  c.WorkingDir,
		Envs:        envs(spec),
		Labels:      n.ContainerLabels(spec.Pod, c.Name),
		Annotations: ContainerAnnotations(spec, podAttempt),
		LogPath:     LogPath(c.Name, spec.Attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: containerSecurity(spec.Pod, c, user, n.cfg),
		},
	}
}

// ImageOf is the image to run: what was pulled, so that a tag that moved since
// changes nothing.
func ImageOf(spec backend.ContainerSpec) string {
	if spec.ImageID != "" {
		return spec.ImageID
	}
	return spec.Container.Image
}

func envs(spec backend.ContainerSpec) []*runtimeapi.KeyValue {
	out := make([]*runtimeapi.KeyValue, len(spec.Container.Env))
	for i, e := range spec.Container.Env {
		out[i] = &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)}
	}
	return out
}

// LogPath is relative to the pod's log directory.
func LogPath(container string, attempt int) string {
	return path.Join(container, strconv.Itoa(attempt)+".log")
}

// LogLink is the link that log collectors read; its name gives them the pod.
func (n Converter) LogLink(pod backend.Ref, container, id string) string {
	const suffix = ".log"
	name := pod.Name + "_" + pod.Namespace + "_" + container + "-" + id
	if len(name) > fileNameMax-len(suffix) {
		name = name[:fileNameMax-len(suffix)]
	}
	return path.Join(n.cfg.ContainerLogsDir, name+suffix)
}
