package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/wait"
)

const (
	hugePods  = 10_000
	hugeLimit = 10 * time.Minute
	// settle is how long a node is left alone before it is at rest, and watched how
	// long it is watched then.
	settle  = 20 * time.Second
	watched = 30 * time.Second
	// adoptLimit bounds a restart.
	adoptLimit = 2 * time.Minute
)

// The bars of design.md section 10.
const (
	barRest    = 2.0  // percent of a core
	barMemory  = 20.0 // KiB a pod, beyond a process with the pod informer alone
	barRestart = 10.0 // seconds
)

// BenchmarkSimTenThousandPods brings up 10,000 pods on one node whose remote is a
// process of its own, looks at the node at rest, kills it with SIGKILL and starts
// it again.
func BenchmarkSimTenThousandPods(b *testing.B) {
	c := theCluster(b)
	socket := newSim(b, hugePods+100)
	n := contend(b, newBurstlet(b, c, "bench-huge", socket, hugePods+100))
	reference := newReference(b, c, n.name)
	n.profiled(b, "huge-up", func() {
		start := time.Now()
		c.createAll(b, n.namespace, n.name, hugePods, false)
		n.watch.until(hugeLimit, hugePods)
		results.tell(b, "10,000 pods: up", hugePods/time.Since(start).Seconds(), "huge-up-pods/s")
	})
	atRest(b, n, reference, "at rest")
	restart(b, n)
	fresh := newReference(b, c, n.name)
	atRest(b, n, fresh, "at rest, restarted")
	from := time.Now()
	c.deleteAll(b, n.namespace, hugePods)
	n.watch.until(hugeLimit, 0)
	results.tell(b, "10,000 pods: down", hugePods/time.Since(from).Seconds(), "huge-down-pods/s")
}

// atRest measures a node that nothing happens on.
func atRest(b *testing.B, n *contender, reference *process, when string) {
	b.Helper()
	time.Sleep(settle)
	from := auditMark(b)
	n.profiled(b, "huge-"+strings.ReplaceAll(when, " ", "-"), func() {
		start, used := time.Now(), n.cpu()
		time.Sleep(watched)
		percent := 100 * (n.cpu() - used).Seconds() / time.Since(start).Seconds()
		results.bar(b, "10,000 pods: CPU "+when, percent, unit(when, "core-%"), atMost, barRest)
	})
	rss, base := n.rss(), reference.rss()
	results.bar(
		b, "10,000 pods: memory beyond the informer's, "+when, (rss-base)/hugePods/1024, unit(when, "KiB/pod"), atMost,
		barMemory,
	)
	results.tell(b, "10,000 pods: RSS "+when, rss/(1<<20), unit(when, "MiB"))
	results.tell(b, "10,000 pods: RSS of the informer alone, "+when, base/(1<<20), unit(when, "informer-MiB"))
	if w := countWrites(b, n.user, from, auditMark(b)); w.pods()+w.Events > 0 {
		b.Errorf("%s the node wrote %+v", when, w)
	}
}

func unit(when, unit string) string {
	if when == "at rest" {
		return "rest-" + unit
	}
	return "restarted-" + unit
}

// restart kills the node and measures how long a new process takes until it has
// decided on every pod and found each one's status in the API.
func restart(b *testing.B, n *contender) {
	b.Helper()
	n.kill()
	from := auditMark(b)
	start := time.Now()
	n.process = n.launch()
	wait.For(b, adoptLimit, "every pod is adopted", func() error {
		n.running()
		const name = "burstlet_status_writes_total"
		same, err := n.metric(b.Context(), name, `result="unchanged"`)
		if err != nil {
			return err
		}
		wrote, err := n.metric(b.Context(), name, `result="written"`)
		if err == nil && same+wrote < hugePods {
			err = fmt.Errorf("%g statuses found in the API, %g written", same, wrote)
		}
		return err
	})
	results.bar(b, "10,000 pods: restart", time.Since(start).Seconds(), "restart-s", atMost, barRestart)
	n.watch.until(lifeLimit, hugePods)
	w := countWrites(b, n.user, from, auditMark(b))
	b.Logf("restart: %+v", w)
	// Nothing changed while the node was away, so each write is one too many.
	results.bar(b, "10,000 pods: writes after the restart", float64(w.pods()), "restart-writes", atMost, 0)
}
