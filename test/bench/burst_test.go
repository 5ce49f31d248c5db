package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// burster brings pods up at once and takes them down at once, and tells how many
// a second.
type burster interface {
	burst(b *testing.B, phase string, pods int) (up, down float64)
}

// BenchmarkBesideKubeletBurst creates and deletes 60 pods at once on the kubelet,
// on burstlet over SSH and on a local socket, and by raw calls of CRI on both of
// burstlet's containerds, in turn.
func BenchmarkBesideKubeletBurst(b *testing.B) {
	c := theCluster(b)
	theirs, _ := newKubelet(b, c, "bench-kubelet-burst")
	far, farHost := newSSHNode(b, c, "bench-beside-ssh")
	near, nearHost := newSocketNode(b, c, "bench-beside-socket")
	turns := []struct {
		what, unit string
		burster
		up, down float64 // of the better round
	}{
		{what: "kubelet", unit: "kubelet-burst", burster: theirs},
		{what: "over SSH", unit: "ssh-burst", burster: far},
		{what: "raw CRI on the host of SSH", unit: "raw-ssh-burst", burster: newRaw(b, farHost)},
		{what: "on a local socket", unit: "socket-burst", burster: near},
		{what: "raw CRI on the local socket", unit: "raw-socket-burst", burster: newRaw(b, nearHost)},
	}
	for i := range turns {
		turns[i].burst(b, "warm", burstWarmUp)
	}
	for round := range *besideRounds {
		for i := range turns {
			t := &turns[i]
			up, down := t.burst(b, fmt.Sprintf("pod-%d", round), *besideBurst)
			t.up, t.down = max(t.up, up), max(t.down, down)
			b.Logf("%s: up %.1f pods/s, down %.1f pods/s", t.what, up, down)
		}
	}
	for i, bars := range [][]struct {
		beside int // of turns
		ratio  float64
	}{0: nil, 1: {{0, barBurst}, {2, barRawSSH}}, 2: nil, 3: {{0, barBurst}, {4, barRawSocket}}, 4: nil} {
		t := turns[i]
		results.tell(b, t.what+": pods at once, up", t.up, t.unit+"-up-pods/s")
		results.tell(b, t.what+": pods at once, down", t.down, t.unit+"-down-pods/s")
		for _, bar := range bars {
			other := turns[bar.beside]
			results.bar(b, fmt.Sprintf("%s: pods at once up, to %s", t.what, other.what),
				t.up/other.up, t.unit+"-up/"+other.unit, atLeast, bar.ratio)
			results.bar(b, fmt.Sprintf("%s: pods at once down, to %s", t.what, other.what),
				t.down/other.down, t.unit+"-down/"+other.unit, atLeast, bar.ratio)
		}
	}
}

// burst creates pods at once, waits until all are Ready, deletes them at once and
// waits until all are gone.
func (c *contender) burst(b *testing.B, phase string, pods int) (up, down float64) {
	b.Helper()
	rate := func(what string, f func()) float64 {
		start := time.Now()
		c.profiled(b, c.name+"-"+phase+"-"+what, func() {
			b.Logf("%s %s: %s", c.name, what, mostUsed(b, f))
		})
		return float64(pods) / time.Since(start).Seconds()
	}
	up = rate("up", func() { c.createBurst(b, phase, pods) })
	return up, rate("down", func() { c.deleteBurst(b, phase, pods) })
}

func burstName(phase string, i int) string { return fmt.Sprintf("%s-%03d", phase, i) }

func (c *contender) createBurst(b *testing.B, phase string, pods int) {
	b.Helper()
	forEach(b, pods, func(ctx context.Context, i int) error {
		_, err := c.c.client.CoreV1().Pods(c.namespace).Create(
			ctx, busyboxPod(c, burstName(phase, i)), metav1.CreateOptions{},
		)
		return err
	})
	c.watch.until(burstLimit, pods)
}

func (c *contender) deleteBurst(b *testing.B, phase string, pods int) {
	b.Helper()
	forEach(b, pods, func(ctx context.Context, i int) error {
		return c.c.client.CoreV1().Pods(c.namespace).Delete(ctx, burstName(phase, i), metav1.DeleteOptions{})
	})
	c.watch.until(burstLimit, 0)
}
