package main

import (
	"context"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
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

// Eventf makes an Event about a pod.
func (s *eventSink) Eventf(pod *corev1.Pod, kind, reason, format string, args ...any) {
	log.L.WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "reason": reason}).Debug("event")
	s.recorder.Eventf(runtime.Object(pod), kind, reason, format, args...)
}

// about makes an Event about an object that is not a pod.
func (s *eventSink) about(object *corev1.ObjectReference, kind, reason, message string) {
	log.L.WithFields(log.Fields{"kind": object.Kind, "name": object.Name, "reason": reason}).Debug("event")
	s.recorder.Event(object, kind, reason, message)
}
