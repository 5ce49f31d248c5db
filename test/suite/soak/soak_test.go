package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// How long, and how much; for a trial: -soak 5m -soakssh 20 -soaksim 200 -soakmaps 500.
var (
	duration = flag.Duration("soak", 0, "how long the nodes are under load; 0: not at all")
	counts   struct {
		ssh, sim, configMaps, big, floods, idle, streams, unread int
		churnSSH, churnSim                                       float64
	}
)

func init() {
	flag.IntVar(&counts.ssh, "soakssh", 200, "pods on a host over SSH; 0: no such node")
	flag.IntVar(&counts.sim, "soaksim", 2000, "simulated pods")
	flag.IntVar(&counts.configMaps, "soakmaps", 5000, "ConfigMaps, which the simulated pods mount")
	flag.IntVar(&counts.big, "soakbig", 10, "simulated pods of 1 MiB")
	flag.IntVar(&counts.floods, "soakfloods", 10, "clients that send 10 bad tokens a second to each kubelet API")
	flag.IntVar(&counts.idle, "soakidle", 500, "idle connections to each kubelet API")
	flag.IntVar(&counts.streams, "soakstreams", 50, "logs that are followed")
	flag.IntVar(&counts.unread, "soakunread", 520,
		"streams that nobody reads of each kubelet API, which takes 500 at once")
	flag.Float64Var(&counts.churnSSH, "soakchurnssh", 0.2, "pods on the host that are replaced per second")
	flag.Float64Var(&counts.churnSim, "soakchurnsim", 2, "simulated pods that are replaced per second")
}

// tenths is in how many parts the run is cut.
const tenths = 10

// TestSoak holds two nodes under load to what docs/operations.md promises.
func TestSoak(t *testing.T) {
	if *duration == 0 {
		t.Skip("make soak runs this: -soak says for how long")
	}
	w := newWorld(t)
	w.pods.watch(w)
	l := &load{world: w, pods: map[string][]string{}}
	began := time.Now()
	l.ramp()
	t.Logf("%+v: all Ready after %.0f s", counts, time.Since(began).Seconds())

	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	var steady atomic.Bool
	l.attack(ctx, &background)
	for _, node := range w.nodes {
		perSecond := map[string]float64{nodeSim: counts.churnSim, nodeSSH: counts.churnSSH}[node]
		background.Go(func() { l.churn(ctx, node, perSecond) })
		background.Go(func() { l.scrapes(ctx, node, &steady) })
	}
	if counts.configMaps > 0 {
		background.Go(func() { l.edit(ctx) })
	}
	for range counts.streams {
		background.Go(func() { l.follow(ctx) })
	}

	began = time.Now()
	tenth := *duration / tenths
	terms := l.transitions()
	took := []time.Duration{w.killLeader()}
	w.must(pause.For(ctx, time.Until(began.Add(tenth))))
	judged := l.steady(ctx, tenth, &steady)
	for range 2 {
		took = append(took, w.killLeader())
		w.must(pause.For(ctx, tenth/2))
	}
	ended := time.Now()
	stop()
	background.Wait()

	judged.report(t)
	l.judgeLeases(began, ended)
	l.judgeFailovers(terms, took)
	l.settled()
	l.judgeEnd()
}

// settled waits until every pod that should be there is Ready, and none else is there.
func (l *load) settled() {
	l.Helper()
	for _, node := range l.nodes {
		want := len(l.pods[node])
		wait.For(l.T, 2*patience, fmt.Sprintf("%d pods on %s", want, node), func() error {
			there := l.world.pods.count(node, func(p *life) bool { return !p.gone })
			ready := l.world.pods.count(node, func(p *life) bool { return !p.gone && !p.ready.IsZero() && !p.terminal })
			if there != want || ready != want {
				return fmt.Errorf("%d are there, %d Ready", there, ready)
			}
			return errors.Join(l.processes[0].Err(), l.processes[1].Err())
		})
	}
}

