package syncloop_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand"
	randv2 "math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

var (
	oneSeed = flag.Int64("seed", -1, "run only this seed of TestRandomLives")
	seeds   = flag.Int64("seeds", 100, "how many seeds TestRandomLives runs")
)

const (
	steps = 120
	// late bounds how long after its reply was lost a call is made.
	late = 5 * time.Second
)

// TestRandomLives plays seeded random schedules on both granularities: pods are
// made, deleted, forced out and made anew under their names, vanish from the
// remote; calls fail, hang and lose their replies; the engine is restarted. In
// every step: no pod runs twice, no terminal phase changes, no restart count
// falls, no container comes back against its policy. In the end, with the faults
// gone: every pod is what it should be, and nothing else is left.
func TestRandomLives(t *testing.T) {
	for seed := range *seeds {
		if *oneSeed >= 0 && seed != *oneSeed {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSchedule(t, seed).play() })
		})
	}
}

type schedule struct {
	*api
	seed int64
	rand *rand.Rand
	// counts numbers the calls of one kind, under the script's lock.
	counts  map[fault.Call]int
	backend backend.Backend
	script  *fault.Script
	calm    atomic.Bool
	serial  int
	kinds   map[types.UID]kind
}

// kind is what a pod does, and what it must be in the end.
type kind struct {
	policy corev1.RestartPolicy
	init   []string
	argv   []string
	phase  corev1.PodPhase
}

var kinds = []kind{
	{policy: "Always", argv: []string{"sleep", "infinity"}, phase: "Running"},
	{policy: "Always", init: []string{"sleep", "2"}, argv: []string{"sleep", "infinity"}, phase: "Running"},
	{policy: "Always", argv: []string{"sh", "-c", "trap '' TERM; sleep infinity"}, phase: "Running"},
	{policy: "Always", argv: []string{"sh", "-c", "sleep 3; exit 1"}, phase: "Running"},
	{policy: "OnFailure", init: []string{"true"}, argv: []string{"sh", "-c", "sleep 4; exit 1"}, phase: "Running"},
	{policy: "OnFailure", argv: []string{"sleep", "3"}, phase: "Succeeded"},
	{policy: "Never", argv: []string{"sh", "-c", "sleep 1; exit 1"}, phase: "Failed"},
	{policy: "Never", argv: []string{"sleep", "5"}},
}

func newSchedule(t *testing.T, seed int64) *schedule {
	r := rand.New(rand.NewSource(seed))
	ms := func(n int) time.Duration { return time.Duration(r.Intn(n)) * time.Millisecond }
	s := &schedule{seed: seed, rand: r, counts: map[fault.Call]int{}, kinds: map[types.UID]kind{}}
	s.api = &api{t: t, pods: map[string]*corev1.Pod{}, gone: map[types.UID]bool{}}
	s.remote = sim.New(sim.Config{
		PodUnit: seed%2 == 1, Record: true, NoEvents: r.Intn(4) == 0,
		Latency: sim.Latency{API: ms(50), Launch: ms(1000), Pull: ms(2000), Start: ms(300), Stop: ms(500)},
	})
	s.script = &fault.Script{Decide: s.fault}
	s.backend = fault.Wrap(s.remote.Backend(), s.script)
	s.backend.Limits.Settle = late + 2*time.Second
	return s
}

// fault draws what goes wrong with one call in six.
func (s *schedule) fault(c fault.Call) fault.Fault {
	if s.calm.Load() {
		return fault.Fault{}
	}
	luck := s.luck(c)
	if luck.IntN(6) > 0 {
		return fault.Fault{}
	}
	if (c.Method == fault.PodsLaunch || c.Method == fault.ContainersStart) && luck.IntN(3) == 0 {
		return fault.Fault{Late: time.Duration(luck.IntN(int(late)))}
	}
	switch luck.IntN(8) {
	case 0:
		return fault.Fault{Err: backend.ErrUnavailable}
	case 1:
		return fault.Fault{Err: backend.ErrThrottled}
	case 2:
		return fault.Fault{Err: errors.New("odd")}
	case 3:
		return fault.Fault{Delay: time.Duration(luck.IntN(5000)) * time.Millisecond}
	case 4:
		return fault.Fault{ReplyDelay: time.Duration(luck.IntN(5000)) * time.Millisecond}
	case 5:
		return fault.Fault{Partial: true, Drop: true}
	case 6:
		return fault.Fault{Repeat: 2, LoseReply: true}
	default:
		return fault.Fault{LoseReply: true}
	}
}

