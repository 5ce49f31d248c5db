package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// A second release takes a node that a first has, by an election of its own: both say so
// on the Node. One that is to stop does not start.
func TestRealTwoReleasesWithOneNode(t *testing.T) {
	lane.From(t, lane.Gate) // a lease is renewed every ten seconds
	t.Parallel()
	s := newStage(t)
	const name = "shared"
	health := map[string]int{"default": ports.Free(t), "kube-public": ports.Free(t)}
	release := func(election, more string) string {
		return fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1%s}
kubeconfig: %s
leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}
healthzPort: %d
healthzMetrics: true
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
`, name, more, s.nodeKubeconfig(name), election, s.cp.KubeconfigPath(), health[election])
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
	for election, port := range health {
		// The first alone is not reported. Of the Events one may be that of the process that did not start.
		wait.For(t, patience, "foreign renewals that the process of "+election+" counts", func() error {
			if n := foreignRenewals(t, port); n < 2 {
				return fmt.Errorf("%v", n)
			}
			return nil
		})
	}
	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !strings.Contains(node.Annotations["burstlet.dev/holder"], "/burstlet-shared") {
		t.Errorf("the Node's annotations %v, %v", node.Annotations, err)
	}
}

// foreignRenewals is what a process of one node counts.
func foreignRenewals(t *testing.T, health int) float64 {
	t.Helper()
	text, err := fetch(health, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^burstlet_node_foreign_lease_renewals_total\S* (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the metrics have no such counter:\n%s", text)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
