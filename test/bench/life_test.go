package bench

import (
	"testing"
	"time"
)

const (
	lives     = 30
	lifeLimit = 30 * time.Second
	// barWrites is how many writes of the pod a life on the sim may take.
	barWrites = 3
)

// BenchmarkSimWritesPerLife counts what a pod's life costs the API server, one
// pod at a time, so that nothing waits behind anything.
func BenchmarkSimWritesPerLife(b *testing.B) {
	c := theCluster(b)
	socket := newSim(b, 100)
	for _, remote := range []struct{ name, socket string }{{"lives-within", ""}, {"lives-apart", socket}} {
		n := contend(b, newBurstlet(b, c, remote.name, remote.socket, 100))
		from := auditMark(b)
		for range lives {
			c.createAll(b, n.namespace, n.name, 1, false)
			n.watch.until(lifeLimit, 1)
			c.deleteAll(b, n.namespace, 1)
			n.watch.until(lifeLimit, 0)
		}
		n.running()
		w := countWrites(b, n.user, from, auditMark(b))
		b.Logf("%s: %+v", remote.name, w)
		per := func(n int) float64 { return float64(n) / lives }
		results.bar(b, remote.name+": pod writes per life", per(w.pods()), remote.name+"-writes/life", atMost, barWrites)
		results.tell(b, remote.name+": events per life", per(w.Events), remote.name+"-events/life")
	}
}
