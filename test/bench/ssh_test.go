package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	oneByOne  = 100
	beside    = 40 // starts beside a copy
	delayed   = 20 // starts over a slow link
	sshWarmUp = 5
	hostPods  = 200

	copySize  = 1 << 30
	copyLimit = 5 * time.Minute
	linkDelay = 10 * time.Millisecond // each way
)

// The bars: issue "Real containers on a remote host", and design.md section 10.
const (
	barBesideCopy = 1.3
	barRoundTrips = 8
)

// newSSHNode starts a host and a burstlet node whose pods run there.
func newSSHNode(b *testing.B, c *cluster, name string) (*contender, *remotehost.Host) {
	b.Helper()
	h := remotehost.ForTest(b)
	n := newBurstletOn(b, c, name, fmt.Sprintf("  type: cri\n  cri: {endpoint: %q, ssh: {keyFiles: [%q], "+
		"knownHostsFile: %q}}\n",
		h.Endpoint(), h.KeyFile(), h.KnownHostsFile()), hostPods)
	return contend(b, n), h
}

// withCgroups runs a command that finds a host's cgroups ($0) where all of this
// machine's are, as on that host.
const withCgroups = `mount --make-rprivate /sys/fs/cgroup
for at in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[ ! -d "$at/$0" ] || mount --bind "$at/$0" "$at"
done
exec "$@"`

// newSocketNode starts a host and a burstlet node on the socket of its containerd.
func newSocketNode(b *testing.B, c *cluster, name string) (*contender, *remotehost.Host) {
	b.Helper()
	h := remotehost.ForTest(b)
	shared := func(name string) string { return filepath.Join(h.Shared(), name) }
	n := newBurstletOn(b, c, name, fmt.Sprintf("  type: cri\n  cri: {endpoint: %q, podsDir: %q, podLogsDir: %q, "+
		"containerLogsDir: %q}\n", "unix://"+h.Socket(), shared("pods"), shared("logs"), shared("links")), hostPods,
		// Mounts of volumes are to be seen on the host.
		"unshare", "--mount", "--propagation", "unchanged", "--", "sh", "-ec", withCgroups, h.Cgroup())
	return contend(b, n), h
}

// busyboxCommand runs until it is asked to end.
func busyboxCommand() []string {
	return []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}
}

// busyboxPod is a pod of one pre-pulled container, with its token, that ends when
// it is asked to.
func busyboxPod(n *contender, name string) *corev1.Pod {
	p := pod(n.namespace, name, n.name, true)
	p.Spec.Containers[0].Image = images.BusyboxRef
	p.Spec.Containers[0].Command = busyboxCommand()
	grace := int64(2) // it may be asked before its shell has set the trap
	p.Spec.TerminationGracePeriodSeconds = &grace
	return p
}

// life is one pod from its creation until it is gone, beside others that stay; it
// returns how long the pod took to be seen Ready.
func (c *contender) life(b *testing.B, name string, others int) time.Duration {
	b.Helper()
	return c.lifeOf(b, busyboxPod(c, name), others)
}

// lifeOf is the life of any pod.
func (c *contender) lifeOf(b *testing.B, pod *corev1.Pod, others int) time.Duration {
	b.Helper()
	took := c.startOf(b, pod, others)
	if err := c.c.client.CoreV1().Pods(c.namespace).Delete(b.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	c.watch.until(lifeLimit, others)
	return took
}

// start is how long one pod takes to be seen Ready, beside others that are.
func (c *contender) start(b *testing.B, name string, others int) time.Duration {
	b.Helper()
	return c.startOf(b, busyboxPod(c, name), others)
}

func (c *contender) startOf(b *testing.B, pod *corev1.Pod, others int) time.Duration {
	b.Helper()
	start := time.Now()
	if _, err := c.c.client.CoreV1().Pods(c.namespace).Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	c.watch.until(lifeLimit, others+1)
	return time.Since(start)
}

// starts are the times to Ready of pods one by one.
func (c *contender) starts(b *testing.B, phase string, count, others int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, count)
	for i := range took {
		took[i] = c.life(b, fmt.Sprintf("%s-%03d", phase, i), others)
	}
	slices.Sort(took)
	b.Logf(
		"%s %s: %d starts, min %v, p50 %v, p99 %v", c.name, phase, count, took[0], quantile(took, 0.5), quantile(took, 0.99),
	)
	return took
}

