package syncloop_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// Events about a container name it, as a kubelet's do: kubectl describe shows which one
// of a pod's containers they are of.
func TestEventsNameTheirContainer(t *testing.T) {
	alone(t, nil, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: []string{"true"}}}
			pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}},
				PeriodSeconds: 5, FailureThreshold: 1, TimeoutSeconds: 1,
			}
		}, "sleep", "infinity")
		a.create("missing", "m", "Always", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.test/missing:1" })
		a.create("hook", "h", "Always", hooked("false"), "sleep", "infinity")
		time.Sleep(50 * time.Second)
		about := a.abouts()
		for _, want := range []string{
			"p/i Pulled", "p/i Created", "p/i Started", "p/a Created", "p/a Started", "p/a Unhealthy", "p/a Killing",
			"p/a BackOff",
			"missing/a Pulling", "missing/a Failed", "missing/a BackOff", "hook/a FailedPostStartHook", "hook/a Killing",
		} {
			if !slices.Contains(about, want) {
				t.Errorf("no Event %q", want)
			}
		}
		for _, e := range about {
			if strings.Contains(e, "/ ") {
				t.Errorf("Event %q names no container", e)
			}
		}
	})
}

// A preStop hook that the end of the grace period cuts off has failed; one that ends in
// time, or that burstlet's own end cuts off, has not.
func TestPreStopHooksThatAreCutOff(t *testing.T) {
	stops := func(argv ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: argv}},
			}
		}
	}
	alone(t, nil, func(t *testing.T, a *api) {
		a.create("long", "u", "Always", stops("sleep", "infinity"), "sleep", "infinity")
		a.create("short", "v", "Always", stops("sleep", "1"), "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.delete("long", 10)
		a.delete("short", 10)
		time.Sleep(5 * time.Second)
		a.stop()
		if e := a.event("long", "FailedPreStopHook"); e != "" {
			t.Errorf("the end of the process is told as %q", e)
		}
		b := a.remote.Backend()
		b.Exec = lateExec{b.Exec} // the pod is gone from the API and the remote before it says so
		a.start(b)
		time.Sleep(30 * time.Second)
		if told := a.told("long", "FailedPreStopHook"); len(told) != 1 || !strings.Contains(told[0], "PreStopHook failed") {
			t.Errorf("of the hook that was cut off: %q", told)
		}
		if e := a.event("short", "FailedPreStopHook"); e != "" {
			t.Errorf("of the hook that ended: %q", e)
		}
	})
}

// lateExec takes another second to return when a command was cut off.
type lateExec struct{ inner backend.Exec }

func (e lateExec) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	code, err := e.inner.Exec(ctx, ref, spec)
	if ctx.Err() != nil {
		time.Sleep(time.Second)
	}
	return code, err
}

// What stays as it is is told again before the API server drops it, and a running pod
// whose ConfigMap went is told of.
func TestEventsAreRepeated(t *testing.T) {
	alone(t, nil, func(t *testing.T, a *api) {
		a.setConfig(resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{Data: map[string]string{"k": "v"}}})
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
				}}},
			}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.phase("p", corev1.PodRunning)
		a.setConfig(resolve.Object[*corev1.ConfigMap]{Err: apierrors.NewNotFound(corev1.Resource("configmaps"), "config")})
		time.Sleep(time.Second)
		if n := len(a.told("p", "FailedMount")); n != 1 {
			t.Errorf("%d Events about the ConfigMap that went, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := len(a.told("p", "FailedMount")); n < 5 || n > 7 {
			t.Errorf("%d Events after an hour, want one every 10 min", n)
		}
		a.setConfig(resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{Data: map[string]string{"k": "w"}}})
		n := len(a.told("p", "FailedMount"))
		time.Sleep(time.Hour)
		if now := len(a.told("p", "FailedMount")); now != n {
			t.Errorf("%d more Events though it is there again", now-n)
		}
		a.phase("p", corev1.PodRunning)
	})
}
