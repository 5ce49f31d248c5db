package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/test/kit/background"
)

// changing are the calls that a backend without the lease must not get.
var changing = []fault.Method{
	fault.PodsLaunch, fault.PodsStop, fault.PodsRemove, fault.ContainersStart, fault.ContainersStop,
	fault.ContainersRemove,
	fault.ResizeResize, fault.FilesPlace, fault.FilesClear, fault.RefreshRefresh, fault.ImagesPull, fault.StoreRemove,
	fault.ExecExec,
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

// wired is a node whose parts were made as "burstlet run" makes them.
type wired struct {
	t      *testing.T
	node   *node
	server *memoryAPI
	script *fault.Script
	remote *sim.Remote
	stop   func()
}

func wire(t *testing.T, held *gate.Gate, change ...func(*config.Configuration)) *wired {
	t.Helper()
	w := &wired{t: t, server: newMemoryAPI("edge"), script: &fault.Script{}, remote: sim.New(sim.Config{Record: true})}
	b := fault.Wrap(w.remote.Backend(), w.script)
	cfg := config.Alone()
	cfg.Node.Name, cfg.Node.Identity, cfg.Node.InternalIP = "edge", "test/edge", "192.0.2.1"
	cfg.KubeletAPI.SelfSigned = false // a listener that waits is not idle to virtual time
	for _, f := range change {
		f(&cfg)
	}
	r := &nodeRunner{
		cfg: cfg, state: health.NewNode("edge"), process: prometheus.NewRegistry(), sim: &b,
		elections: newElections("", electionAccess),
	}
	var err error
	w.node, err = r.wire(t.Context(), &credential{
		registry: prometheus.NewRegistry(), calls: newAPICalls(), client: cfg.Client,
		rest: &rest.Config{Host: "http://api.test", Transport: w.server},
	}, held)
	if err != nil {
		t.Fatal(err)
	}
	w.stop = background.Run(t, w.node.run)
	return w
}

// unchanged lets a minute pass, in which nothing may be changed.
func (w *wired) unchanged() {
	w.t.Helper()
	made, written := changes(w.script), w.server.written()
	time.Sleep(time.Minute)
	for method, calls := range changes(w.script) {
		if calls > made[method] {
			w.t.Errorf("%d calls of %s pass the closed gate", calls-made[method], method)
		}
	}
	for write, n := range w.server.written() {
		if n > written[write] {
			w.t.Errorf("%d of %s pass the closed gate", n-written[write], write)
		}
	}
}

// live are the pods that the remote has, and whether they are live.
func (w *wired) live() map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, f := range w.remote.Facts() {
		pods[f.UID] = f.Live
	}
	return pods
}

// TestWithoutTheLeaseNothingIsChanged: while its gate is closed a node changes nothing
// on the remote nor in the API, though there is much to do. It does that when the gate
// is open.
func TestWithoutTheLeaseNothingIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := gate.New()
		w := wire(t, held)
		defer w.stop()
		w.server.put(boundPod("before"))
		time.Sleep(time.Second)
		if got, writes := changes(w.script), w.server.written(); len(got) > 0 || len(writes) > 0 {
			t.Errorf("before the gate was ever open: changes of the remote %v, writes %v", got, writes)
		}

		held.Hold(time.Now().Add(time.Minute))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !w.live()["before"] || len(w.server.written()) == 0 {
			t.Fatalf("with the gate open the remote has %v, writes %v", w.live(), w.server.written())
		}

		// The lease is over: a pod is to be ended, another to be made.
		w.server.put(deletedPod("before"))
		w.server.put(boundPod("after"))
		w.unchanged()
		_, err := w.node.engine.Exec(
			t.Context(), backend.Ref{UID: "before", Namespace: "ns", Name: "before"}, "a",
			backend.ExecSpec{Command: []string{"true"}},
		)
		if !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("a command in a container: %v, want it refused", err)
		}

		held.Hold(time.Now().Add(time.Hour))
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff(map[types.UID]bool{"after": true}, w.live()); diff != "" || w.server.pod("before") != nil {
			t.Errorf(
				"with the gate open again the remote has (-want +got)\n%s, the API the pod that was deleted: %v", diff,
				w.server.pod("before"),
			)
		}
	})
}

func boundPod(name string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName: "edge", RestartPolicy: corev1.RestartPolicyAlways, AutomountServiceAccountToken: &no,
			EnableServiceLinks: &no,
			Containers:         []corev1.Container{{Name: "a", Image: "busybox", Command: []string{"sleep", "infinity"}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func deletedPod(name string) *corev1.Pod {
	pod, grace := boundPod(name), int64(1)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Second)}, &grace
	return pod
}
