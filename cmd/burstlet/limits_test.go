package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// TestHeartbeatsWaitForNothing: while a node asks for more than its limit lets through,
// its lease is renewed on time.
func TestHeartbeatsWaitForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wire(t, gate.Always(), func(c *config.Configuration) { c.Client = config.Client{QPS: 1, Burst: 1} })
		defer w.stop()
		time.Sleep(time.Minute) // it is registered, at a request a second
		pod := boundPod("greedy")
		for i := range 100 {
			name := fmt.Sprint("m", i)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
			}})
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
				corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
		w.server.put(pod)
		time.Sleep(10 * time.Second)
		const renewal = "PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge"
		before := w.server.written()[renewal]
		time.Sleep(5 * time.Minute)
		// Every 10 s, and 4 % later at most.
		if n := w.server.written()[renewal] - before; n < 28 {
			t.Errorf("%d renewals of the lease in 5 min, want one every 10 s", n)
		}
	})
}
