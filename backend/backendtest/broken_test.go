package backendtest_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/sim"
)

// A suite that cannot fail proves nothing. Each backend below breaks one rule;
// the suite runs on it in a process of its own and must fail in the check named.

// brokenEnv chooses the broken backend in the process that is to fail.
const brokenEnv = "BACKENDTEST_BROKEN"

type brokenBackend struct {
	check   string
	podUnit bool
	breakIt func(backend.Backend) backend.Backend
}

var broken = map[string]brokenBackend{
	"launch makes another each time": {"launch/twice_makes_one", false, func(b backend.Backend) backend.Backend {
		b.Pods = &twins{Pods: b.Pods}
		return b
	}},
	"list forgets a new pod": {"launch/shows_identity_at_once", true, func(b backend.Backend) backend.Backend {
		b.Pods = forgetful{b.Pods}
		return b
	}},
	"attempt is lost": {"launch/next_attempt_after_the_end", true, func(b backend.Backend) backend.Backend {
		b.Pods = edited{b.Pods, func(f *backend.PodFacts) { f.Attempt = 0 }}
		return b
	}},
	"hash is lost": {"launch/shows_identity_at_once", false, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.Hash = "" })
		return b
	}},
	"exit codes are lost": {"exit/codes", true, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.ExitCode = 0 })
		return b
	}},
	"times are the reading's": {"exit/times_are_in_order", true, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.FinishedAt = c.CreatedAt })
		return b
	}},
	"stop kills at once": {"stop/TERM_ends_it_within_the_grace", false, func(b backend.Backend) backend.Backend {
		b.Pods = stopWith{b.Pods, func(time.Duration) time.Duration { return 0 }}
		return b
	}},
	"stop knows one grace": {"stop/a_shorter_grace_replaces_a_longer", true, func(b backend.Backend) backend.Backend {
		b.Pods = stopWith{b.Pods, func(time.Duration) time.Duration { return time.Minute }}
		return b
	}},
	"graces are far too long": {"stop/a_longer_grace_changes_nothing", true, func(b backend.Backend) backend.Backend {
		b.Pods = stopWith{b.Pods, func(d time.Duration) time.Duration { return 30 * d }}
		return b
	}},
	"stop of nothing is success": {"stop/what_is_not_there_is_NotFound", false, func(b backend.Backend) backend.Backend {
		b.Pods = kind{b.Pods}
		return b
	}},
	"remove claims too early": {"remove/kills_what_runs", true, func(b backend.Backend) backend.Backend {
		b.Pods = liar{b.Pods}
		return b
	}},
	"inspect is empty": {"read/Inspect_says_what_List_says", false, func(b backend.Backend) backend.Backend {
		b.Pods = blind{b.Pods}
		return b
	}},
	"no hints": {"events/a_change_is_hinted_at", false, func(b backend.Backend) backend.Backend {
		b.Events = silent{}
		return b
	}},
	"check writes": {"check/is_pure", false, func(b backend.Backend) backend.Backend {
		b.Check = backend.CheckFunc(func(p *corev1.Pod) []backend.Refusal { p.Name = "mine"; return nil })
		return b
	}},
	"missing images are fatal": {"image/missing_from_the_registry", false, func(b backend.Backend) backend.Backend {
		b.Images = strict{b.Images}
		return b
	}},
	"logs are no longer lent": {"lends/what_is_declared", false, func(b backend.Backend) backend.Backend {
		b.Logs = nil
		return b
	}},
	"something new is lent": {"lends/what_is_declared", true, func(b backend.Backend) backend.Backend {
		b.Sweep = func(context.Context) ([]string, error) { return nil, nil }
		return b
	}},
	"more is refused than is declared": {
		"exit/termination_message_of_its_file",
		false,
		func(b backend.Backend) backend.Backend {
			b.Check = backend.CheckFunc(
				func(*corev1.Pod) []backend.Refusal { return []backend.Refusal{{Field: "spec", Why: "it may not"}} },
			)
			return b
		},
	},
	"what is declared as refused is taken": {
		"attach/a_terminal", false, func(b backend.Backend) backend.Backend { return b },
	},
	"contexts are ignored": {"context/an_ended_context_ends_calls", true, func(b backend.Backend) backend.Backend {
		b.Pods = deaf{b.Pods}
		return b
	}},
}

// TestBrokenBackendsFail runs the suite on every broken backend.
func TestBrokenBackendsFail(t *testing.T) {
	if name := os.Getenv(brokenEnv); name != "" {
		runBroken(t, name)
		return
	}
	all := maps.Clone(broken)
	maps.Copy(all, brokenAccess)
	maps.Copy(all, brokenResize)
	maps.Copy(all, brokenSignals)
	maps.Copy(all, brokenStats)
	maps.Copy(all, brokenStore)
	maps.Copy(all, brokenStreams)
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0],
				"-test.run=^TestBrokenBackendsFail$/^"+strings.ReplaceAll(b.check, "/", "$/^")+"$", "-test.v")
			cmd.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenBackendsFail/"+b.check+" ") {
				t.Errorf("the suite does not fail in %s: %v\n%s", b.check, err, out)
			}
		})
	}
}