// verdict is what a steady time showed.
type verdict struct {
	rows []string
	errs []error
}

func (v *verdict) add(err error, format string, args ...any) {
	v.rows = append(v.rows, fmt.Sprintf(format, args...))
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

func (v *verdict) report(t *testing.T) {
	t.Helper()
	for _, row := range v.rows {
		t.Log(row)
	}
	if err := errors.Join(v.errs...); err != nil {
		t.Error(err)
	}
}

// atMost is an error if a number is more than what is promised.
func atMost(what string, got, want float64) error {
	if got > want {
		return fmt.Errorf("%s is %.3g, want at most %.3g", what, got, want)
	}
	return nil
}

// steady lets one process lead from the second tenth to the ninth, kills the one that
// stands by now and then, and judges the time.
func (l *load) steady(ctx context.Context, tenth time.Duration, steady *atomic.Bool) *verdict {
	l.Helper()
	leader := int(l.leader.Load())
	before, err := l.scrape(leader)
	l.must(err)
	from := time.Now()
	var used []use
	steady.Store(true)
	var cuts []time.Time
	for i := range tenths - 2 {
		cuts = append(cuts, from.Add(time.Duration(i)*tenth))
		if i%3 == 2 {
			l.killStandby()
		}
		for time.Since(from) < time.Duration(i+1)*tenth {
			l.must(pause.For(ctx, max(time.Second, tenth/50)))
			m, err := l.scrape(leader)
			l.must(err)
			used = append(used, m.use())
		}
	}
	steady.Store(false)
	to := time.Now()
	after, err := l.scrape(leader)
	l.must(err)
	v := &verdict{}
	l.judgeUse(v, used, append(cuts, to))
	for _, node := range l.nodes {
		l.judgePods(v, node, from, to, before, after)
	}
	l.judgeClients(v)
	l.judgeStreams(v, before, after)
	return v
}

func (l *load) judgeUse(v *verdict, used []use, cuts []time.Time) {
	for _, of := range []struct {
		what   string
		number func(use) float64
		slack  float64
	}{
		{"memory (MiB)", func(u use) float64 { return u.memory }, 8},
		{"live heap (MiB)", func(u use) float64 { return u.live }, 8},
		{"goroutines", func(u use) float64 { return u.gophers }, 100},
		{"open files", func(u use) float64 { return u.fds }, 50},
	} {
		cut := parts(used, of.number, cuts)
		medians := make([]float64, len(cut))
		for i := range cut {
			medians[i] = median(cut[i])
		}
		v.add(flat(of.what, cut, of.slack), "%s, median of each tenth from the second on: %.0f", of.what, medians)
	}
}

func (l *load) judgePods(v *verdict, node string, from, to time.Time, before, after metrics) {
	// Those of the last moments may not be Ready yet.
	took, never := l.world.pods.starts(node, from, to.Add(-podStart))
	p50, p99 := median(took), quantile(took, 0.99)
	err := atMost(node+": create -> Ready, p99", p99, podStart.Seconds())
	if len(took) == 0 || never > 0 {
		err = errors.Join(err, fmt.Errorf("%s: of %d pods %d were never Ready", node, len(took)+never, never))
	}
	v.add(err, "%s: %d pods replaced, create -> Ready p50 %.2f s, p99 %.2f s", node, len(took), p50, p99)

	const latency = "kubelet_pod_status_sync_duration_seconds"
	changes := since(before.buckets(latency, node), after.buckets(latency, node))
	bound, count := within(changes, 0.99)
	half, _ := within(changes, 0.5)
	err = atMost(node+": a status in the API, p99", bound, statusLatency.Seconds())
	if count == 0 {
		err = fmt.Errorf("%s: no status was written", node)
	}
	v.add(err, "%s: %.0f statuses, in the API within %g s (p50), %g s (p99)", node, count, half, bound)

	lives, _ := l.world.pods.starts(node, from, to)
	writes := (after.podWrites(node) - before.podWrites(node)) / float64(max(1, len(lives)))
	v.add(atMost(node+": writes of a pod a life", writes, lifeWrites), "%s: %.2f writes of a pod a life", node, writes)
}

func (l *load) judgeClients(v *verdict) {
	scraped, unanswered := l.scraped.Load(), l.unanswered.Load()
	v.add(atMost("part of scrapes without an answer", float64(unanswered)/float64(max(1, scraped)), 0.01),
		"%d scrapes, %d without an answer; %d logs followed", scraped, unanswered, l.followed.Load())
	var sent, refused, opened, crowded int64
	for _, enemy := range l.enemies {
		sent, refused = sent+enemy.Sent(), refused+enemy.Refused()
		opened, crowded = opened+enemy.Opened(), crowded+enemy.Crowded()
	}
	v.add(nil, "%d bad tokens sent, %d refused unseen; %d streams opened that nobody reads, %d refused",
		sent, refused, opened, crowded)
}

// judgeStreams wants the hostile client to have held most streams of each node, and all of one at least.
func (l *load) judgeStreams(v *verdict, before, after metrics) {
	var err error
	var turnedAway float64
	for _, node := range l.nodes {
		of := []string{"node", node, "server", "kubelet_api", "kind", "streams"}
		held, limit := after.value("burstlet_http_in_flight", of...), after.value("burstlet_http_limit", of...)
		const refusals = "burstlet_http_refused_total"
		refused := after.value(refusals, of...) - before.value(refusals, of...)
		turnedAway += refused
		v.add(nil, "%s: %.0f of %.0f streams held, %.0f refused", node, held, limit, refused)
		if held < limit/2 {
			err = errors.Join(err, fmt.Errorf("%s: only %.0f of %.0f streams are held", node, held, limit))
		}
	}
	if turnedAway == 0 {
		err = errors.Join(err, errors.New("no stream was refused"))
	}
	if counts.unread > 0 {
		v.add(err, "%.0f streams refused in all", turnedAway)
	}
}

func (l *load) judgeLeases(began, ended time.Time) {
	l.Helper()
	for _, node := range l.nodes {
		found := gaps(l.leases.of(node, began), l.kills, ended)
		l.Logf("%s: %d renewals of the lease, at most %.1f s between two, with a kill %.1f s", node, len(found),
			longest(found, false).Seconds(), longest(found, true).Seconds())
		if err := onTime(found); err != nil {
			l.Errorf("%s: lease: %v", node, err)
		}
	}
}

// judgeFailovers wants each kill to be followed in time, and no other change of hands.
func (l *load) judgeFailovers(before int, took []time.Duration) {
	l.Helper()
	l.Logf("takeovers after a kill: %v", took)
	if most := slices.Max(took); most > failover {
		l.Errorf("a takeover took %v, want %v", most, failover)
	}
	if terms := l.transitions() - before; terms != len(took) {
		l.Errorf("the nodes changed hands %d times, with %d kills", terms, len(took))
	}
}

// judgeEnd wants no container to have run twice, and nothing to be left behind.
func (l *load) judgeEnd() {
	l.Helper()
	for _, node := range l.nodes {
		if n := l.world.pods.count(node, func(p *life) bool { return p.restarts > 0 || p.terminal && !p.gone }); n > 0 {
			l.Errorf("%s: %d pods were restarted or ended", node, n)
		}
		names := l.pods[node]
		l.forEach(len(names), func(i int) error {
			return l.client.CoreV1().Pods(namespace).Delete(l.Context(), names[i], metav1.DeleteOptions{})
		})
		l.pods[node] = nil
	}
	l.settled()
	if l.host == nil {
		return
	}
	client, _ := l.host.CRI()
	left, err := client.ListPodSandbox(l.Context(), &runtimeapi.ListPodSandboxRequest{})
	l.must(err)
	if len(left.Items) > 0 {
		l.Errorf("%d sandboxes are left on the host", len(left.Items))
	}
}
