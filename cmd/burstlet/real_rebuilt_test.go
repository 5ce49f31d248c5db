package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// Service default/kubernetes, whose UID told the node's pods from others', is deleted and
// comes back as another: the next process goes on with the pods. A changed node.identity
// it refuses, before it does anything.
//
// It runs beside no other test of this package: nodes that start meanwhile need the Service.
func TestRealServiceKubernetesIsMadeAgain(t *testing.T) {
	lane.From(t, lane.Gate) // the API server takes ten seconds
	s := newStage(t)
	file := fmt.Sprintf(`
node: {name: rebuilt, internalIP: 127.0.0.1%%s}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%%%SOCKET%%%%"}}
`, s.nodeKubeconfig("rebuilt"))
	cfg := s.configure(fmt.Sprintf(file, ""))
	first := s.run(cfg)
	s.ready("rebuilt")
	pod := s.pod("rebuilt", "rebuilt-1")
	s.podReady(pod.Name)
	first.end()

	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), "rebuilt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Times of objects have whole seconds: a Service of the same second is not known to be newer.
	wait.For(t, patience, "the second of the Node is over", func() error {
		if time.Now().Before(node.CreationTimestamp.Add(time.Second)) {
			return errNotYet
		}
		return nil
	})
	services := s.admin.CoreV1().Services(metav1.NamespaceDefault)
	old, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := services.Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the API server makes its Service again", func() error {
		now, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil && now.UID == old.UID {
			err = errNotYet
		}
		return err
	})

	other := s.configure(fmt.Sprintf(file, ", identity: other"))
	if err := runNodes(t.Context(), other); err == nil || !strings.Contains(err.Error(), "node.identity") {
		t.Errorf("with another identity: %v", err)
	}
	second := s.run(cfg)
	s.pod("rebuilt", "rebuilt-2")
	s.podReady("rebuilt-2") // after all that the second found was adopted
	now, err := s.admin.CoreV1().Pods("default").Get(context.WithoutCancel(t.Context()), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	audit := s.remote.Audit()
	starts := audit.Starts[sim.ContainerKey{UID: pod.UID, Name: "c"}]
	if launches := audit.Launches[pod.UID]; launches != 1 || starts != 1 ||
		now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was launched %d times, started %d times, %+v", launches, starts, now.Status.ContainerStatuses)
	}
	second.end()
}
