package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// A second release takes a node that a first has, by an election of its own: both say so
// on the Node. One that is to stop does not start.
func TestRealTwoReleasesWithOneNode(t *testing.T) {
	lane.From(t, lane.Gate) // a lease is renewed every ten seconds
	t.Parallel()
	s := newStage(t)
	const name = "shared"
	release := func(election, more string) string {
		return fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1%s}
kubeconfig: %s
leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
`, name, more, s.nodeKubeconfig(name), election, s.cp.KubeconfigPath())
	}
	s.run(s.configure(release("default", "")))
	s.ready(name)
	wait.For(t, patience, "its lease", func() error {
		_, err := s.admin.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
	err := runNodes(t.Context(), s.configure(release("kube-public", ", onOtherProcess: stop")))
	if err == nil || !strings.Contains(err.Error(), "by lease default/burstlet-shared") ||
		!strings.Contains(err.Error(), "node.onOtherProcess") {
		t.Errorf("a process that is to stop: %v", err)
	}
	s.run(s.configure(release("kube-public", "")))
	wait.For(t, patience, "both report the other", func() error {
		events, err := s.admin.CoreV1().Events("default").List(
			t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name},
		)
		if err != nil {
			return err
		}
		all := ""
		for i := range events.Items {
			if events.Items[i].Reason == "HeldByAnotherProcess" {
				all += events.Items[i].Message + "\n"
			}
		}
		for _, lease := range []string{"default", "kube-public"} {
			if !strings.Contains(all, "this is process ") ||
				!strings.Contains(all, "by lease "+lease+"/burstlet-shared. End one") {
				return errors.Join(errNotYet, errors.New(all))
			}
		}
		return nil
	})
	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !strings.Contains(node.Annotations["burstlet.dev/holder"], "/burstlet-shared") {
		t.Errorf("the Node's annotations %v, %v", node.Annotations, err)
	}
}
