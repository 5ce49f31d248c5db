package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/local"
)

// death is when exactly a process dies, which makes a call of the runtime.
type death string

const (
	// beforeCall: it is never made.
	beforeCall death = "before"
	// amidCall: the runtime is at work on it, and whoever calls on the host finishes it.
	amidCall death = "amid"
	// withCall: the runtime is at work on it, and who calls on the host dies too.
	withCall death = "with"
	// afterCall: it was carried out, and nobody hears the reply.
	afterCall death = "after"
)

const (
	// strays is how long a call takes whose caller died amid it.
	strays = 2 * time.Second
	// graceTime is what pods get that are stopped.
	graceTime = 3 * time.Second
	// lookPause is that between two looks at the pod.
	lookPause = 500 * time.Millisecond
)

// crashStory is what happens to a pod of two containers that may each run once.
type crashStory struct {
	name string
	// runFor is how long a container runs by itself; 0: until it is stopped.
	runFor time.Duration
	// ranFor and after are how long it is until the pod is deleted: from when both containers
	// were seen to have run, and from its creation; 0: it is when both have ended.
	ranFor, after time.Duration
	// codes are the exit codes of the containers; nil: they may never run.
	codes map[string]int32
}

var crashStories = []crashStory{
	{name: "it ends", runFor: 4 * time.Second, codes: map[string]int32{"a": 0, "deaf": 0}},
	{name: "it is stopped", ranFor: 2 * time.Second, codes: map[string]int32{"deaf": 137}},
	{name: "it is deleted while it starts", after: lookPause + lookPause/2},
}

// TestRuntimeCrashPoints ends burstlet at each call of the runtime that changes something, in each
// way, and starts another a while later, which goes on with the pod: no container runs
// twice, and nothing is left.
func TestRuntimeCrashPoints(t *testing.T) {
	points, deaths := 0, 0
	for _, s := range crashStories {
		t.Run(s.name, func(t *testing.T) {
			calls := s.play(t, &life{})
			if t.Failed() || len(calls) == 0 {
				t.Fatalf("it does not end well even without a crash: %q", calls)
			}
			for at, call := range calls {
				for _, when := range []death{beforeCall, amidCall, withCall, afterCall} {
					for _, away := range []time.Duration{0, 20 * time.Second} {
						points++
						t.Run(fmt.Sprintf("%s %d %s, %s away", when, at+1, call, away), func(t *testing.T) {
							mortal := &life{at: at + 1, when: when, away: away}
							if s.play(t, mortal); mortal.died {
								deaths++
							}
						})
					}
				}
			}
		})
	}
	t.Logf("%d deaths at %d crash points", deaths, points)
}

// crashWorld is the runtime, the host and the API, which outlive each process.
type crashWorld struct {
	*world
	t     *testing.T
	story crashStory
	pod   *corev1.Pod
	wire  *bufconn.Listener
	run   string // of locks
	begun time.Time

	mu sync.Mutex
	// ran is when both containers were first seen to have run, over when the pod is to go.
	ran, over time.Time
	// ends are the ends of containers that were seen, as the API would have them.
	ends map[string]backend.ContainerFacts
	gone bool
	now  *life
}

// life is one process, which dies at its call number at.
type life struct {
	at   int
	when death
	// away is how long there is no process after it.
	away time.Duration

	*crashWorld
	born  time.Time
	inner *local.Host
	mu    sync.Mutex
	calls []string
	// amid is the method of the call whose middle kills.
	amid string
	dead chan struct{}
	died bool // once it is over
}

// play tells the story in virtual time, and returns the calls of the first process.
func (s crashStory) play(t *testing.T, first *life) (calls []string) {
	synctest.Test(t, func(t *testing.T) {
		w := &crashWorld{
			world: &world{fake: fakecri.New(testImage), cfg: configIn(t.TempDir(), "/run/fake.sock")},
			t:     t, story: s, pod: testPod("u1"), wire: bufconn.Listen(1 << 16), run: t.TempDir(), begun: time.Now(),
			ends: map[string]backend.ContainerFacts{},
		}
		w.pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		w.pod.Spec.Containers = []corev1.Container{{Name: "a", Image: testImage}, {Name: "deaf", Image: testImage}}
		w.fake.IgnoresTERM["deaf"] = true
		w.fake.Amid, w.fake.After = w.midway, w.started
		stop := w.fake.ServeOn(w.wire)
		defer stop()
		if first.live(w); first.isDead() {
			time.Sleep(first.away)
			next := &life{}
			next.live(w)
			next.inner.AwaitCalls()
		}
		first.inner.AwaitCalls()
		w.settled(first)
		calls, first.died = first.calls, first.isDead()
	})
	return calls
}

