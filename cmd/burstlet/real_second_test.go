package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// release is the configuration of a release with a node and an election in a namespace. more
// are further keys of the node.
func (s *stage) release(node, election, more string) config.Configuration {
	s.t.Helper()
	return s.configure(fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1, %s}
kubeconfig: %s
leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
`, node, more, s.nodeKubeconfig(node), election, s.cp.KubeconfigPath()))
}

// A second release takes a node that a first has, by an election of its own: both say so
// on the Node. One that is to stop does not start.
func TestRealTwoReleasesWithOneNode(t *testing.T) {
	lane.From(t, lane.Gate) // a lease is renewed every ten seconds
	t.Parallel()
	s := newStage(t)
	const name = "shared"
	health := map[string]int{"default": ports.Free(t), "kube-public": ports.Free(t)}
	release := func(election, more string) config.Configuration {
		cfg := s.release(name, election, more)
		cfg.HealthzPort, cfg.HealthzMetrics = health[election], true
		return cfg
	}
	s.run(release("default", ""))
	s.ready(name)
	wait.For(t, patience, "its lease", func() error {
		_, err := s.admin.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
	stops, done := release("kube-public", "onOtherProcess: stop"), make(chan error, 1)
	go func() { done <- untilItEnds(t.Context(), stops) }()
	err := ended(t, done)
	if err == nil || !strings.Contains(err.Error(), "by lease default/burstlet-shared") ||
		!strings.Contains(err.Error(), "node.onOtherProcess") {
		t.Errorf("a process that is to stop: %v", err)
	}
	s.run(release("kube-public", ""))
	for election, port := range health {
		// The first alone is not reported. Of the Events one may be that of the process that did not start.
		wait.For(t, patience, "foreign renewals that the process of "+election+" counts", func() error {
			if n, err := foreignRenewals(port); err != nil || n < 2 {
				return fmt.Errorf("%v: %w", n, cmp.Or(err, errNotYet))
			}
			return nil
		})
	}
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

// A release is uninstalled, leaving the node, and installed under another name, in another
// namespace: the node is on its remote who it was, and its pods keep their containers.
func TestRealReleaseIsRenamed(t *testing.T) {
	lane.From(t, lane.Gate) // beside TestRealTwoReleasesWithOneNode
	t.Parallel()
	s := newStage(t)
	const name = "renamed"
	first := s.run(s.release(name, "default", ""))
	s.ready(name)
	pod := s.pod(name, "renamed-1")
	s.podReady(pod.Name)
	identity := s.identity(name)
	first.end()

	cfg := s.release(name, "kube-public", "")
	cfg.LeaderElection.Name = "another-release"
	second := s.run(cfg)
	s.pod(name, "renamed-2")
	s.podReady("renamed-2") // after all that the second found was adopted
	lease, err := s.admin.CoordinationV1().Leases("kube-public").Get(t.Context(), "another-release", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("nobody leads by the other release's lease %+v: %v", lease, err)
	}
	if now := s.identity(name); now != identity || identity == "" {
		t.Errorf("the identity was %q and is %q", identity, now)
	}
	audit := s.remote.Audit()
	starts := audit.Starts[sim.ContainerKey{UID: pod.UID, Name: "c"}]
	if launches := audit.Launches[pod.UID]; launches != 1 || starts != 1 || len(audit.Violations) > 0 {
		t.Errorf("the pod was launched %d times, started %d times; violations: %v", launches, starts, audit.Violations)
	}
	second.end()
}

// identity is what a node has on its remote.
func (s *stage) identity(node string) string {
	s.t.Helper()
	n, err := s.admin.CoreV1().Nodes().Get(s.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return n.Annotations["burstlet.dev/identity"]
}

// foreignRenewals is what a process of one node counts.
func foreignRenewals(health int) (float64, error) {
	text, err := fetch(health, "/metrics")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^burstlet_node_foreign_lease_renewals_total\S* (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the metrics have no such counter:\n%s", text)
	}
	return strconv.ParseFloat(found[1], 64)
}
