package main

import (
	"context"
	"slices"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
)

// eventSink sends Events to the API server.
type eventSink struct {
	client      kubernetes.Interface
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEventSink(client kubernetes.Interface, node string) *eventSink {
	b := record.NewBroadcaster()
	return &eventSink{
		client: client, broadcaster: b,
		recorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "burstlet", Host: node}),
	}
}

// Run sends Events until the context ends. Events are best effort, as a
// kubelet's are.
func (s *eventSink) Run(ctx context.Context) error {
	watch := s.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client.CoreV1().Events("")})
	<-ctx.Done()
	watch.Stop()
	s.broadcaster.Shutdown()
	return nil
}

// Event makes an Event about a pod, or about the container of it that is named.
func (s *eventSink) Event(pod *corev1.Pod, container, kind, reason, message string) {
	entry := log.L.WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "reason": reason})
	entry.Debug("event")
	ref, err := reference.GetPartialReference(scheme.Scheme, pod, fieldPath(pod, container))
	if err != nil {
		entry.WithError(err).Error("an Event is lost: its pod cannot be referred to")
		return
	}
	s.recorder.Event(ref, kind, reason, message)
}

// Annotated makes an Event about a pod with annotations.
func (s *eventSink) Annotated(pod *corev1.Pod, annotations map[string]string, kind, reason, message string) {
	entry := log.L.WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "reason": reason})
	entry.Debug("event")
	ref, err := reference.GetPartialReference(scheme.Scheme, pod, "")
	if err != nil {
		entry.WithError(err).Error("an Event is lost: its pod cannot be referred to")
		return
	}
	s.recorder.AnnotatedEventf(ref, annotations, kind, reason, "%s", message)
}

// fieldPath is where a container stands in its pod (kubelet: container/ref.go); empty for
// the pod itself.
func fieldPath(pod *corev1.Pod, container string) string {
	if container == "" {
		return ""
	}
	named := func(c corev1.Container) bool { return c.Name == container }
	list := "ephemeralContainers"
	switch {
	case slices.ContainsFunc(pod.Spec.Containers, named):
		list = "containers"
	case slices.ContainsFunc(pod.Spec.InitContainers, named):
		list = "initContainers"
	}
	return "spec." + list + "{" + container + "}"
}

// about makes an Event about an object that is not a pod.
func (s *eventSink) about(object *corev1.ObjectReference, kind, reason, message string) {
	log.L.WithFields(log.Fields{"kind": object.Kind, "name": object.Name, "reason": reason}).Debug("event")
	s.recorder.Event(object, kind, reason, message)
}