// quantile of what is sorted.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// BenchmarkSSHPodStart measures create -> Ready one by one over SSH and on a local
// socket in turn, and over a link that is slow: how many round trips a start has.
func BenchmarkSSHPodStart(b *testing.B) {
	c := theCluster(b)
	far, h := newSSHNode(b, c, "bench-ssh-start")
	near, _ := newSocketNode(b, c, "bench-socket-start")
	for _, n := range []*contender{far, near} {
		n.starts(b, "warm", sshWarmUp, 0)
	}
	var overSSH, onSocket []time.Duration
	far.profiled(b, "ssh-start", func() {
		for i := range oneByOne {
			overSSH = append(overSSH, far.life(b, fmt.Sprintf("pod-%03d", i), 0))
			onSocket = append(onSocket, near.life(b, fmt.Sprintf("pod-%03d", i), 0))
		}
	})
	slices.Sort(overSSH)
	slices.Sort(onSocket)
	results.tell(b, "create -> Ready on a local socket, p50", quantile(onSocket, 0.5).Seconds(), "socket-start-s")
	results.tell(b, "create -> Ready on a local socket, p99", quantile(onSocket, 0.99).Seconds(), "socket-start-p99-s")
	results.tell(b, "create -> Ready over SSH, p50", quantile(overSSH, 0.5).Seconds(), "ssh-start-s")
	results.tell(b, "create -> Ready over SSH, p99", quantile(overSSH, 0.99).Seconds(), "ssh-start-p99-s")
	results.tell(
		b, "create -> Ready over SSH, beside the socket", quantile(overSSH, 0.5).Seconds()/quantile(onSocket, 0.5).Seconds(),
		"ssh-start/socket",
	)

	h.Link().Delay(linkDelay)
	slow := far.starts(b, "slow", delayed, 0)
	trips := (quantile(slow, 0.5) - quantile(overSSH, 0.5)).Seconds() / (2 * linkDelay).Seconds()
	results.bar(b, "round trips of a start over SSH", trips, "ssh-round-trips", atMost, barRoundTrips)
}

// BenchmarkSSHCopyBesideStarts measures create -> Ready without and with kubectl
// copying a file of 1 GiB into and out of a pod of the same node, over and over.
// Here everything shares the machine's processors, the API server, kubectl and
// sshd too. A user's kubectl is on another machine: in the row with a bar it is run
// with the lowest priority, so that it takes no processor that others want. How
// starts do beside a copy on another node, which shares nothing but processors,
// tells the rest from what the link costs.
func BenchmarkSSHCopyBesideStarts(b *testing.B) {
	c := theCluster(b)
	n, _ := newSSHNode(b, c, "bench-ssh-copy")
	other, _ := newSSHNode(b, c, "bench-ssh-elsewhere")
	here, there := newCopier(b, n, c.Kubectl()), newCopier(b, other, c.Kubectl())
	n.starts(b, "warm", sshWarmUp, 1)
	without := quantile(n.starts(b, "alone", beside, 1), 0.5).Seconds()

	var with, greedy, elsewhere float64
	there.during(b, func() { elsewhere = quantile(n.starts(b, "elsewhere", beside, 1), 0.5).Seconds() })
	here.during(b, func() { greedy = quantile(n.starts(b, "greedy", beside, 1), 0.5).Seconds() })
	here.spent, here.patient = map[bool][]time.Duration{}, true
	here.during(b, func() {
		n.profiled(b, "ssh-copy", func() { with = quantile(n.starts(b, "beside", beside, 1), 0.5).Seconds() })
		for i := 0; !here.done(); i++ { // starts go on until there is a rate of copies beside them
			n.life(b, fmt.Sprintf("more-%03d", i), 1)
		}
	})
	results.tell(b, "create -> Ready over SSH without a copy, p50", without, "alone-start-s")
	results.tell(
		b, "create -> Ready beside a copy on another node, to without", elsewhere/without, "elsewhere-start-ratio",
	)
	results.tell(b, "the same on the same node", greedy/without, "greedy-copy-start-ratio")
	results.bar(
		b, "create -> Ready beside kubectl cp of 1 GiB from elsewhere, to without", with/without, "copy-start-ratio", atMost,
		barBesideCopy,
	)
	results.tell(b, "kubectl cp into the pod, beside starts", here.rate(true), "copy-in-MB/s")
	results.tell(b, "kubectl cp out of the pod, beside starts", here.rate(false), "copy-out-MB/s")

	here.spent, here.patient = map[bool][]time.Duration{}, false
	n.profiled(b, "ssh-copy-alone", func() { here.round(b.Context()) })
	here.check(b)
	results.tell(b, "kubectl cp into the pod, alone", here.rate(true), "copy-in-alone-MB/s")
	results.tell(b, "kubectl cp out of the pod, alone", here.rate(false), "copy-out-alone-MB/s")
}

