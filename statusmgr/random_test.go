package statusmgr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
)

// Random lives of pods against an API that fails, hangs, loses replies and has
// other writers. Whatever happens in between, in the end the API holds what the
// engine said last, ended pods stay ended, and finished pods are deleted once. A seed
// is replayed by its name, though goroutines that are ready at the same moment draw in
// any order: for a rare failure add -count 20.
func TestRandomLives(t *testing.T) {
	for seed := range lane.Pick[uint64](20, 20, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, Config{Writers: 3, CallTimeout: 5 * time.Second}, func(h *harness) { randomLives(h, seed) })
		})
	}
}

const livesPods = 12

// lives is one random run.
type lives struct {
	*harness
	last [livesPods]corev1.PodStatus // what the engine said last
	done [livesPods]bool             // it said that the pod has ended

	mu   sync.Mutex // guards the rest
	rng  *rand.Rand
	calm bool
}

func randomLives(h *harness, seed uint64) {
	l := &lives{harness: h, rng: rand.New(rand.NewPCG(seed, 1))}
	h.api.before, h.api.after, h.api.delay, h.api.watch = l.trouble, l.trouble, 30*time.Millisecond, l.changed
	for i := range livesPods {
		h.api.put(testPod(lifeName(i), types.UID(lifeName(i))))
	}
	for range 400 {
		l.step(l.roll(livesPods))
		h.pass(time.Duration(l.roll(50)) * time.Millisecond)
	}
	l.mu.Lock()
	l.calm = true
	l.mu.Unlock()
	h.pass(2 * time.Minute)
	for i := range livesPods {
		l.check(i)
		h.Forget(types.UID(lifeName(i)))
	}
	h.empty()
}

func lifeName(i int) string { return fmt.Sprint("pod-", i) }

func (l *lives) roll(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

func (l *lives) trouble(call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.calm && l.rng.IntN(4) == 0 {
		return errors.New("trouble")
	}
	return nil
}

// changed checks each state that the API goes through and tells the Manager of
// it, late and even out of order.
func (l *lives) changed(p *corev1.Pod) {
	if was := l.api.ended[p.UID]; was != "" && was != p.Status.Phase {
		l.t.Errorf("pod %s went from %s to %s", p.Name, was, p.Status.Phase)
	}
	if terminal(p.Status.Phase) {
		l.api.ended[p.UID] = p.Status.Phase
		if c := findCondition(p.Status.Conditions, corev1.PodReady); c != nil && c.Status != corev1.ConditionFalse {
			l.t.Errorf("pod %s is %s and Ready", p.Name, p.Status.Phase)
		}
	}
	time.AfterFunc(time.Duration(l.roll(3))*10*time.Millisecond, func() { l.Observe(p) })
}

// step lets something happen to the pod.
func (l *lives) step(i int) {
	pod := l.api.pod(lifeName(i))
	if pod == nil {
		return
	}
	dice := l.roll(10)
	switch {
	case dice == 1 && pod.DeletionTimestamp == nil:
		l.api.update(pod.Name, deleting)
	case l.done[i]:
	case dice == 0 && !terminal(pod.Status.Phase):
		l.api.update(pod.Name, func(p *corev1.Pod) {
			if c := findCondition(p.Status.Conditions, corev1.PodReady); c != nil {
				c.Status = corev1.ConditionFalse
			}
		})
	case dice == 2:
		l.done[i] = true
		l.last[i] = ended([]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}[l.roll(2)])
		l.SetStatus(pod, l.last[i])
		l.Reclaimed(pod.UID)
	default:
		l.last[i] = running()
		l.last[i].ContainerStatuses[0].RestartCount = int32(l.roll(1000))
		l.SetStatus(pod, l.last[i])
	}
}

// check compares what the API holds in the end with what was said.
func (l *lives) check(i int) {
	pod, want := l.api.pod(lifeName(i)), l.last[i]
	switch {
	case pod == nil:
		if !l.done[i] {
			l.t.Errorf("%s was deleted before its time", lifeName(i))
		}
		return
	case l.done[i] && pod.DeletionTimestamp != nil:
		l.t.Errorf("%s was not deleted", pod.Name)
	case want.Phase == "":
		return
	}
	ready := findCondition(pod.Status.Conditions, corev1.PodReady).Status == corev1.ConditionTrue
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	if pod.Status.Phase != want.Phase || ready == l.done[i] || restarts != want.ContainerStatuses[0].RestartCount {
		l.t.Errorf("%s is %s, ready %v, %d restarts; want %s, %d", pod.Name, pod.Status.Phase, ready, restarts,
			want.Phase, want.ContainerStatuses[0].RestartCount)
	}
}