// luck draws from the seed and the call's own number: what a call meets does not
// depend on which goroutine came first.
func (s *schedule) luck(c fault.Call) *randv2.Rand {
	c.N = 0
	n := s.counts[c]
	s.counts[c]++
	key := fmt.Sprint(c.Method, c.UID, c.Container, c.Attempt, n)
	h := fnv.New64a()
	h.Write([]byte(key))
	return randv2.New(randv2.NewPCG(uint64(s.seed), h.Sum64()))
}

func (s *schedule) play() {
	s.start(s.backend)
	defer func() {
		s.stop()
		s.script.Wait()
		s.history()
	}()
	for range steps {
		time.Sleep(time.Duration(s.rand.Intn(3000)) * time.Millisecond)
		s.step()
		s.audit()
	}
	s.calm.Store(true)
	time.Sleep(15 * time.Minute)
	s.audit()
	s.settled()
}

// history prints what truly happened to the pods of a failed schedule.
func (s *schedule) history() {
	if !s.t.Failed() {
		return
	}
	for _, e := range s.remote.History() {
		s.t.Logf("%s %s %s attempt %d %s/%d grace %s", e.At.Format("04:05.000"), e.Kind, e.Pod.UID, e.Pod.Attempt, e.Container, e.Attempt, e.Grace)
	}
}

// step does one random thing.
func (s *schedule) step() {
	name := fmt.Sprint("p", s.rand.Intn(8))
	pod := s.get(name)
	switch n := s.rand.Intn(20); {
	case pod == nil && n < 18:
		s.make(name)
	case n < 4:
		s.delete(name, int64(s.rand.Intn(10)))
	case n < 6:
		s.force(name)
	case n < 8: // a StatefulSet does so
		s.force(name)
		s.make(name)
	case n < 9 && pod != nil:
		s.remote.Vanish(pod.UID)
		if k := s.kinds[pod.UID]; k.policy == "Never" || k.phase == "Succeeded" {
			s.kinds[pod.UID] = kind{policy: k.policy} // its end is anybody's guess
		}
	case n < 12:
		s.stop()
		time.Sleep(time.Duration(s.rand.Intn(2000)) * time.Millisecond)
		s.start(s.backend)
	}
}

func (s *schedule) make(name string) {
	s.serial++
	uid := types.UID(fmt.Sprint("u", s.serial))
	k := kinds[s.rand.Intn(len(kinds))]
	s.kinds[uid] = k
	s.create(name, uid, k.policy, func(pod *corev1.Pod) {
		if k.init != nil {
			pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: k.init}}
		}
	}, k.argv...)
}

// settled compares the API with what truly is on the remote.
func (s *schedule) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[types.UID]bool{}
	for _, pod := range s.pods {
		wanted[pod.UID] = true
		if pod.DeletionTimestamp != nil {
			s.t.Errorf("pod %s %s was deleted and is still there", pod.Name, pod.UID)
		}
		k := s.kinds[pod.UID]
		if k.phase != "" && pod.Status.Phase != k.phase {
			s.t.Errorf("pod %s %s %v is %s, want %s: %+v", pod.Name, pod.UID, k.argv, pod.Status.Phase, k.phase, pod.Status.ContainerStatuses)
		}
	}
	live := map[types.UID]int{}
	for _, f := range s.remote.Facts() {
		if !wanted[f.UID] {
			s.t.Errorf("attempt %d of pod %s is left on the remote", f.Attempt, f.UID)
		}
		if f.Live {
			live[f.UID]++
		}
	}
	for uid, n := range live {
		if n > 1 {
			s.t.Errorf("pod %s has %d live attempts", uid, n)
		}
	}
}
