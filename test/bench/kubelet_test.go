package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/parts/kubelet"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// For a quick trial: -besidebatches 1 -besideprobed 5 -besiderounds 1 -besideburst 6.
var (
	besideBatches = flag.Int(
		"besidebatches", 10, "batches of 20 pods that are started one by one on the kubelet and on burstlet",
	)
	besideProbed = flag.Int("besideprobed", 60, "pods with an exec readiness probe that are started one by one")
	besideRounds = flag.Int("besiderounds", 2, "bursts of pods at once on each, in turn; the better counts")
	besideBurst  = flag.Int("besideburst", 60, "pods of a burst, and of a node at rest")
)

const (
	besideWarmUp = 5
	besideAlone  = 10
	// besideBatch is how many pods come one by one before they go at once.
	besideBatch = 20
	burstWarmUp = 10
	burstLimit  = 2 * time.Minute
	// sameQPS lets both ask the API server as often as they like.
	sameQPS = 100_000
)

// The bars of design.md section 10, in terms of the kubelet in the same run.
const (
	barStart    = 0.5 // of its median
	barStartP99 = 1.0 // of its median
	// What a kubelet took when the bars of the probe and the deletion were set.
	refProbed, refGone = 0.60, 2.2
	barProbed          = 0.35
	barProbedP99       = 1.2
	barGone            = 1.0
	barBurst           = 1.5
	barLifeWrites      = 4
	barRawSocket       = 0.85
	barRawSSH          = 0.75
	barMemoryBeside    = 0.5
)

// newKubelet starts a kubelet on a host of its own, of the kind that burstlet's
// pods run on.
func newKubelet(b *testing.B, c *cluster, name string) (*contender, *remotehost.Host) {
	b.Helper()
	h := remotehost.ForTest(b)
	p := &process{b: b, name: name}
	k := kubelet.ForTest(
		b, c.ControlPlane, h, kubelet.Config{Node: name, QPS: sameQPS, Verbosity: kubeletVerbosity(), Log: &p.log},
	)
	p.ran, p.pid = k, k.Pid()
	b.Cleanup(p.keepLog)
	n := &node{
		process: p, c: c, name: name, user: "system:node:" + name, api: "https://" + k.Address(),
		asAdmin: adminOfKubelets(b, c, h.DialContext),
	}
	n.ready(b)
	return contend(b, n), h
}

// kubeletVerbosity is a kubelet's usual one, or one that tells of every step where
// profiles are asked for.
func kubeletVerbosity() int {
	if os.Getenv(profileEnv) != "" {
		return 4
	}
	return 2
}

// BenchmarkBesideKubeletStart measures create -> Ready one by one, in turn, each
// beside those of its batch that came before; how long the pods of a batch take to
// go at once; and what a life costs the API server.
func BenchmarkBesideKubeletStart(b *testing.B) {
	c := theCluster(b)
	theirs, _ := newKubelet(b, c, "bench-kubelet-start")
	ours, _ := newSSHNode(b, c, "bench-beside-start")
	both := []*contender{theirs, ours}
	started, gone := map[*contender][]time.Duration{}, map[*contender][]time.Duration{}
	first := auditMark(b)
	for _, n := range both { // a warm-up, and lives one by one whose writes count
		n.starts(b, "alone", besideAlone, 0)
	}
	from := auditMark(b)
	before := map[*contender]histograms{theirs: theirs.histograms(b), ours: ours.histograms(b)}
	ours.profiled(b, "beside-start", func() {
		for batch := range *besideBatches {
			for i := range besideBatch {
				for _, n := range both {
					started[n] = append(started[n], n.start(b, batchPod(batch, i), i))
				}
			}
			for _, n := range both {
				gone[n] = append(gone[n], n.goAtOnce(b, batch)...)
			}
		}
	})
	to := auditMark(b)
	for _, n := range both {
		slices.Sort(started[n])
		slices.Sort(gone[n])
		b.Logf("%s, mean times:\n%s", n.name, n.histograms(b).since(before[n]))
	}
	reportStarts(b, started[theirs], started[ours])
	reportGone(b, gone[theirs], gone[ours])
	results.tell(
		b, "kubelet: pod writes per life, one by one", perLife(b, theirs, first, from, besideAlone), "kubelet-writes/life",
	)
	results.bar(
		b, "over SSH: pod writes per life, one by one", perLife(b, ours, first, from, besideAlone), "ssh-writes/life", atMost,
		barLifeWrites,
	)
	batched := *besideBatches * besideBatch
	results.tell(
		b, "kubelet: pod writes per life, 20 deleted at once", perLife(b, theirs, from, to, batched),
		"kubelet-batch-writes/life",
	)
	results.tell(
		b, "over SSH: pod writes per life, 20 deleted at once", perLife(b, ours, from, to, batched), "ssh-batch-writes/life",
	)
}

