package syncloop_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/test/kit/lane"
)

var oneEffect = flag.Int(
	"effect", 0, "have the engines of TestCrashPoints crash at the side effect of this number alone; 0: at each",
)

// TestCrashPoints ends the engine at every side effect of every scenario and
// starts another some time later: the pod ends as it does without a crash. Side
// effects are the calls that change the remote, hooks among them, and the writes
// to the API.
func TestCrashPoints(t *testing.T) {
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("%d crash points", points.Load()) }) // when all have ended
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for _, unit := range s.units() {
				t.Run(unit, func(t *testing.T) {
					t.Parallel()
					points.Add(int64(s.crashEverywhere(t, unit == "task")))
				})
			}
		})
	}
}

// scenario is what happens to a pod, and what must have become of it.
type scenario struct {
	name string
	// single is true for what only backends of single containers can do.
	single bool
	cfg    sim.Config
	play   func(w *world)
}

func (s scenario) units() []string {
	if s.single {
		return []string{"containers"}
	}
	return []string{"containers", "task"}
}

// crash is the end of the engine at its side effect number at; zero is never.
type crash struct {
	at   int
	when moment
	// pause is how long there is no engine.
	pause time.Duration
}

func (c crash) String() string { return fmt.Sprintf("%s %d, %s away", c.when, c.at, c.pause) }

// moment is when exactly the engine dies.
type moment string

const (
	// before the call is made.
	before moment = "before"
	// amid the call: it is on its way, and nobody waits for it.
	amid moment = "amid"
	// after the call was carried out; its reply reaches nobody.
	after moment = "after"
)

// stray is how long a call strays whose caller died amid it. One that was made
// again meanwhile, with success, is settled: its late twin finds the name taken.
const stray = 2 * time.Second

// crashes are the ways to die at one side effect.
var crashes = []crash{
	{when: before, pause: 500 * time.Millisecond},
	{when: before, pause: 20 * time.Second},
	{when: amid},
	{when: amid, pause: 500 * time.Millisecond},
	{when: after, pause: 500 * time.Millisecond},
	{when: after, pause: 20 * time.Second},
}

// crashEverywhere returns how many crash points it ran. Goroutines that are
// ready at once run in any order, which may change the number of side effects:
// it goes on until no run has so many.
func (s scenario) crashEverywhere(t *testing.T, podUnit bool) (points int) {
	if n := s.run(t, podUnit, crash{}); t.Failed() || n == 0 {
		t.Fatalf("it does not end well even without a crash, after %d side effects", n)
	}
	first := max(1, *oneEffect)
	for at := first; *oneEffect == 0 || at == first; at++ {
		reached := 0
		for i, c := range crashes {
			if lane.Thinned() && *oneEffect == 0 && i != at%len(crashes) {
				continue // make test dies in all ways without the race detector
			}
			c.at = at
			t.Run(c.String(), func(t *testing.T) {
				if s.run(t, podUnit, c) >= at {
					reached++
				}
			})
		}
		points += reached
		if reached == 0 {
			return points
		}
	}
	return points
}

// run plays the scenario in virtual time and returns how many side effects the
// engine's first life had.
func (s scenario) run(t *testing.T, podUnit bool, c crash) (effects int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s.cfg, podUnit)
		first := w.live(c)
		over := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() { w.supervise(first, over) })
		others.Go(func() { w.watch(over) })
		defer func() {
			close(over)
			others.Wait()
			w.stop()
			w.sent.Wait()
			effects = len(first.effects)
			if w.settled(); t.Failed() {
				s.replay(t, podUnit, c)
				t.Logf("the side effects before the crash: %q", first.effects)
				history(t, w.remote)
			}
		}()
		time.Sleep(time.Second)
		s.play(w)
	})
	return effects
}

// replay says how to run one crash again, and no other.
func (s scenario) replay(t *testing.T, podUnit bool, c crash) {
	unit := s.units()[0]
	if podUnit {
		unit = "task"
	}
	name := "^TestCrashPoints$/^" + s.name + "$/^" + unit + "$"
	if c.at > 0 {
		name += "/^" + c.String() + "$"
	}
	t.Logf("to replay it: go test ./syncloop -run '%s' -effect %d", strings.ReplaceAll(name, " ", "_"), c.at)
}

