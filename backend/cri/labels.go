package cri

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
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"

	annotationHash              = "io.kubernetes.container.hash"
	annotationRestartCount      = "io.kubernetes.container.restartCount"
	annotationTermMessagePath   = "io.kubernetes.container.terminationMessagePath"
	annotationTermMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	annotationGracePeriod       = "io.kubernetes.pod.terminationGracePeriod"
)

// Ours.
const (
	// labelNode is the node's identity; every listing selects on it.
	labelNode = "burstlet.dev/node"
	// annotationPodAttempt on a container is its sandbox's attempt.
	annotationPodAttempt = "burstlet.dev/pod-attempt"
	// annotationImage on a container is the image as the pod names it; the
	// runtime only tells one of the names that the image has.
	annotationImage = "burstlet.dev/image"
	// annotationCgroup on a sandbox or container is the pod's cgroup, to remove by.
	annotationCgroup = "burstlet.dev/cgroup-parent"
	// annotationResources on a container is what it was made with, as the pod has it:
	// the runtime knows rounded numbers.
	annotationResources = "burstlet.dev/resources"
	// annotationRound on a container is its round, where that is not the first.
	annotationRound = "burstlet.dev/round"
	// annotationImageVolumes on a container are the ids of the images that it mounts, with
	// commas between: a listing tells no mounts.
	annotationImageVolumes = "burstlet.dev/image-volumes"
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

func (r *remote) podLabels(pod *corev1.Pod) map[string]string {
	labels := within(maxPodLabels, pod.Labels)
	r.ownLabels(labels, pod)
	return labels
}

func (r *remote) containerLabels(pod *corev1.Pod, name string) map[string]string {
	labels := map[string]string{labelContainerName: name}
	r.ownLabels(labels, pod)
	return labels
}

// ownLabels come last: a pod's own labels cannot pretend to be another node's.
func (r *remote) ownLabels(labels map[string]string, pod *corev1.Pod) {
	labels[labelPodName] = pod.Name
	labels[labelPodNamespace] = pod.Namespace
	labels[labelPodUID] = string(pod.UID)
	labels[labelNode] = r.cfg.NodeIdentity
}

func containerAnnotations(spec backend.ContainerSpec, podAttempt int) map[string]string {
	c := spec.Container
	a := map[string]string{
		annotationHash:              spec.Hash,
		annotationRestartCount:      strconv.Itoa(spec.Attempt),
		annotationTermMessagePath:   c.TerminationMessagePath,
		annotationTermMessagePolicy: string(c.TerminationMessagePolicy),
		annotationPodAttempt:        strconv.Itoa(podAttempt),
		annotationImage:             c.Image,
	}
	if spec.Round > 0 {
		a[annotationRound] = strconv.Itoa(spec.Round)
	}
	if resources, err := json.Marshal(enforced(c.Resources)); err == nil { // quantities always marshal
		a[annotationResources] = string(resources)
	}
	if mounted := imageVolumesText(spec); mounted != "" {
		a[annotationImageVolumes] = mounted
	}
	if g := spec.Pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[annotationGracePeriod] = strconv.FormatInt(*g, 10)
	}
	return a
}

// roundOf is the round that a container was made in; 0 for the first.
func roundOf(c *runtimeapi.Container) (int, error) {
	round, ok := c.GetAnnotations()[annotationRound]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(round)
	if err != nil {
		return 0, backend.Errorf(backend.ErrInvalid, "read annotation %s of container %s: %w", annotationRound, c.GetId(), err)
	}
	return n, nil
}

// selector selects this node's objects, of one pod unless uid is empty.
func (r *remote) selector(uid types.UID) map[string]string {
	s := map[string]string{labelNode: r.cfg.NodeIdentity}
	if uid != "" {
		s[labelPodUID] = string(uid)
	}
	return s
}

// sandboxRef names what the sandbox is an attempt of.
func sandboxRef(s *runtimeapi.PodSandbox) backend.Ref {
	return backend.Ref{
		UID:       types.UID(s.GetMetadata().GetUid()),
		Namespace: s.GetMetadata().GetNamespace(),
		Name:      s.GetMetadata().GetName(),
		Attempt:   int(s.GetMetadata().GetAttempt()),
		ID:        s.GetId(),
	}
}

// containerPodRef names the pod attempt that a container belongs to, for when
// its sandbox is not there to say.
func containerPodRef(c *runtimeapi.Container) (backend.Ref, error) {
	attempt, err := strconv.Atoi(c.GetAnnotations()[annotationPodAttempt])
	if err != nil {
		return backend.Ref{}, backend.Errorf(backend.ErrInvalid, "read annotation %s of container %s: %w", annotationPodAttempt, c.GetId(), err)
	}
	return backend.Ref{
		UID:       types.UID(c.GetLabels()[labelPodUID]),
		Namespace: c.GetLabels()[labelPodNamespace],
		Name:      c.GetLabels()[labelPodName],
		Attempt:   attempt,
		ID:        c.GetPodSandboxId(),
	}, nil
}
