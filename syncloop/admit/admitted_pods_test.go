package admit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

var refuseAll = backend.CheckFunc(
	func(*corev1.Pod) []backend.Refusal { return []backend.Refusal{{Field: "f", Why: "w"}} },
)

func ownedBy(owner string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: &yes}}
	}
}

// TestReplicasThatAreReplacedAtOnce: a Deployment of 3 with an unsupported field
// makes fewer than 30 pods in 10 minutes, and one of 100 no more than its
// replicas and a few.
func TestReplicasThatAreReplacedAtOnce(t *testing.T) {
	for _, tt := range []struct{ replicas, most int64 }{{1, 9}, {3, 29}, {100, 110}} {
		t.Run(fmt.Sprint(tt.replicas), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := NewAdmittedPods(refuseAll), time.Now()
				var made, failed atomic.Int64
				var wg sync.WaitGroup
				for range tt.replicas {
					wg.Go(func() {
						for {
							pod := aPod(fmt.Sprint(made.Add(1)), ownedBy("rs"))
							r, at := l.Judge(pod, aNode())
							if r == nil || r.Reason != ReasonUnsupported {
								t.Errorf("judged %+v", r)
								return
							}
							if at.Sub(start) >= 10*time.Minute {
								return
							}
							time.Sleep(time.Until(at))
							failed.Add(1)
							l.Remove(pod.UID)
						}
					})
				}
				wg.Wait()
				if made.Load() > tt.most || failed.Load() < 5 {
					t.Errorf("%d pods made, %d failed", made.Load(), failed.Load())
				}
			})
		})
	}
}

// TestSpacing: controllers do not wait for each other, nor for what is past.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := NewAdmittedPods(refuseAll), 0
		wait := func(change ...func(*corev1.Pod)) time.Duration {
			n++
			_, at := l.Judge(aPod(fmt.Sprint(n), change...), aNode())
			return time.Until(at)
		}
		for i, want := range []time.Duration{0, 10, 30, 70, 150, 310, 610, 910} {
			if got := wait(ownedBy("rs")); got != want*time.Second {
				t.Errorf("failure %d after %v, want %v", i+1, got, want*time.Second)
			}
		}
		if got := wait(ownedBy("other")); got != 0 {
			t.Errorf("another controller's pod waits %v", got)
		}
		for range 2 {
			if got := wait(); got != 0 {
				t.Errorf("a pod of nobody waits %v", got)
			}
		}
		again, at := l.Judge(aPod("3", ownedBy("rs")), aNode())
		if again == nil || time.Until(at) != 30*time.Second {
			t.Errorf("asked again, a pod waits %v", time.Until(at))
		}
		for i := range n {
			l.Remove(types.UID(fmt.Sprint(i + 1)))
		}
		if got := wait(ownedBy("rs")); got != spaceMax {
			t.Errorf("scaled down and up again, a pod waits %v", got)
		}
		time.Sleep(time.Hour)
		if got := wait(ownedBy("rs")); got != 0 {
			t.Errorf("an hour later a pod waits %v", got)
		}
	})
}

// TestWhatTheSchedulerKnowsIsNotSpaced: the replacement goes elsewhere.
func TestWhatTheSchedulerKnowsIsNotSpaced(t *testing.T) {
	l := NewAdmittedPods()
	for i := range 5 {
		r, at := l.Judge(aPod(fmt.Sprint(i), ownedBy("rs"), asks("cpu", "9")), aNode())
		if r == nil || r.Reason != "OutOfcpu" || time.Until(at) > 0 {
			t.Errorf("%+v in %v", r, time.Until(at))
		}
	}
}

// TestSpacingIsBounded: neither many controllers nor many pods of one fill the
// memory.
func TestSpacingIsBounded(t *testing.T) {
	s, now := newSpacing(), time.Now()
	for i := range maxOwners + 200 {
		s.take(types.UID(fmt.Sprint(i)), "p", now)
		if i%2 == 0 {
			now = now.Add(time.Millisecond)
		}
	}
	if len(s.owners) > maxOwners {
		t.Errorf("%d controllers are remembered", len(s.owners))
	}
	now = now.Add(time.Hour)
	s.take("last", "p", now)
	if len(s.owners) != 1 {
		t.Errorf("%d controllers are remembered after an hour", len(s.owners))
	}
	l := NewAdmittedPods(refuseAll)
	for i := range 100 {
		l.Judge(aPod(fmt.Sprint(i), ownedBy("rs")), aNode())
		l.Remove(types.UID(fmt.Sprint(i)))
	}
	if q := l.spacing.owners["rs"]; len(q.waiting) != 0 || len(l.rejected) != 0 {
		t.Errorf("%d pods and %d verdicts are remembered", len(q.waiting), len(l.rejected))
	}
}