// copier copies a file into a pod that stays, and out of it, with kubectl.
type copier struct {
	kubectl, access string
	namespace, pod  string
	source, target  string
	// patient is a kubectl that leaves the processors to everybody else.
	patient bool

	mu sync.Mutex
	// spent is how long whole copies took, by whether they went in.
	spent map[bool][]time.Duration
	err   error
}

func newCopier(b *testing.B, n *contender, kubectl string) *copier {
	b.Helper()
	dir := b.TempDir()
	c := &copier{
		kubectl: kubectl, access: n.c.KubeconfigPath(), namespace: n.namespace, pod: "copy",
		source: filepath.Join(dir, "source"), target: filepath.Join(dir, "target"), spent: map[bool][]time.Duration{},
	}
	write(b, c.source, "")
	if err := os.Truncate(c.source, copySize); err != nil {
		b.Fatal(err)
	}
	p := busyboxPod(n, c.pod)
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p.Spec.Volumes = []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	if _, err := n.c.client.CoreV1().Pods(n.namespace).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	n.watch.until(lifeLimit, 1)
	return c
}

// during copies over and over while f runs.
func (c *copier) during(b *testing.B, f func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var copying sync.WaitGroup
	copying.Go(func() {
		for ctx.Err() == nil && c.round(ctx) {
			continue
		}
	})
	f()
	cancel()
	copying.Wait()
	c.check(b)
}

// round copies in and out once, and is false when that failed.
func (c *copier) round(ctx context.Context) bool {
	inside := c.namespace + "/" + c.pod + ":/data/file"
	return c.copy(ctx, true, c.source, inside) && c.copy(ctx, false, inside, c.target)
}

func (c *copier) copy(ctx context.Context, in bool, from, to string) bool {
	bounded, cancel := context.WithTimeout(ctx, copyLimit)
	defer cancel()
	start := time.Now()
	argv := []string{c.kubectl, "--kubeconfig", c.access, "cp", "--retries=0", from, to}
	if c.patient {
		argv = append([]string{"nice", "-n", "19"}, argv...)
	}
	out, err := exec.CommandContext(bounded, argv[0], argv[1:]...).CombinedOutput()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		c.err = fmt.Errorf("kubectl cp %s %s: %w: %s", from, to, err, out)
		return false
	}
	c.spent[in] = append(c.spent[in], time.Since(start))
	return true
}

// check fails the benchmark if a copy failed.
func (c *copier) check(b *testing.B) {
	b.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		b.Fatal(c.err)
	}
}

// done is true when the file was copied both ways, or cannot be.
func (c *copier) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil || len(c.spent[true]) > 0 && len(c.spent[false]) > 0
}

// rate is how many MB (10^6 bytes) a second were copied in one direction.
func (c *copier) rate(in bool) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum time.Duration
	for _, d := range c.spent[in] {
		sum += d
	}
	if sum == 0 {
		return 0
	}
	return float64(len(c.spent[in])) * copySize / 1e6 / sum.Seconds()
}
