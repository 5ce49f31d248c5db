package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// changing are the calls that a backend without the lease must not get.
var changing = []fault.Method{
	fault.PodsLaunch, fault.PodsStop, fault.PodsRemove, fault.ContainersStart, fault.ContainersStop, fault.ContainersRemove,
	fault.ResizeResize, fault.FilesPlace, fault.FilesClear, fault.RefreshRefresh, fault.ImagesPull, fault.StoreRemove, fault.ExecExec,
}

func changes(s *fault.Script) map[fault.Method]int {
	n := map[fault.Method]int{}
	for _, m := range changing {
		if calls := s.Calls(m); calls > 0 {
			n[m] = calls
		}
	}
	return n
}

// TestWithoutTheLeaseNothingIsChanged runs a node whose parts were made as "burstlet
// run" makes them: while its gate is closed it changes nothing on the remote nor in
// the API, though there is much to do. It does that when the gate is open again.
func TestWithoutTheLeaseNothingIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newMemoryAPI("edge")
		script := &fault.Script{}
		remote := sim.New(sim.Config{Record: true})
		b := fault.Wrap(remote.Backend(), script)
		cfg := config.Alone()
		cfg.Node.Name, cfg.Node.Identity, cfg.Node.InternalIP = "edge", "test/edge", "192.0.2.1"
		cfg.KubeletAPI.SelfSigned = false // a listener that waits is not idle to virtual time
		m := &member{cfg: cfg, state: &nodeState{name: "edge"}, process: prometheus.NewRegistry(), sim: &b}
		held := gate.New()
		n, err := m.wire(t.Context(), &access{
			registry: prometheus.NewRegistry(), calls: newAPICalls(), client: cfg.Client,
			rest: &rest.Config{Host: "http://api.test", Transport: server},
		}, held)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		server.put(boundPod("before"))
		time.Sleep(time.Second)
		if got, writes := changes(script), server.written(); len(got) > 0 || len(writes) > 0 {
			t.Errorf("before the gate was ever open: changes of the remote %v, writes %v", got, writes)
		}

		held.Hold(time.Now().Add(time.Minute))
		time.Sleep(time.Minute)
		synctest.Wait()
		runs := map[types.UID]bool{}
		for _, f := range remote.Facts() {
			runs[f.UID] = f.Live
		}
		if !runs["before"] || len(server.written()) == 0 {
			t.Fatalf("with the gate open the pod runs: %v, writes %v", runs, server.written())
		}

		// The lease is over: a pod is to be ended, another to be made.
		made, written := changes(script), server.written()
		server.put(deletedPod("before"))
		server.put(boundPod("after"))
		time.Sleep(time.Minute)
		for method, calls := range changes(script) {
			if calls > made[method] {
				t.Errorf("%d calls of %s pass the closed gate", calls-made[method], method)
			}
		}
		for write, n := range server.written() {
			if n > written[write] {
				t.Errorf("%d of %s pass the closed gate", n-written[write], write)
			}
		}
		_, err = n.engine.Exec(t.Context(), backend.Ref{UID: "before", Namespace: "ns", Name: "before"}, "a", backend.ExecSpec{Command: []string{"true"}})
		if !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("a command in a container: %v, want it refused", err)
		}

		held.Hold(time.Now().Add(time.Hour))
		time.Sleep(10 * time.Minute)
		facts := remote.Facts()
		if len(facts) != 1 || facts[0].UID != "after" || !facts[0].Live || server.pod("before") != nil {
			t.Errorf("with the gate open again: %+v on the remote, pod that was deleted %v", facts, server.pod("before"))
		}
	})
}

func boundPod(name string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName: "edge", RestartPolicy: corev1.RestartPolicyAlways, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{Name: "a", Image: "busybox", Command: []string{"sleep", "infinity"}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func deletedPod(name string) *corev1.Pod {
	pod, grace := boundPod(name), int64(1)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Second)}, &grace
	return pod
}
