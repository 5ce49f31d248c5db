package cri

import (
	"context"
	"fmt"
	"path"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// fileNameMax is the longest file name that ext4 takes.
const fileNameMax = 255

// pathMax is the longest path that the kernel takes.
const pathMax = 4095

// containerConfig describes one attempt of a container to the runtime.
func (r *remote) containerConfig(ctx context.Context, spec backend.ContainerSpec, podAttempt int) (*runtimeapi.ContainerConfig, error) {
	c := &spec.Container
	if len(c.TerminationMessagePath) > pathMax { // which listings would tell, too
		return nil, backend.Errorf(backend.ErrInvalid, "terminationMessagePath of container %s has %d characters: at most %d are possible",
			c.Name, len(c.TerminationMessagePath), pathMax)
	}
	sc := effectiveSecurity(spec.Pod, c)
	var user imageUser
	if needsImageUser(sc) {
		var err error
		if user, err = r.imageUser(ctx, imageOf(spec)); err != nil {
			return nil, err
		}
	}
	if err := verifyNonRoot(sc, user); err != nil {
		pod := fmt.Sprintf("%s_%s(%s)", spec.Pod.Name, spec.Pod.Namespace, spec.Pod.UID)
		return nil, backend.Classed(backend.ErrInvalid, fmt.Errorf("%w (pod: %q, container: %s)", err, pod, c.Name))
	}
	facts, err := r.hostFacts(ctx)
	if err != nil {
		return nil, err
	}
	return r.describe(spec, podAttempt, user, &facts), nil
}

// describe returns the runtime's configuration of an attempt of a container, all but its
// mounts. user is its image's.
func (r *remote) describe(spec backend.ContainerSpec, podAttempt int, user imageUser, facts *host.Facts) *runtimeapi.ContainerConfig {
	c := &spec.Container
	resources := enforcedOn(facts, linuxResources(withPodLimits(spec.Pod, c.Resources)), r.swap(spec.Pod, c, facts))
	resources.HugepageLimits = hugePageLimits(spec.Pod, c, facts.HugePages)
	resources.OomScoreAdj = oomScore(spec.Pod, c, facts.Memory)
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(spec.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: imageOf(spec), UserSpecifiedImage: c.Image},
		Command:     c.Command,
		Args:        c.Args,
		WorkingDir:  c.WorkingDir,
		Envs:        envs(spec),
		Labels:      r.containerLabels(spec.Pod, c.Name),
		Annotations: containerAnnotations(spec, podAttempt),
		LogPath:     logPath(c.Name, spec.Attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: containerSecurity(spec.Pod, c, user, r.cfg.SeccompProfileRoot),
		},
	}
}

// imageOf is the image to run: what was pulled, so that a tag that moved since
// changes nothing.
func imageOf(spec backend.ContainerSpec) string {
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

// logPath is relative to the pod's log directory.
func logPath(container string, attempt int) string {
	return path.Join(container, strconv.Itoa(attempt)+".log")
}

// logLink is the link that log collectors read; its name gives them the pod.
func (r *remote) logLink(pod backend.Ref, container, id string) string {
	const suffix = ".log"
	name := pod.Name + "_" + pod.Namespace + "_" + container + "-" + id
	if len(name) > fileNameMax-len(suffix) {
		name = name[:fileNameMax-len(suffix)]
	}
	return path.Join(r.cfg.ContainerLogsDir, name+suffix)
}