// world is an API, a remote, and one engine after another.
type world struct {
	*api
	podUnit bool
	// sent are the calls that outlive their engine.
	sent  sync.WaitGroup
	mu    sync.Mutex
	execs []executed
	// done counts the calls that were carried out, by name.
	done map[string]int
}

// executed is a command that ran to its end.
type executed struct {
	at        time.Time
	uid       types.UID
	container string
}

func newWorld(t *testing.T, cfg sim.Config, podUnit bool) *world {
	cfg.PodUnit, cfg.Record = podUnit, true
	if cfg.Latency == (sim.Latency{}) {
		cfg.Latency = sim.Latency{
			API: 20 * time.Millisecond, Launch: 300 * time.Millisecond, Pull: 200 * time.Millisecond,
			Start: 100 * time.Millisecond, Stop: 50 * time.Millisecond,
		}
	}
	w := &world{api: newAPI(t), podUnit: podUnit, done: map[string]int{}}
	w.setConfig(config("first"))
	w.remote = sim.New(cfg)
	return w
}

// live starts an engine that will crash at c.
func (w *world) live(c crash) *life {
	l := &life{world: w, crash: c, dead: make(chan struct{})}
	b := l.wrap(w.remote.Backend())
	b.Limits.Settle = stray + time.Second
	w.startAs(silent(), b, mortalStatus{w.api, l})
	return l
}

// supervise replaces the engine when it dies, until the scenario is over.
func (w *world) supervise(l *life, over <-chan struct{}) {
	select {
	case <-l.dead:
	case <-over:
		return
	}
	w.stop()
	time.Sleep(l.pause)
	w.live(crash{})
}

// watch looks for what must never be, as long as the scenario goes on.
func (w *world) watch(over <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		if found := w.violations(); len(found) > 0 {
			w.t.Errorf("%s: %s", time.Now().Format("04:05.000"), strings.Join(found, "; "))
			return
		}
	}
}

// settled is what holds at the end of every scenario: all pods were deleted.
func (w *world) settled() {
	w.audit()
	for _, f := range w.remote.Facts() {
		w.t.Errorf("attempt %d of pod %s is left on the remote", f.Attempt, f.UID)
	}
	if files := w.remote.Backend().Files; files != nil {
		left, err := files.Volumes(context.Background())
		if err != nil || len(left) > 0 {
			w.t.Errorf("volumes left on the remote: %+v, %v", left, err)
		}
	}
	for _, key := range w.ListKeys() {
		w.t.Errorf("pod %s is left in the API", key)
	}
}

// silent drops the logs of thousands of lives.
func silent() context.Context {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	logger.SetLevel(logrus.PanicLevel)
	return log.WithLogger(context.Background(), logrus.NewEntry(logger))
}

// life is one process: its side effects pass here, and once it is dead there are
// none.
type life struct {
	*world
	crash
	mu      sync.Mutex
	effects []string
	dead    chan struct{}
}

// begin numbers a side effect. It is false for one whose caller is dead by now.
func (l *life) begin(name string) (n int, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDead() {
		return 0, false
	}
	l.effects = append(l.effects, name)
	n = len(l.effects)
	if n == l.at && l.when != after {
		close(l.dead)
	}
	return n, !l.isDead()
}

