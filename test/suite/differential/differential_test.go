package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
)

var (
	seed  = flag.Uint64("seed", 0, "what the pods are made of, and of which kinds they are; 0: another each time")
	count = flag.Int("pods", 0, "how many pods each node gets; 0: 60, or with -kinds one of each")
	only  = flag.String("kinds", "", "only kinds whose name matches")
)

const (
	// usual is how many pods each node gets unless told otherwise.
	usual = 60
	// atOnce is how many pods each node has at a time.
	atOnce = 8
	// agreeing is how long both sides may take to show the same once both are there: a
	// kubelet writes a status every 10 s at the latest.
	agreeing = 25 * time.Second
)

// notInNames is what names of pods cannot have.
var notInNames = regexp.MustCompile("[^a-z0-9]+")

// page lists the known differences.
var page = filepath.Join("..", "..", "..", "docs", "behaviours.md")

// outcome is what a run found.
type outcome struct {
	mu    sync.Mutex
	ran   map[string]bool
	found []difference
}

// TestBesideAKubelet compares 60 pods of a seed's choice, with -pods 120 one of each kind and
// more. The seed that it prints makes the same pods again.
func TestBesideAKubelet(t *testing.T) {
	lane.From(t, lane.All)
	known, err := readList(page)
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	chosen := choose(rand.New(rand.NewPCG(*seed, 0)), *only, *count)
	if len(chosen) == 0 {
		t.Fatalf("no kind matches %q", *only)
	}
	w, o := newWorld(t), &outcome{ran: map[string]bool{}}
	t.Run("pods", func(t *testing.T) {
		slots := make(chan struct{}, atOnce)
		for i, k := range chosen {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				p := &pair{
					world: w, kind: k, name: fmt.Sprintf("%s-%d", notInNames.ReplaceAllString(strings.ToLower(k.name), "-"), i),
					seed: uint64(i),
				}
				found := p.run(t, known)
				for _, d := range found {
					t.Log(d) // at once, should the whole not get to its end
				}
				o.note(k.name, found)
			})
		}
	})
	o.judge(t, known)
}

// choose picks n of the kinds whose names match, in any order: each once before one comes a
// second time. Of 0 it makes the usual number, or each once where names are asked for.
func choose(r *rand.Rand, names string, n int) []kind {
	match := regexp.MustCompile(names)
	all := slices.DeleteFunc(kinds(), func(k kind) bool { return !match.MatchString(k.name) })
	switch {
	case len(all) == 0:
		return nil
	case n == 0 && names != "":
		n = len(all)
	case n == 0:
		n = usual
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	chosen := slices.Clone(all)
	for len(chosen) < n {
		chosen = append(chosen, all[r.IntN(len(all))])
	}
	return chosen[:n]
}

func (o *outcome) note(kind string, found []difference) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran[kind] = true
	o.found = append(o.found, found...)
}

// judge prints what differs, and fails for what is not known and for what is known and no
// more so.
func (o *outcome) judge(t *testing.T, known []listed) {
	t.Helper()
	seen := make([]bool, len(known))
	for _, d := range o.found {
		i := slices.IndexFunc(known, func(l listed) bool { return l.covers(d) })
		if i < 0 {
			t.Errorf("differs: %s", d)
			continue
		}
		t.Logf("known: %s", d)
		for i, l := range known {
			seen[i] = seen[i] || l.covers(d)
		}
	}
	for i, l := range known {
		if !seen[i] && !l.chance && o.all(l.kinds) {
			t.Errorf("%s lists what is the same by now: %s", page, l.line)
		}
	}
	t.Logf("%d kinds of pods, %d fields differ", len(o.ran), len(o.found))
}

// all says whether all of these kinds ran.
func (o *outcome) all(names []string) bool {
	if slices.Contains(names, "all") {
		return len(o.ran) == len(kinds())
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !o.ran[name] })
}

// pair is one pod on both nodes.
type pair struct {
	*world
	kind kind
	name string
	seed uint64
}