func runBroken(t *testing.T, name string) {
	b, ok := broken[name]
	if !ok {
		b, ok = brokenAccess[name]
	}
	if !ok {
		b, ok = brokenSignals[name]
	}
	if !ok {
		b, ok = brokenStats[name]
	}
	if !ok {
		b, ok = brokenStreams[name]
	}
	if !ok {
		b, ok = brokenStore[name]
	}
	if !ok {
		b, ok = brokenResize[name]
	}
	if !ok {
		t.Fatalf("no broken backend %q", name)
	}
	lends, refuses := simLends, []string(nil)
	if b.podUnit {
		lends = simLendsOfPods
	}
	if name == "what is declared as refused is taken" {
		refuses = []string{"attach/a terminal"}
	}
	backendtest.Run(t, backendtest.Factory{
		Lends: lends, Refuses: refuses,
		New: func(*testing.T) func() backend.Backend {
			r := sim.New(sim.Config{PodUnit: b.podUnit, Latency: sim.Latency{Stop: time.Second}})
			return func() backend.Backend { return b.breakIt(r.Backend()) }
		},
		Around: synctest.Test,
		Image:  "busybox", MissingImage: "missing", SpareImage: "spare",
	})
}

// twins launches a second pod under the same name when asked again.
type twins struct {
	backend.Pods
	mu    sync.Mutex
	asked map[types.UID]types.UID
}

func (p *twins) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	p.mu.Lock()
	if p.asked == nil {
		p.asked = map[types.UID]types.UID{}
	}
	uid := spec.Pod.UID
	if _, again := p.asked[uid]; again {
		spec.Pod = spec.Pod.DeepCopy()
		spec.Pod.UID = uuid.NewUUID()
	}
	p.asked[spec.Pod.UID] = uid
	p.mu.Unlock()
	return p.Pods.Launch(ctx, wanted, spec)
}

func (p *twins) List(ctx context.Context) ([]backend.PodFacts, error) {
	facts, err := p.Pods.List(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range facts {
		facts[i].UID = p.asked[facts[i].UID]
	}
	return facts, err
}

// forgetful lists a pod only after a second, as an index that lags does.
type forgetful struct{ backend.Pods }

func (p forgetful) List(ctx context.Context) ([]backend.PodFacts, error) {
	facts, err := p.Pods.List(ctx)
	var old []backend.PodFacts
	for _, f := range facts {
		if time.Since(f.CreatedAt) > time.Second {
			old = append(old, f)
		}
	}
	return old, err
}

// edited changes all facts.
type edited struct {
	backend.Pods
	edit func(*backend.PodFacts)
}

func editedContainers(p backend.Pods, edit func(*backend.ContainerFacts)) backend.Pods {
	return edited{p, func(f *backend.PodFacts) {
		for i := range f.Containers {
			edit(&f.Containers[i])
		}
	}}
}

func (p edited) all(facts []backend.PodFacts, err error) ([]backend.PodFacts, error) {
	for i := range facts {
		p.edit(&facts[i])
	}
	return facts, err
}

func (p edited) List(ctx context.Context) ([]backend.PodFacts, error) {
	return p.all(p.Pods.List(ctx))
}

func (p edited) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	return p.all(p.Pods.Inspect(ctx, uids))
}

// stopWith stops with another grace than it was given.
type stopWith struct {
	backend.Pods
	grace func(time.Duration) time.Duration
}

func (p stopWith) Stop(ctx context.Context, ref backend.Ref, d time.Duration) error {
	return p.Pods.Stop(ctx, ref, p.grace(d))
}

// kind never says NotFound to a stop.
type kind struct{ backend.Pods }

func (p kind) Stop(ctx context.Context, ref backend.Ref, d time.Duration) error {
	if err := p.Pods.Stop(ctx, ref, d); backend.Class(err) != "NotFound" {
		return err
	}
	return nil
}

// liar says NotFound while the removal goes on.
type liar struct{ backend.Pods }

func (p liar) Remove(ctx context.Context, ref backend.Ref) error {
	if err := p.Pods.Remove(ctx, ref); err != nil {
		return err
	}
	return backend.Errorf(backend.ErrNotFound, "it is gone, believe me")
}

// blind inspects nothing.
type blind struct{ backend.Pods }

func (blind) Inspect(context.Context, []types.UID) ([]backend.PodFacts, error) { return nil, nil }

// silent never hints.
type silent struct{}

func (silent) Run(ctx context.Context, _ chan<- types.UID) error {
	<-ctx.Done()
	return ctx.Err()
}

// strict calls a missing image invalid.
type strict struct{ backend.Images }

func (i strict) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	pulled, err := i.Images.Pull(ctx, image, creds)
	return pulled, backend.Classed(backend.ErrInvalid, err)
}

// deaf does not look at contexts.
type deaf struct{ backend.Pods }

func (p deaf) List(ctx context.Context) ([]backend.PodFacts, error) {
	return p.Pods.List(context.WithoutCancel(ctx))
}
