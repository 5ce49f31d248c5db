package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// Events about containers say where in the pod they stand.
func TestEventsSayWhere(t *testing.T) {
	client := fake.NewClientset()
	sink := newEventSink(client, "node")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "a"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}},
		},
	}}
	paths := map[string]string{
		"": "", "i": "spec.initContainers{i}", "a": "spec.containers{a}", "e": "spec.ephemeralContainers{e}",
	}
	wait.For(t, time.Minute, "the Events", func() error {
		for container := range paths {
			sink.Event(pod, container, corev1.EventTypeNormal, "Reason", "of "+container)
		}
		list, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) < len(paths) {
			return fmt.Errorf("%d of %d: %w", len(list.Items), len(paths), err)
		}
		for _, e := range list.Items {
			if want := paths[e.Message[len("of "):]]; e.InvolvedObject.FieldPath != want ||
				e.InvolvedObject.UID != "u" || e.InvolvedObject.Kind != "Pod" {
				t.Errorf("Event %q is about %+v, want %q", e.Message, e.InvolvedObject, want)
			}
		}
		return nil
	})
}
