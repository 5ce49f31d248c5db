package syncloop_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/sim"
)

// TestVariablesFromFiles: an init container writes the file of which a variable of the app
// is made, and the app waits until what it wants is there.
func TestVariablesFromFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{Record: true})
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		variable := func(key string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				inits([]string{"sh", "-c", `echo "KEY='value'" > /config/env`})(pod)
				pod.Spec.Volumes = []corev1.Volume{{
					Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
				}}
				pod.Spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/config"}}
				ref := &corev1.FileKeySelector{VolumeName: "v", Path: "env", Key: key}
				c := &pod.Spec.Containers[0]
				c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: ref}}}
				c.TerminationMessagePath = "/dev/termination-log"
			}
		}
		say := []string{"sh", "-c", "echo $A > /dev/termination-log; exit 0"}
		a.create("p", "u", "Never", variable("KEY"), say...)
		a.create("q", "w", "Never", variable("OTHER"), say...)
		time.Sleep(30 * time.Second)
		a.phase("p", corev1.PodSucceeded)
		if end := a.get("p").Status.ContainerStatuses[0].State.Terminated; end == nil ||
			strings.TrimSpace(end.Message) != "value" {
			t.Errorf("it said %+v", end)
		}
		a.phase("q", corev1.PodPending)
		wait := a.get("q").Status.ContainerStatuses[0].State.Waiting
		if wait == nil || wait.Reason != "CreateContainerConfigError" ||
			!strings.Contains(wait.Message, `key "OTHER" not found`) {
			t.Errorf("waits for %+v", wait)
		}
		a.delete("q", 1)
		time.Sleep(10 * time.Second)
		if a.get("q") != nil {
			t.Error("q is still there")
		}
		a.audit()
	})
}
