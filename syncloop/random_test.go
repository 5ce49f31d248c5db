package syncloop_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand"
	randv2 "math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/test/kit/lane"
)

var (
	oneSeed = flag.Int64("seed", -1, "run only this seed of TestRandomLives")
	seeds   = flag.Int64("seeds", 0, "how many seeds TestRandomLives runs; 0: as many as the lane says")
)

const (
	steps = 170
	// stepTime is how long a step has; its moment within that is drawn.
	stepTime = 1500 * time.Millisecond
	// late bounds how long after its reply was lost a call is made.
	late = 5 * time.Second
	// stalest bounds the age of listings.
	stalest = 3 * time.Second
)

// lives counts the pods that TestRandomLives made.
var lives atomic.Int64

// seedsToRun is how many schedules TestRandomLives plays.
func seedsToRun() int64 {
	if *seeds > 0 {
		return *seeds
	}
	if lane.Raced { // make test plays 200 without the race detector
		return lane.Pick[int64](30, 30, 1000)
	}
	return lane.Pick[int64](200, 200, 1000)
}

// A seed is replayed with -seed N, as a failure says. What is done and what each call
// meets depends on the seed alone; the order of goroutines that are ready at the same moment
// does not, so most events of two runs are the same to the millisecond and some
// are not: for a rare failure add -count 20.

// TestRandomLives plays seeded random schedules on both granularities: pods are
// made, deleted, resized, forced out and made anew under their names, vanish from the
// remote; calls fail, hang and lose their replies; the engine is restarted. In
// every step: no pod runs twice, no terminal phase changes, no restart count
// falls, no container comes back against its policy, the pods are not held to more
// than the node has. In the end, with the faults
// gone: every pod is what it should be, and nothing else is left.
func TestRandomLives(t *testing.T) {
	first, end := int64(0), seedsToRun()
	if *oneSeed >= 0 {
		first, end = *oneSeed, *oneSeed+1
	}
	lives.Store(0)
	t.Cleanup(func() { // when all have played
		t.Logf("%d pod lives", lives.Load())
		if least := 50 * end; *oneSeed < 0 && *seeds == 0 && !t.Failed() && lives.Load() < least {
			t.Errorf("%d pod lives, want at least %d", lives.Load(), least)
		}
	})
	failFast := flag.Lookup("test.failfast").Value.String() == "true" // which parallel tests do not heed
	all := t
	for seed := first; seed < end; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if failFast && all.Failed() {
				t.Skip("another seed failed")
			}
			synctest.Test(t, func(t *testing.T) { newSchedule(t, seed).play() })
		})
	}
}

type schedule struct {
	*api
	seed int64
	// rand is drawn anew for each step: what a step draws depends on the seed and
	// its number, not on how many draws the engine's speed made the others need.
	rand *rand.Rand
	// counts numbers the calls of one kind, under the script's lock.
	counts  map[fault.Call]int
	backend backend.Backend
	script  *fault.Script
	calm    atomic.Bool
	serial  int
	podUnit bool
	kinds   map[types.UID]kind
	// sized are the pods with requests.
	sized map[types.UID]bool
}

// kind is what a pod does, and what it must be in the end.
type kind struct {
	policy corev1.RestartPolicy
	init   []string
	argv   []string
	phase  corev1.PodPhase
	// ready is true if the pod must be Ready in the end.
	ready  bool
	change func(*corev1.Pod)
	// single is true for pods that need containers started one by one.
	single bool
}

// prober runs a command every two seconds.
func prober(words ...string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: words}},
		PeriodSeconds: 2, FailureThreshold: 2, SuccessThreshold: 1, TimeoutSeconds: 20,
	}
}

// asker asks the pod's port.
func asker() *corev1.Probe {
	p := prober()
	p.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}
	return p
}

func hook(words ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}
}

// sidecar adds one before the init containers that are there.
func sidecar(argv ...string) func(*corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = append([]corev1.Container{{
			Name: "s", Image: "busybox", Command: argv, RestartPolicy: &always, ImagePullPolicy: corev1.PullIfNotPresent,
		}}, pod.Spec.InitContainers...)
	}
}

