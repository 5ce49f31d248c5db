package bench

import (
	"fmt"
	"testing"
	"time"
)

const (
	manyPods  = 1_000
	rounds    = 2 // of each contender, in turn, the better counts; with tokens one
	warmUp    = 50
	manyLimit = 3 * time.Minute
)

// The bars of design.md section 10, in terms of kwok.
const (
	barUp   = 1.0
	barDown = 0.8
)

// contender is a node with what a burst of pods on it needs.
type contender struct {
	*node
	watch     *watcher
	namespace string
}

func contend(b *testing.B, n *node) *contender {
	b.Helper()
	return &contender{n, n.c.watchPods(b, n.name), n.c.namespace(b, n.name)}
}

// burst is what one burst of pods showed.
type burst struct {
	up, down           float64 // pods a second
	upWrites, dnWrites writes
}

// run creates pods at once, waits until all are Ready, deletes them at once and
// waits until all are gone.
func (c *contender) run(b *testing.B, phase string, pods int, token bool) (r burst) {
	b.Helper()
	first := auditMark(b)
	c.profiled(b, phase+"-up", func() {
		start := time.Now()
		c.c.createAll(b, c.namespace, c.name, pods, token)
		c.watch.until(manyLimit, pods)
		r.up = float64(pods) / time.Since(start).Seconds()
	})
	second := auditMark(b)
	c.profiled(b, phase+"-down", func() {
		start := time.Now()
		c.c.deleteAll(b, c.namespace, pods)
		c.watch.until(manyLimit, 0)
		r.down = float64(pods) / time.Since(start).Seconds()
	})
	c.running()
	r.upWrites = countWrites(b, c.user, first, second)
	r.dnWrites = countWrites(b, c.user, second, auditMark(b))
	return r
}

// best keeps the better rates of two bursts, and the writes of the later.
func (r burst) best(o burst) burst {
	o.up, o.down = max(r.up, o.up), max(r.down, o.down)
	return o
}

func (r burst) String() string {
	return fmt.Sprintf("up %.0f/s (%+v), down %.0f/s (%+v)", r.up, r.upWrites, r.down, r.dnWrites)
}

// BenchmarkSimThousandPods creates and deletes 1,000 pods at once on a simulated
// node and on kwok, in turn, without and with token volumes.
func BenchmarkSimThousandPods(b *testing.B) {
	c := theCluster(b)
	kwok := contend(b, newKwok(b, c, "bench-kwok"))
	ours := contend(b, newBurstlet(b, c, "bench-sim", "", 2*manyPods))
	socket := newSim(b, 2*manyPods)
	apart := contend(b, newBurstlet(b, c, "bench-apart", socket, 2*manyPods))
	b.ResetTimer()
	for _, n := range []*contender{kwok, ours, apart} {
		n.run(b, n.name+"-warm", warmUp, true)
	}
	for _, token := range []bool{false, true} {
		what := map[bool]string{false: "plain", true: "tokens"}[token]
		var k, o, a burst
		turns := rounds
		if token {
			turns = 1
		}
		for i := range turns {
			for _, turn := range []struct {
				*contender
				best *burst
			}{{kwok, &k}, {ours, &o}, {apart, &a}} {
				r := turn.run(b, fmt.Sprintf("%s-%s-%d", turn.name, what, i), manyPods, token)
				b.Logf("%s %s: %s", turn.name, what, r)
				*turn.best = turn.best.best(r)
			}
		}
		report(b, what, k, o, a)
	}
}

func report(b *testing.B, what string, kwok, ours, apart burst) {
	b.Helper()
	results.tell(b, what+": kwok up", kwok.up, "kwok-"+what+"-up-pods/s")
	results.tell(b, what+": kwok down", kwok.down, "kwok-"+what+"-down-pods/s")
	results.bar(b, what+": up, beside kwok", ours.up, what+"-up-pods/s", atLeast, barUp*kwok.up)
	results.bar(b, what+": down, beside kwok", ours.down, what+"-down-pods/s", atLeast, barDown*kwok.down)
	results.tell(b, what+": up, remote in another process", apart.up, "apart-"+what+"-up-pods/s")
	results.tell(b, what+": down, remote in another process", apart.down, "apart-"+what+"-down-pods/s")
	per := func(n int) float64 { return float64(n) / manyPods }
	results.tell(b, what+": pod writes up, per pod", per(ours.upWrites.pods()), what+"-up-writes/pod")
	results.tell(b, what+": pod writes down, per pod", per(ours.dnWrites.pods()), what+"-down-writes/pod")
	results.tell(b, what+": events, per pod", per(ours.upWrites.Events+ours.dnWrites.Events), what+"-events/pod")
}