// run returns the differences once both pods are in the state to be compared, and had
// time to agree.
func (p *pair) run(t *testing.T, known []listed) []difference {
	t.Helper()
	var group sync.WaitGroup
	errs := map[string]error{}
	var mu sync.Mutex
	for _, side := range sides {
		group.Go(func() {
			err := p.live(t.Context(), side)
			mu.Lock()
			defer mu.Unlock()
			errs[side] = err
		})
	}
	group.Wait()
	defer p.remove(t)
	if err := errors.Join(errs[theirs]); err != nil {
		t.Errorf("on the kubelet: %v", err)
		return nil
	}
	if err := errs[ours]; err != nil {
		return []difference{{p.kind.name, "the state to be compared", "reached", normal(err.Error())}}
	}
	var found []difference
	ctx, cancel := context.WithTimeout(t.Context(), agreeing)
	defer cancel()
	agreed := wait.Until(ctx, "both to agree", func(context.Context) error {
		var err error
		if found, err = p.differences(); err != nil {
			return err
		}
		for _, d := range found {
			if !slices.ContainsFunc(known, func(l listed) bool { return l.covers(d) }) {
				return errors.New(d.String())
			}
		}
		return nil
	})
	if agreed != nil && found == nil {
		t.Error(agreed)
	}
	return found
}

// live makes a pod and brings it to the state to be compared.
func (p *pair) live(ctx context.Context, side string) error {
	if p.kind.before != nil {
		if err := p.kind.before(ctx, &subject{p, side}); err != nil {
			return err
		}
	}
	pod := p.pod(side)
	if _, err := p.client.CoreV1().Pods(side).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make pod: %w", err)
	}
	if err := p.await(ctx, side, p.kind.until); err != nil {
		return err
	}
	if p.kind.then == nil {
		return nil
	}
	if err := p.kind.then(ctx, &subject{p, side}); err != nil {
		return fmt.Errorf("change pod: %w", err)
	}
	if p.kind.gone {
		return p.awaitGone(ctx, side)
	}
	return p.await(ctx, side, p.kind.after)
}

// pod is the same on both sides but for its node.
func (p *pair) pod(side string) *corev1.Pod {
	grace := int64(2)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: side},
		Spec: corev1.PodSpec{NodeName: side, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
			Name: "app", Image: images.BusyboxRef, Command: forever,
		}}},
	}
	p.kind.make(rand.New(rand.NewPCG(*seed, p.seed+1)), pod)
	return pod
}

func (p *pair) await(ctx context.Context, side string, want func(*corev1.Pod) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.Until(ctx, p.name+" on "+side, func(context.Context) error {
		_, _, _, err := p.seen.look(side, p.name, want)
		if err != nil {
			err = fmt.Errorf("%w; %s", err, brief(p.seen.last(side, p.name)))
		}
		return err
	})
}

func (p *pair) awaitGone(ctx context.Context, side string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.Until(ctx, p.name+" to be gone from "+side, func(context.Context) error {
		if _, gone, _, _ := p.seen.look(side, p.name, anything); !gone {
			return fmt.Errorf("it is there; %s", brief(p.seen.last(side, p.name)))
		}
		return nil
	})
}

// differences are those of now.
func (p *pair) differences() ([]difference, error) {
	all := map[string]shown{}
	for _, side := range sides {
		want := p.kind.until
		switch {
		case p.kind.gone:
			want = anything
		case p.kind.after != nil:
			want = p.kind.after
		}
		pod, _, events, err := p.seen.look(side, p.name, want)
		if err != nil {
			return nil, err
		}
		if all[side], err = showPod(pod, events); err != nil {
			return nil, err
		}
	}
	return compare(p.kind.name, all[theirs], all[ours]), nil
}

// remove leaves the nodes to others.
func (p *pair) remove(t *testing.T) {
	t.Helper()
	for _, side := range sides {
		grace := int64(1)
		err := p.client.CoreV1().Pods(side).Delete(t.Context(), p.name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
		if err != nil && !p.kind.gone {
			t.Errorf("delete pod: %v", err)
		}
	}
}
