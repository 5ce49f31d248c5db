package prober

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/burstlet/burstlet/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what one run of a command gives: takes is how long it runs, way how long the
// request is on its way before.
type answer struct {
	code       int32
	output     string
	err        error
	way, takes time.Duration
}

var (
	good = answer{}
	bad  = answer{code: 1, output: "not yet"}
)

// remote runs commands by script: the last answer is repeated.
type remote struct {
	mu     sync.Mutex
	script []answer
	at     []time.Duration
	refs   []backend.ContainerRef
	begin  time.Time
}

func newRemote(script ...answer) *remote { return &remote{script: script, begin: time.Now()} }

func (r *remote) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	r.mu.Lock()
	r.at = append(r.at, time.Since(r.begin))
	r.refs = append(r.refs, ref)
	a := r.script[0]
	if len(r.script) > 1 {
		r.script = r.script[1:]
	}
	r.mu.Unlock()
	if a.way > 0 {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(a.way):
		}
	}
	ctx, cancel := spec.Within(ctx)
	defer cancel()
	if a.takes > 0 {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(a.takes):
		}
	}
	if _, err := io.WriteString(spec.Stdout, a.output); err != nil {
		return 0, err
	}
	return a.code, a.err
}

// times are when commands began, since the remote was made.
func (r *remote) times() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Duration(nil), r.at...)
}

type dialFunc func(context.Context, backend.Ref, string) (net.Conn, error)

func (f dialFunc) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	return f(ctx, pod, address)
}

// rig is a Manager with a remote and what it told.
type rig struct {
	*Manager
	remote *remote
	// set is Set with a context that ends with the test.
	set     func(*corev1.Pod, []Target)
	mu      sync.Mutex
	changes []time.Duration
	events  []string
}

// newRig starts a Manager that ends with the test, in a bubble.
func newRig(t *testing.T, cfg Config, script ...answer) *rig {
	r := &rig{remote: newRemote(script...)}
	if cfg.Exec == nil && len(script) > 0 {
		cfg.Exec = r.remote
	}
	cfg.Changed = func(types.UID) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = append(r.changes, time.Since(r.remote.begin))
	}
	cfg.Event = func(_ *corev1.Pod, _, kind, reason, message string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, kind+" "+reason+" "+message)
	}
	r.Manager = New(cfg)
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(log.WithLogger(t.Context(), logrus.NewEntry(silent)))
	r.set = func(pod *corev1.Pod, targets []Target) { r.Set(ctx, pod, targets) }
	t.Cleanup(func() {
		cancel()
		r.Wait()
	})
	return r
}

func (r *rig) told() (changes []time.Duration, events []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(changes, r.changes...), append(events, r.events...)
}

func (r *rig) outcome(k Key) Outcome { return r.Results("u1")[k].Outcome }

func thePod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "ns", Name: "p"}}
}

// execTarget is an exec probe each second of a container that starts now.
func execTarget(kind Kind, change func(*corev1.Probe)) Target {
	p := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
		PeriodSeconds: 10, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 3,
	}
	if change != nil {
		change(p)
	}
	return Target{
		Key: Key{Container: "web", ID: "c1", Kind: kind}, Probe: p, StartedAt: time.Now(), PodIP: "10.0.0.1",
		Ref:  backend.ContainerRef{Name: "web", ID: "c1", Pod: backend.Ref{UID: "u1"}},
		Spec: &corev1.Container{Name: "web"},
	}
}