func onApp(f func(*corev1.Container)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { f(&pod.Spec.Containers[0]) }
}

func deadline(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
}

// ruled gives a container that never restarts a rule for exit code 42.
func ruled(c *corev1.Container, action corev1.ContainerRestartRuleAction) {
	never := corev1.ContainerRestartPolicyNever
	c.RestartPolicy, c.RestartPolicyRules = &never, []corev1.ContainerRestartRule{{
		Action: action,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
}

// restartsAll gives a pod a sidecar and a second app, with which it restarts when its
// first app exits with 42.
func restartsAll(pod *corev1.Pod) {
	ruled(&pod.Spec.Containers[0], corev1.ContainerRestartRuleActionRestartAllContainers)
	sidecar(forever...)(pod)
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "b", Image: "busybox", Command: deaf, ImagePullPolicy: corev1.PullIfNotPresent,
	})
}

// configured mounts the ConfigMap "config" and takes a variable from it.
func configured(pod *corev1.Pod) {
	ref := corev1.LocalObjectReference{Name: "config"}
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref}},
	}}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/config"}}
	c.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: ref, Key: "key",
	}}}}
}

var kinds = []kind{
	{
		policy: "Always", argv: []string{"sleep", "infinity"}, phase: "Running", ready: true,
		change: sidecar("sleep", "infinity"),
	},
	{policy: "Never", argv: []string{"sleep", "4"}, phase: "Succeeded", change: sidecar(
		"sh", "-c", "trap '' TERM; sleep infinity",
	)},
	{
		policy: "OnFailure", init: []string{"sleep", "1"}, argv: []string{"sleep", "6"}, phase: "Succeeded",
		change: sidecar("sh", "-c", "sleep 5; exit 1"), single: true,
	},
	{
		policy: "Always",
		argv:   []string{"sleep", "infinity"},
		phase:  "Running",
		ready:  true,
		change: onApp(func(c *corev1.Container) {
			c.ReadinessProbe, c.StartupProbe = prober("true"), prober("true")
		}),
	},
	{policy: "Always", argv: []string{
		"serve", "8080", "ready-after=3s",
	}, phase: "Running", ready: true, change: onApp(func(c *corev1.Container) {
		c.ReadinessProbe = asker()
	})},
	{policy: "Always", argv: []string{
		"serve", "8080", "fail-after=9s",
	}, phase: "Running", change: onApp(func(c *corev1.Container) {
		c.LivenessProbe = asker()
	})},
	{policy: "Never", argv: []string{
		"serve", "8080", "fail-after=9s",
	}, phase: "Failed", change: onApp(func(c *corev1.Container) {
		c.LivenessProbe = asker()
	})},
	{
		policy: "Always",
		argv:   []string{"sleep", "infinity"},
		phase:  "Running",
		ready:  true,
		change: onApp(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: hook("sleep", "3")}
		}),
	},
	{
		policy: "Always",
		argv:   []string{"sleep", "infinity"},
		phase:  "Running",
		ready:  true,
		single: true,
		change: onApp(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: hook("sleep", "1"), PreStop: hook("sleep", "infinity")}
		}),
	},
	{policy: "Always", argv: []string{"sleep", "infinity"}, phase: "Running", ready: true, change: configured},
	{policy: "Never", argv: []string{
		"sh", "-c", "sleep 2; exit 42",
	}, phase: "Running", single: true, change: onApp(func(c *corev1.Container) {
		ruled(c, corev1.ContainerRestartRuleActionRestart)
	})},
	{
		policy: "Never", init: []string{"sleep", "1"}, argv: []string{"sh", "-c", "sleep 15; exit 42"}, single: true,
		change: restartsAll,
	},

	{policy: "Always", argv: []string{"sleep", "infinity"}, phase: "Running"},
	{policy: "Always", init: []string{"sleep", "2"}, argv: []string{"sleep", "infinity"}, phase: "Running"},
	{policy: "Always", argv: []string{"sh", "-c", "trap '' TERM; sleep infinity"}, phase: "Running"},
	{policy: "Always", argv: []string{"sh", "-c", "sleep 3; exit 1"}, phase: "Running"},
	{policy: "OnFailure", init: []string{"true"}, argv: []string{"sh", "-c", "sleep 4; exit 1"}, phase: "Running"},
	{policy: "OnFailure", argv: []string{"sleep", "3"}, phase: "Succeeded"},
	{policy: "Never", argv: []string{"sh", "-c", "sleep 1; exit 1"}, phase: "Failed"},
	{policy: "Never", argv: []string{"sleep", "5"}},
	{policy: "Always", argv: []string{"sleep", "infinity"}, phase: "Failed", change: deadline(3)},
	{
		policy: "OnFailure", argv: []string{"sh", "-c", "trap '' TERM; sleep infinity"}, phase: "Failed", change: deadline(9),
	},
}

