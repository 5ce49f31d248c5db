package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/bound"
	"github.com/burstlet/burstlet/test/kit/ports"
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

// Whoever holds connections to the health port, or scrapes it again and again, keeps no
// probe out.
func TestTheHealthPortIsThereForProbes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	h, port := newHealth(nil), ports.Free(t)
	h.conns, h.scrapes = bound.NewConns(2), bound.NewSlots("requests", 0)
	h.metrics = http.NotFoundHandler()
	wait, err := h.serve(ctx, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 429} {
		resp, err := http.Get(local("http", port, path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	h.metrics = nodesHandler(h.bounds(), nil)
	h.scrapes = bound.NewSlots("requests", 1)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `burstlet_http_refused_total{kind="connections",server="health"}`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s is missing in\n%s", want, w.Body)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}