func reportStarts(b *testing.B, theirs, ours []time.Duration) {
	b.Helper()
	k50 := quantile(theirs, 0.5).Seconds()
	results.tell(b, "kubelet: create -> Ready, p50", k50, "kubelet-start-s")
	results.tell(b, "kubelet: create -> Ready, p99", quantile(theirs, 0.99).Seconds(), "kubelet-start-p99-s")
	results.bar(
		b, "over SSH: create -> Ready, p50, beside the kubelet's", quantile(ours, 0.5).Seconds(), "beside-start-s", atMost,
		barStart*k50,
	)
	results.bar(
		b, "over SSH: create -> Ready, p99, beside the kubelet's p50", quantile(ours, 0.99).Seconds(), "beside-start-p99-s",
		atMost, barStartP99*k50,
	)
}

func reportGone(b *testing.B, theirs, ours []time.Duration) {
	b.Helper()
	k50 := quantile(theirs, 0.5).Seconds()
	results.tell(b, "kubelet: delete -> gone, 20 at once, p50", k50, "kubelet-gone-s")
	results.tell(b, "kubelet: delete -> gone, 20 at once, p99", quantile(theirs, 0.99).Seconds(), "kubelet-gone-p99-s")
	results.bar(
		b, "over SSH: delete -> gone, 20 at once, p50", quantile(ours, 0.5).Seconds(), "beside-gone-s", atMost,
		barGone*k50/refGone,
	)
	results.tell(b, "over SSH: delete -> gone, 20 at once, p99", quantile(ours, 0.99).Seconds(), "beside-gone-p99-s")
}

// perLife is how often a node wrote a pod between two marks of the audit log, for
// each of its lives then.
func perLife(b *testing.B, n *contender, from, to int64, lives int) float64 {
	b.Helper()
	w := countWrites(b, n.user, from, to)
	b.Logf("%s, %d lives: %+v", n.name, lives, w)
	return float64(w.pods()) / float64(lives)
}

func batchPod(batch, i int) string { return fmt.Sprintf("pod-%02d-%03d", batch, i) }

// goAtOnce is how long each pod of a batch took from its deletion until it was
// gone.
func (c *contender) goAtOnce(b *testing.B, batch int) []time.Duration {
	b.Helper()
	asked := make([]time.Time, besideBatch)
	forEach(b, besideBatch, func(ctx context.Context, i int) error {
		asked[i] = time.Now()
		return c.c.client.CoreV1().Pods(c.namespace).Delete(ctx, batchPod(batch, i), metav1.DeleteOptions{})
	})
	c.watch.until(burstLimit, 0)
	took := make([]time.Duration, besideBatch)
	for i := range took {
		took[i] = c.watch.goneAt(c.namespace, batchPod(batch, i)).Sub(asked[i])
	}
	return took
}

// withProbe gives a pod a readiness probe that runs a command every second.
func withProbe(p *corev1.Pod) {
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
		PeriodSeconds: 1,
	}
}

// BenchmarkBesideKubeletProbedStart measures create -> Ready of pods whose
// readiness is probed, one by one, in turn, each alone.
func BenchmarkBesideKubeletProbedStart(b *testing.B) {
	c := theCluster(b)
	theirs, _ := newKubelet(b, c, "bench-kubelet-probed")
	ours, _ := newSSHNode(b, c, "bench-beside-probed")
	took := map[*contender][]time.Duration{}
	for i := range besideWarmUp + *besideProbed {
		for _, n := range []*contender{theirs, ours} {
			p := busyboxPod(n, fmt.Sprintf("pod-%03d", i))
			withProbe(p)
			ready := n.lifeOf(b, p, 0)
			if i >= besideWarmUp {
				took[n] = append(took[n], ready)
			}
		}
	}
	slices.Sort(took[theirs])
	slices.Sort(took[ours])
	k50 := quantile(took[theirs], 0.5).Seconds()
	results.tell(b, "kubelet: create -> Ready with an exec probe, p50", k50, "kubelet-probed-s")
	results.tell(
		b, "kubelet: create -> Ready with an exec probe, p99", quantile(took[theirs], 0.99).Seconds(), "kubelet-probed-p99-s",
	)
	scale := k50 / refProbed
	results.bar(
		b, "over SSH: create -> Ready with an exec probe, p50", quantile(took[ours], 0.5).Seconds(), "beside-probed-s",
		atMost, barProbed*scale,
	)
	results.bar(
		b, "over SSH: create -> Ready with an exec probe, p99", quantile(took[ours], 0.99).Seconds(), "beside-probed-p99-s",
		atMost, barProbedP99*scale,
	)
}