// end is false when nobody lives to hear how a side effect went.
func (l *life) end(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == l.at && !l.isDead() {
		close(l.dead)
	}
	return !l.isDead()
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// call makes a call that changes the remote. Nobody hears a reply after death:
// the process that waits for it ends with its context.
func call[T any](ctx context.Context, l *life, name string, call func(context.Context) (T, error)) (T, error) {
	n, alive := l.begin(name)
	switch {
	case alive:
		reply, err := call(ctx)
		l.carriedOut(name, err)
		if l.end(n) {
			return reply, err
		}
	case n == l.at && l.when == amid:
		twins := l.twins(name)
		l.sent.Go(func() {
			time.Sleep(stray)
			if l.twins(name) == twins {
				_, _ = call(context.WithoutCancel(ctx)) // nobody hears the reply
			}
		})
	}
	<-ctx.Done()
	var none T
	return none, ctx.Err()
}

// call is for calls whose reply is no more than an error.
func (l *life) call(ctx context.Context, name string, f func(context.Context) error) error {
	_, err := call(ctx, l, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// write makes a write to the API, which is there or is not.
func (l *life) write(name string, write func()) {
	if n, alive := l.begin(name); alive || n == l.at && l.when == amid {
		write()
		l.end(n)
	}
}

type mortalStatus struct {
	*api
	life *life
}

func (s mortalStatus) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	s.life.write("status "+string(status.Phase), func() { s.api.SetStatus(pod, status) })
}

func (s mortalStatus) Reclaimed(uid types.UID) {
	s.life.write("delete", func() { s.api.Reclaimed(uid) })
}

var _ syncloop.Status = mortalStatus{}

// wrap has all calls that change the remote pass the life.
func (l *life) wrap(b backend.Backend) backend.Backend {
	b.Pods = mortalPods{b.Pods, l}
	if b.Containers != nil {
		b.Containers = mortalContainers{b.Containers, l}
	}
	if b.Files != nil {
		b.Files = mortalFiles{b.Files, l}
	}
	if b.Images != nil {
		b.Images = mortalImages{b.Images, l}
	}
	b.Exec = mortalExec{b.Exec, l}
	return b
}

type mortalPods struct {
	backend.Pods
	life *life
}

func (p mortalPods) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	return p.life.call(
		ctx, fmt.Sprintf("launch %s/%d", spec.Pod.UID, spec.Attempt),
		func(ctx context.Context) error { return p.Pods.Launch(ctx, wanted, spec) },
	)
}

func (p mortalPods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	return p.life.call(ctx, "stop", func(ctx context.Context) error { return p.Pods.Stop(ctx, ref, grace) })
}

func (p mortalPods) Remove(ctx context.Context, ref backend.Ref) error {
	return p.life.call(ctx, "remove", func(ctx context.Context) error { return p.Pods.Remove(ctx, ref) })
}

type mortalContainers struct {
	backend.Containers
	life *life
}

func (c mortalContainers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	return c.life.call(
		ctx, fmt.Sprintf("start %s %s/%d", ref.UID, spec.Container.Name, spec.Attempt),
		func(ctx context.Context) error { return c.Containers.Start(ctx, ref, spec) },
	)
}

func (c mortalContainers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	return c.life.call(
		ctx, "stop "+ref.Name, func(ctx context.Context) error { return c.Containers.Stop(ctx, ref, grace) },
	)
}

func (c mortalContainers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	return c.life.call(ctx, "remove "+ref.Name, func(ctx context.Context) error { return c.Containers.Remove(ctx, ref) })
}

type mortalFiles struct {
	backend.Files
	life *life
}

func (f mortalFiles) Place(ctx context.Context, spec backend.VolumeSpec) error {
	return f.life.call(
		ctx, fmt.Sprintf("place %s %s %s", spec.Pod.UID, spec.Name, spec.Hash),
		func(ctx context.Context) error { return f.Files.Place(ctx, spec) },
	)
}

func (f mortalFiles) Clear(ctx context.Context, ref backend.Ref) error {
	return f.life.call(ctx, "clear", func(ctx context.Context) error { return f.Files.Clear(ctx, ref) })
}

type mortalImages struct {
	backend.Images
	life *life
}

func (i mortalImages) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	return call(
		ctx, i.life, "pull",
		func(ctx context.Context) (backend.PulledImage, error) { return i.Images.Pull(ctx, image, creds) },
	)
}

type mortalExec struct {
	inner backend.Exec
	life  *life
}

// Exec lets probes ("true") through: they change nothing.
func (e mortalExec) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	if spec.Command[0] == "true" {
		return e.inner.Exec(ctx, ref, spec)
	}
	return call(ctx, e.life, "hook", func(ctx context.Context) (int32, error) {
		code, err := e.inner.Exec(ctx, ref, backend.ExecSpec{Command: spec.Command})
		if err == nil && code == 0 {
			e.life.ran(executed{time.Now(), ref.Pod.UID, ref.Name})
		}
		return code, err
	})
}

// carriedOut counts the calls of a name that succeeded.
func (w *world) carriedOut(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.done[name]++
	}
}

func (w *world) twins(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[name]
}

func (w *world) ran(e executed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.execs = append(w.execs, e)
}
