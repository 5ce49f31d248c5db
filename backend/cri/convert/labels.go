package convert

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's labels and annotations, which crictl and log collectors read.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash              = "io.kubernetes.container.hash"
	AnnotationRestartCount      = "io.kubernetes.container.restartCount"
	AnnotationTermMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTermMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationGracePeriod       = "io.kubernetes.pod.terminationGracePeriod"
)

// Ours.
const (
	// LabelNode is the node's identity; every listing selects on it.
	LabelNode = "burstlet.dev/node"
	// AnnotationPodAttempt on a container is its sandbox's attempt.
	AnnotationPodAttempt = "burstlet.dev/pod-attempt"
	// AnnotationImage on a container is the image as the pod names it; the
	// runtime only tells one of the names that the image has.
	AnnotationImage = "burstlet.dev/image"
	// AnnotationCgroup on a sandbox or container is the pod's cgroup, to remove by.
	AnnotationCgroup = "burstlet.dev/cgroup-parent"
	// AnnotationResources on a container is what it was made with, as the pod has it:
	// the runtime knows rounded numbers.
	AnnotationResources = "burstlet.dev/resources"
	// AnnotationRound on a container is its round, where that is not the first.
	AnnotationRound = "burstlet.dev/round"
	// AnnotationImageVolumes on a container are the ids of the images that it mounts, with
	// commas between: a listing tells no mounts.
	AnnotationImageVolumes = "burstlet.dev/image-volumes"
)

// The runtime tells all of a sandbox's labels and annotations in every listing, and
// refuses one of more than 16 MiB: that node would see nothing any more. The API allows
// 256 KiB of annotations, and more of labels. So what a pod has goes with its sandbox
// within these bounds, a thousand times over: the smallest first, which network plugins
// and runtimes read.
const (
	maxPodLabels      = 8 << 10
	maxPodAnnotations = 8 << 10
)

// ourPrefix is of labels and annotations that are ours: no pod sets them.
const ourPrefix = "burstlet.dev/"

func podAnnotations(pod *corev1.Pod) map[string]string {
	return within(maxPodAnnotations, pod.Annotations)
}

// within is what of a map takes no more bytes than that, without what is ours.
func within(bound int, all map[string]string) map[string]string {
	size := func(key string) int { return len(key) + len(all[key]) }
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b))
	})
	out := map[string]string{}
	for _, key := range keys {
		if strings.HasPrefix(key, ourPrefix) {
			continue
		}
		if bound -= size(key); bound < 0 {
			break
		}
		out[key] = all[key]
	}
	return out
}

func (n Converter) podLabels(pod *corev1.Pod) map[string]string {
	labels := within(maxPodLabels, pod.Labels)
	n.ownLabels(labels, pod)
	return labels
}

// ContainerLabels are those of a container of the pod.
func (n Converter) ContainerLabels(pod *corev1.Pod, name string) map[string]string {
	labels := map[string]string{LabelContainerName: name}
	n.ownLabels(labels, pod)
	return labels
}

// ownLabels come last: a pod's own labels cannot pretend to be another node's.
func (n Converter) ownLabels(labels map[string]string, pod *corev1.Pod) {
	labels[LabelPodName] = pod.Name
	labels[LabelPodNamespace] = pod.Namespace
	labels[LabelPodUID] = string(pod.UID)
	labels[LabelNode] = n.cfg.NodeIdentity
}

// ContainerAnnotations are those of an attempt of a container, in that of its pod.
func ContainerAnnotations(spec backend.ContainerSpec, podAttempt int) map[string]string {
	c := spec.Container
	a := map[string]string{
		AnnotationHash:              spec.Hash,
		AnnotationRestartCount:      strconv.Itoa(spec.Attempt),
		AnnotationTermMessagePath:   c.TerminationMessagePath,
		AnnotationTermMessagePolicy: string(c.TerminationMessagePolicy),
		AnnotationPodAttempt:        strconv.Itoa(podAttempt),
		AnnotationImage:             c.Image,
	}
	if spec.Round > 0 {
		a[AnnotationRound] = strconv.Itoa(spec.Round)
	}
	if resources, err := json.Marshal(Enforced(c.Resources)); err == nil { // quantities always marshal
		a[AnnotationResources] = string(resources)
	}
	if mounted := imageVolumesText(spec); mounted != "" {
		a[AnnotationImageVolumes] = mounted
	}
	if g := spec.Pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[AnnotationGracePeriod] = strconv.FormatInt(*g, 10)
	}
	return a
}

// RoundOf is the round that a container was made in; 0 for the first.
func RoundOf(c *runtimeapi.Container) (int, error) {
	round, ok := c.GetAnnotations()[AnnotationRound]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(round)
	if err != nil {
		return 0, backend.Errorf(
			backend.ErrInvalid, "read annotation %s of container %s: %w", AnnotationRound, c.GetId(), err,
		)
	}
	return n, nil
}

// Selector selects this node's objects, of one pod unless uid is empty.
func (n Converter) Selector(uid types.UID) map[string]string {
	s := map[string]string{LabelNode: n.cfg.NodeIdentity}
	if uid != "" {
		s[LabelPodUID] = string(uid)
	}
	return s
}

// SandboxRef names what the sandbox is an attempt of.
func SandboxRef(s *runtimeapi.PodSandbox) backend.Ref {
	return backend.Ref{
		UID:       types.UID(s.GetMetadata().GetUid()),
		Namespace: s.GetMetadata().GetNamespace(),
		Name:      s.GetMetadata().GetName(),
		Attempt:   int(s.GetMetadata().GetAttempt()),
		ID:        s.GetId(),
	}
}

// ContainerPodRef names the pod attempt that a container belongs to, for when
// its sandbox is not there to say.
func ContainerPodRef(c *runtimeapi.Container) (backend.Ref, error) {
	attempt, err := strconv.Atoi(c.GetAnnotations()[AnnotationPodAttempt])
	if err != nil {
		return backend.Ref{}, backend.Errorf(
			backend.ErrInvalid, "read annotation %s of container %s: %w", AnnotationPodAttempt, c.GetId(), err,
		)
	}
	return backend.Ref{
		UID:       types.UID(c.GetLabels()[LabelPodUID]),
		Namespace: c.GetLabels()[LabelPodNamespace],
		Name:      c.GetLabels()[LabelPodName],
		Attempt:   attempt,
		ID:        c.GetPodSandboxId(),
	}, nil
}

// imageVolumesText lists the images that a container mounts, for its annotation.
func imageVolumesText(spec backend.ContainerSpec) string {
	ids := map[string]bool{}
	for _, v := range spec.ImageVolumes {
		if v.ImageID != "" {
			ids[v.ImageID] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), ",")
}