// live is a process from its start to the pod's end, or its own.
func (l *life) live(w *crashWorld) {
	l.crashWorld, l.born, l.dead = w, time.Now(), make(chan struct{})
	w.mu.Lock()
	w.now = l
	w.mu.Unlock()
	l.inner = local.New(local.Options{RunRoot: w.run, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		return w.wire.DialContext(ctx)
	}})
	r, err := newRemote(w.cfg, access{
		host: mortalHost{&withoutCgroups{Host: l.inner}, l}, control: wired{w.wire}, streams: wired{w.wire}, may: l.may,
	})
	must(w.t, err)
	ctx, die := context.WithCancel(log.WithLogger(w.t.Context(), silent()))
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := r.run(ctx, l.may); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait() // until it runs
	parts.Go(func() {
		defer die()
		l.carry(ctx, r)
	})
	select {
	case <-l.dead:
	case <-ctx.Done():
	}
	die()
	parts.Wait()
}

// wired dials the runtime, whatever is asked for.
type wired struct{ *bufconn.Listener }

func (w wired) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return w.Listener.DialContext(ctx)
}

func silent() *logrus.Entry {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logrus.NewEntry(logger)
}

// carry takes the pod from wherever it is to its end, as the engine does: each step anew by
// what is there.
func (l *life) carry(ctx context.Context, r *remote) {
	for ctx.Err() == nil && time.Since(l.begun) < 10*time.Minute {
		pause := l.step(ctx, r)
		if pause == 0 {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// step is one look at the pod, and what is to be done. It returns how long it is until the
// next; 0: the pod has gone.
func (l *life) step(ctx context.Context, r *remote) time.Duration {
	facts, err := pods{r}.Inspect(ctx, []types.UID{l.pod.UID})
	if err != nil {
		return lookPause
	}
	over := l.record(facts)
	switch {
	case !over.IsZero():
		return l.end(ctx, r, facts, over)
	case len(facts) == 0:
		// What fails is tried again: that is what the next step is.
		_ = pods{r}.Launch(ctx, ctx, launchSpec(l.pod, 0))
		return lookPause
	}
	newest := facts[len(facts)-1]
	if !newest.Live && len(newest.Containers) == 0 {
		_ = pods{r}.Launch(ctx, ctx, launchSpec(l.pod, newest.Attempt+1)) // as above
		return lookPause
	}
	for _, c := range l.pod.Spec.Containers {
		i := slices.IndexFunc(newest.Containers, func(f backend.ContainerFacts) bool { return f.Name == c.Name })
		if i < 0 || newest.Containers[i].State() == backend.Waiting {
			_ = containers{r}.Start(ctx, newest.Ref, containerSpec(l.pod, c.Name, 0)) // as above
		}
	}
	return lookPause
}

// record notes what there is, and returns when the pod is to go; zero: not yet.
func (l *life) record(facts []backend.PodFacts) (over time.Time) {
	w := l.crashWorld
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.isDead() {
		return w.over
	}
	ran := 0
	for _, f := range facts {
		for _, c := range f.Containers {
			switch c.State() {
			case backend.Exited:
				w.ends[c.Name] = c
				ran++
			case backend.Running:
				ran++
			case backend.Waiting:
			}
		}
	}
	if w.ran.IsZero() && ran == len(w.pod.Spec.Containers) {
		w.ran = time.Now()
	}
	if w.over.IsZero() && (w.deleted() || len(w.ends) == len(w.pod.Spec.Containers)) {
		w.over = time.Now()
	}
	return w.over
}

// deleted is true once the story has come to the pod's deletion. The lock is held.
func (w *crashWorld) deleted() bool {
	return w.story.after > 0 && time.Since(w.begun) >= w.story.after ||
		w.story.ranFor > 0 && !w.ran.IsZero() && time.Since(w.ran) >= w.story.ranFor
}

// end stops and removes what is there.
func (l *life) end(ctx context.Context, r *remote, facts []backend.PodFacts, over time.Time) time.Duration {
	ref := backend.Ref{Namespace: l.pod.Namespace, Name: l.pod.Name, UID: l.pod.UID}
	for _, f := range facts {
		if f.Live {
			_ = pods{r}.Stop(ctx, f.Ref, max(0, graceTime-time.Since(over))) // it is asked again while it lives
			return lookPause
		}
		ref = f.Ref
	}
	if err := (pods{r}).Remove(ctx, ref); !errors.Is(err, backend.ErrNotFound) {
		return lookPause
	}
	if err := (files{r}).Clear(ctx, ref); err != nil && !errors.Is(err, backend.ErrNotFound) {
		return lookPause
	}
	w := l.crashWorld
	w.mu.Lock()
	defer w.mu.Unlock()
	if wait := settle - time.Since(l.born); wait >= 0 {
		return wait + lookPause // what the process before was amid may appear for so long
	}
	w.gone = !l.isDead()
	return 0
}

// settled is what holds in the end.
func (w *crashWorld) settled(first *life) {
	t := w.t
	if !w.gone {
		t.Error("the pod has not gone")
	}
	cutStart := first.when == withCall && first.isDead() && first.calls[first.at-1] == "StartContainer"
	for _, c := range w.pod.Spec.Containers {
		if n := w.fake.Runs(c.Name); n > 1 || n == 0 && w.story.codes != nil {
			t.Errorf("container %s ran %d times", c.Name, n)
		}
		want, known := w.story.codes[c.Name]
		if end, seen := w.ends[c.Name]; known && (!seen || end.ExitCode != want) && !cutStart {
			t.Errorf("the end of container %s: %+v, want code %d", c.Name, end, want)
		}
	}
	w.nothingLeft()
	if t.Failed() {
		t.Logf("the calls of the first process: %q", first.calls)
	}
}

// nothingLeft looks for what the runtime and the host have still.
func (w *crashWorld) nothingLeft() {
	t := w.t
	for _, c := range w.pod.Spec.Containers {
		if id, _ := w.fake.Container(c.Name); id != "" {
			t.Errorf("container %s is left", c.Name)
		}
	}
	if left := w.fake.Sandboxes(); len(left) > 0 {
		t.Errorf("%d sandboxes are left", len(left))
	}
	for _, dir := range []string{w.cfg.PodsDir, w.cfg.PodLogsDir, w.cfg.ContainerLogsDir, w.run} {
		err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if file != dir && err == nil {
				t.Errorf("%s is left", file)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// midway is the middle of a call at the runtime.
func (w *crashWorld) midway(ctx context.Context, method string) {
	w.mu.Lock()
	l := w.now
	w.mu.Unlock()
	l.mu.Lock()
	hit := l.amid == method
	if hit {
		l.amid = ""
	}
	l.mu.Unlock()
	if !hit {
		return
	}
	l.die()
	timer := time.NewTimer(strays)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// started lets a container end by itself after its time.
func (w *crashWorld) started(_ context.Context, method string, request any) error {
	if start, ok := request.(*runtimeapi.StartContainerRequest); ok && method == "StartContainer" && w.story.runFor > 0 {
		time.AfterFunc(w.story.runFor, func() { w.fake.Exit(start.GetContainerId(), 0, "Completed") })
	}
	return nil
}

func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isDead() {
		close(l.dead)
	}
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// may lets a dead process change nothing any more.
func (l *life) may(change string) error {
	if l.isDead() {
		return backend.Errorf(backend.ErrThrottled, "%s: this process is dead", change)
	}
	return nil
}

// mortalHost makes the calls of a process, which may die of one.
type mortalHost struct {
	host.Host
	life *life
}

func (h mortalHost) Call(ctx context.Context, c host.Call) ([]byte, error) {
	l, method := h.life, path.Base(c.Method)
	l.mu.Lock()
	l.calls = append(l.calls, method)
	hit := len(l.calls) == l.at
	if hit && (l.when == amidCall || l.when == withCall) {
		l.amid = method
		c.Bound = l.when == withCall
	}
	l.mu.Unlock()
	if hit && l.when == beforeCall {
		l.die()
	}
	if !l.isDead() {
		reply, err := h.Host.Call(ctx, c)
		if hit && l.when == afterCall {
			l.die()
		}
		if !l.isDead() {
			return reply, err
		}
	}
	<-ctx.Done() // nobody hears of it
	return nil, ctx.Err()
}