func newSchedule(t *testing.T, seed int64) *schedule {
	r := rand.New(rand.NewSource(seed))
	ms := func(n int) time.Duration { return time.Duration(r.Intn(n)) * time.Millisecond }
	s := &schedule{
		seed: seed, rand: r, counts: map[fault.Call]int{}, kinds: map[types.UID]kind{}, sized: map[types.UID]bool{},
		podUnit: seed%2 == 1,
	}
	s.api = newAPI(t)
	s.setConfig(config("first"))
	s.remote = sim.New(sim.Config{
		PodUnit: s.podUnit, Record: true, NoEvents: r.Intn(4) == 0,
		Latency: sim.Latency{API: ms(50), Launch: ms(1000), Pull: ms(2000), Start: ms(300), Stop: ms(500)},
	})
	s.script = &fault.Script{Decide: s.fault}
	if r.Intn(3) == 0 { // a clock that was measured wrong
		s.script.Skew = time.Duration(r.Intn(6000)-3000) * time.Millisecond
	}
	s.backend = fault.Wrap(s.remote.Backend(), s.script)
	s.backend.Limits.Stale, s.script.Stalest = stalest, stalest
	s.backend.Limits.Settle = late + 2*time.Second + stalest
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
	switch luck.IntN(9) {
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
		return fault.Fault{Stale: c.Method != fault.FilesVolumes}
	case 7:
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
	begin := time.Now()
	for n := range steps {
		s.rand, s.serial = rand.New(rand.NewSource(s.seed*steps+int64(n))), 10*n
		at := time.Duration(n)*stepTime + time.Duration(s.rand.Int63n(int64(stepTime)))
		time.Sleep(time.Until(begin.Add(at)))
		s.step()
		s.audit()
		s.overcommitted()
	}
	s.calm.Store(true)
	s.setConfig(config("last"))
	time.Sleep(time.Minute)
	s.contend()
	time.Sleep(5 * time.Minute)
	s.makeRoom()
	time.Sleep(10 * time.Minute)
	s.audit()
	s.settled()
}

// history prints what truly happened to the pods of a failed schedule.
func (s *schedule) history() {
	if !s.t.Failed() {
		return
	}
	s.t.Logf("to replay it: go test ./syncloop -run '^TestRandomLives$' -seed %d -count 20", s.seed)
	history(s.t, s.remote)
}

// step does one random thing.
func (s *schedule) step() {
	name := fmt.Sprint("p", s.rand.Intn(names))
	pod := s.get(name)
	switch n := s.rand.Intn(20); {
	case pod == nil && n < 18:
		if s.make(name); n == 17 { // somebody thinks better of it
			time.Sleep(time.Duration(s.rand.Intn(3000)) * time.Millisecond)
			s.delete(name, int64(s.rand.Intn(10)))
		}
	case n < 4:
		s.delete(name, int64(s.rand.Intn(10)))
	case n < 6:
		s.force(name)
	case n < 8: // a StatefulSet does so
		s.force(name)
		s.make(name)
	case n < 9 && pod != nil:
		s.harm(pod.UID)
	case n < 10 && pod != nil:
		s.changeImage(name)
	case n < 11:
		s.configure()
	case n < 14:
		s.stop()
		time.Sleep(time.Duration(s.rand.Intn(2000)) * time.Millisecond)
		s.start(s.backend)
	case s.resizable(pod):
		s.resize(name, cpus[s.rand.Intn(len(cpus))], memories[s.rand.Intn(len(memories))])
	}
}

// harm takes a pod's sandbox away, or all of it.
func (s *schedule) harm(uid types.UID) {
	if s.rand.Intn(3) > 0 || !s.remote.KillSandbox(uid) {
		s.remote.Vanish(uid)
	}
	if k := s.kinds[uid]; k.policy == "Never" || k.phase == "Succeeded" {
		s.kinds[uid] = kind{policy: k.policy} // its end is anybody's guess
	}
}

func (s *schedule) make(name string) {
	s.serial++
	uid := types.UID(fmt.Sprint("u", s.serial))
	k := kinds[s.rand.Intn(len(kinds))]
	for k.single && s.podUnit {
		k = kinds[s.rand.Intn(len(kinds))]
	}
	s.kinds[uid] = k
	lives.Add(1)
	s.create(name, uid, k.policy, func(pod *corev1.Pod) {
		if k.init != nil {
			pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: k.init}}
		}
		if k.change != nil {
			k.change(pod)
		}
		s.size(pod, k)
	}, k.argv...)
}

