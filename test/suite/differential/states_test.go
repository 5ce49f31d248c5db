package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// brief is a pod's status on one line.
func brief(pod *corev1.Pod) string {
	data, err := json.Marshal(pod.Status)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func anything(*corev1.Pod) error { return nil }

var errNotYet = errors.New("not yet")

func when(yes bool) error {
	if yes {
		return nil
	}
	return errNotYet
}

func phase(want corev1.PodPhase) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error { return when(pod.Status.Phase == want) }
}

// status is that of a container; one that has none has never been.
func status(pod *corev1.Pod, container string) corev1.ContainerStatus {
	s := pod.Status
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		if c.Name == container {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// waiting is a container that waits for a reason after so many restarts.
func waiting(container, reason string, restarts int32) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		c := status(pod, container)
		return when(c.State.Waiting != nil && c.State.Waiting.Reason == reason && c.RestartCount == restarts)
	}
}

// running is a container that runs after so many restarts.
func running(container string, restarts int32) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		c := status(pod, container)
		return when(c.State.Running != nil && c.RestartCount == restarts)
	}
}

// ended is a container that ended for good.
func ended(container string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error { return when(status(pod, container).State.Terminated != nil) }
}

func both(wants ...func(*corev1.Pod) error) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		for _, want := range wants {
			if err := want(pod); err != nil {
				return err
			}
		}
		return nil
	}
}

// ready is a pod that is.
var ready = wait.PodReady

// subject is a pod of one side, to be changed.
type subject struct {
	*pair
	side string
}

// deleted deletes with a grace, in seconds.
func deleted(grace int64) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		return s.client.CoreV1().Pods(s.side).Delete(ctx, s.name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	}
}

// patched changes the pod, or a part of it.
func patched(part, patch string) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		var parts []string
		if part != "" {
			parts = []string{part}
		}
		_, err := s.client.CoreV1().Pods(s.side).Patch(
			ctx, s.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, parts...,
		)
		return err
	}
}

// steps are done one after the other.
func steps(all ...func(context.Context, *subject) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		for _, step := range all {
			if err := step(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
}

// reaches waits for a state.
func reaches(want func(*corev1.Pod) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error { return s.await(ctx, s.side, want) }
}

// ephemeral adds an ephemeral container.
func ephemeral(script string) func(context.Context, *subject) error {
	return ephemeralWith(script, `,"targetContainerName":"app"`)
}

// ephemeralWith adds an ephemeral container with more fields.
func ephemeralWith(script, fields string) func(context.Context, *subject) error {
	return patched("ephemeralcontainers", fmt.Sprintf(
		`{"spec":{"ephemeralContainers":[{"name":"debug","image":%q,"command":["sh","-c",%q]%s}]}}`, image, script, fields,
	))
}

// pulledByAnother has another pod, which has the login, pull the private image first.
func pulledByAnother(ctx context.Context, s *subject) error {
	p := *s.pair
	p.kind.make, p.name = and(pulls(privateImage, corev1.PullIfNotPresent), login), s.name+"-before"
	pods := s.client.CoreV1().Pods(s.side)
	if _, err := pods.Create(ctx, p.pod(s.side), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the pod before it: %w", err)
	}
	err := p.await(ctx, s.side, ready)
	return errors.Join(err, pods.Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
}