// TestAdmittedPods: behaviour 6: running pods are not judged again, and count
// for those that come after.
func TestAdmittedPods(t *testing.T) {
	l, node := NewAdmittedPods(), aNode()
	judge := func(pod *corev1.Pod, want string) {
		t.Helper()
		r, _ := l.Judge(pod, node)
		if r == nil && want != "" || r != nil && r.Reason != want {
			t.Errorf("%s: %+v, want %q", pod.UID, r, want)
		}
	}
	big := aPod("adopted", asks("cpu", "5"), takes("", 80))
	l.Add(big)
	judge(big, "")
	judge(aPod("cpu", asks("cpu", "1m")), "OutOfcpu")
	judge(aPod("port", takes("", 80)), "NodePorts")
	judge(aPod("fits"), "")
	judge(aPod("third"), "OutOfpods")
	l.Remove("adopted")
	l.Remove("adopted")
	judge(aPod("third"), "OutOfpods") // its verdict is for life
	judge(aPod("late", asks("cpu", "2"), takes("", 80)), "")
	judge(aPod("late", asks("cpu", "99")), "") // as is an admission
	l.Remove("fits")
	judge(aPod("no cpu", asks("cpu", "500m")), "OutOfcpu")
	l.Add(aPod("late", asks("cpu", "1"))) // resized
	judge(aPod("cpu again", asks("cpu", "1"), takes("", 80)), "")
	l.Add(aPod("third")) // it runs all the same
	if l.Len() != 3 {
		t.Errorf("%d pods", l.Len())
	}
	for _, uid := range []types.UID{"late", "cpu again", "third", "cpu", "port", "no cpu", "unknown"} {
		l.Remove(uid)
	}
	if u := l.used; u.pods != 0 || len(u.requested) != 0 || len(u.ports) != 0 || len(l.rejected) != 0 || l.Len() != 0 {
		t.Errorf("left when all are gone: %+v, %d verdicts", u, len(l.rejected))
	}
}

// TestAdmittedPodsAreAtomic: pods judged at the same time do not take the same room.
func TestAdmittedPodsAreAtomic(t *testing.T) {
	l, node := NewAdmittedPods(), aNode()
	node.Allocatable = list("pods", "110", "cpu", "10")
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if r, _ := l.Judge(aPod(fmt.Sprint(i), asks("cpu", "1")), node); r == nil {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 10 || l.Len() != 10 {
		t.Errorf("%d pods on 10 cpus", admitted.Load())
	}
}

// TestAdmittedPodsAgreeWithDecide: the sums of the admitted pods are those of the pods.
func TestAdmittedPodsAgreeWithDecide(t *testing.T) {
	l, node := NewAdmittedPods(), aNode()
	node.Allocatable = list("pods", "20", "cpu", "10", "memory", "20", "example.com/gpu", "4")
	var active []*corev1.Pod
	for i := range 200 {
		pod := aPod(
			fmt.Sprint(i), asks("cpu", fmt.Sprint(i%7), "memory", fmt.Sprint(i%5), "example.com/gpu", fmt.Sprint(i%2)),
			takes("", int32(i%11)),
		)
		want := Decide(pod, node, active, nil)
		got, _ := l.Judge(pod, node)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Fatalf("pod %d: admitted %+v, pods %+v", i, got, want)
		}
		if got == nil {
			active = append(active, pod)
		}
		if i%3 == 0 && len(active) > 0 {
			l.Remove(active[0].UID)
			active = active[1:]
		}
	}
	if len(active) == 0 {
		t.Error("nothing was admitted")
	}
}

func BenchmarkJudge(b *testing.B) {
	l, node := NewAdmittedPods(), aNode()
	node.Allocatable = list("pods", "100000000", "cpu", "100M", "memory", "100P")
	for i := range 10000 {
		l.Add(aPod(fmt.Sprint("run", i), asks("cpu", "1m", "memory", "1"), takes("10.0.0.1", int32(i+1))))
	}
	for i := 0; b.Loop(); i++ {
		uid := fmt.Sprint(i)
		l.Judge(aPod(uid, asks("cpu", "1m", "memory", "1"), takes("10.0.0.2", 80)), node)
		l.Remove(types.UID(uid))
	}
}