// changeImage gives the pod's app another image, as kubectl set image on a pod.
func (s *schedule) changeImage(name string) {
	s.update(name, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = fmt.Sprint("busybox:", s.rand.Intn(3))
		pod.Generation++
	})
	if pod := s.get(name); s.kinds[pod.UID].policy != "Always" {
		// Restarted whatever its policy, at a moment that is anybody's guess.
		s.kinds[pod.UID] = kind{policy: s.kinds[pod.UID].policy}
	}
}

// configure changes, removes or brings back the ConfigMap that pods mount.
func (s *schedule) configure() {
	o := resolve.Object[*corev1.ConfigMap]{Err: errors.New("configmap \"config\" not found")}
	if s.rand.Intn(3) > 0 {
		o = config(fmt.Sprint(s.rand.Int()))
	}
	s.setConfig(o)
}

func config(value string) resolve.Object[*corev1.ConfigMap] {
	return resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{Data: map[string]string{"key": value}}}
}

// settled compares the API with what truly is on the remote.
func (s *schedule) settled() {
	wanted := s.podsSettled()
	s.volumesSettled(wanted)
	s.attemptsSettled(wanted)
	s.resizesSettled()
}

// podsSettled compares the pods in the API with what they must be, and returns
// them.
func (s *schedule) podsSettled() map[types.UID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[types.UID]bool{}
	for _, pod := range s.pods {
		wanted[pod.UID] = true
		if pod.DeletionTimestamp != nil {
			s.t.Errorf("pod %s %s was deleted and is still there", pod.Name, pod.UID)
		}
		k := s.kinds[pod.UID]
		if k.ready && !isReady(pod) {
			s.t.Errorf("pod %s %s %v is not ready: %+v", pod.Name, pod.UID, k.argv, pod.Status)
		}
		if k.phase != "" && pod.Status.Phase != k.phase {
			s.t.Errorf(
				"pod %s %s %v is %s, want %s: %+v", pod.Name, pod.UID, k.argv, pod.Status.Phase, k.phase,
				pod.Status.ContainerStatuses,
			)
		}
	}
	return wanted
}

// attemptsSettled finds attempts of nobody, and pods that live twice.
func (s *schedule) attemptsSettled(wanted map[types.UID]bool) {
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

// volumesSettled finds volumes of nobody, and contents that are not the latest.
func (s *schedule) volumesSettled(wanted map[types.UID]bool) {
	files := s.remote.Backend().Files
	if files == nil {
		return
	}
	facts, err := files.Volumes(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range facts {
		if !wanted[f.Pod.UID] {
			s.t.Errorf("volume %s of pod %s is left on the remote", f.Name, f.Pod.UID)
			continue
		}
		placed, ok := s.remote.Volume(f.Pod.UID, f.Name)
		if !ok || len(placed.Files) != 1 || string(placed.Files[0].Data) != "last" {
			s.t.Errorf("volume %s of pod %s does not have the latest contents", f.Name, f.Pod.UID)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
