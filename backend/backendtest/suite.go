package backendtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Factory makes remotes for the suite and says what to expect of them.
type Factory struct {
	// New makes a remote for one check and returns how an engine connects to
	// it. Each call of open is a restarted engine: a new Backend on the same
	// remote, opened when the Run of the one before has returned. The suite
	// runs Backend.Run itself and waits until the backend answers. Whatever New
	// makes is freed by t.Cleanup. Several checks may get the same remote: they
	// use pods of their own and remove them.
	New func(t *testing.T) (open func() backend.Backend)
	// Around runs a check; nil calls it. It is for synctest.Test.
	Around func(t *testing.T, check func(t *testing.T))
	// Lends names the fields of Backend that may be nil and are not, but for Limits:
	// "Containers", "Exec". Whoever lends more or less than that fails: checks of what
	// is not lent are skipped.
	Lends []string
	// Refuses names the checks whose pods Check refuses, or whose calls are
	// Unsupported: they are skipped. Any other that is refused fails, and so does one
	// of these that is not.
	Refuses []string
	// AtOnce is how many checks run side by side, to save real time, whatever
	// -parallel says: they wait most of the time. Zero: one after the other.
	AtOnce int
	// Image can be pulled and has busybox's sh, sleep, echo, true, false, cat, test,
	// ls, head, stty, httpd and nc, and an empty file system that can be written.
	// MissingImage is a valid name that no registry has.
	Image, MissingImage string
	// SpareImage can be pulled, and nobody but one check does: it removes the image.
	// Empty: removal is not checked.
	SpareImage string
	// MaxApps is how many app containers a pod may have: 1, or 0 for any number.
	// Checks then do with one, or are skipped where they are about several.
	MaxApps int
	// Eventually bounds how long the remote may take for one step: a launch, an
	// exit to be seen, a removal. At most 10 min; zero is 10 s. In real time it is
	// generous: a busy machine takes long. Poll is how often the suite looks; zero
	// is a fiftieth of Eventually.
	Eventually, Poll time.Duration
	// Slack is how far the remote's times may be off: the resolution of its
	// timestamps and the error of its clock offset.
	Slack time.Duration
	// Shells says that real shells run what containers are given, which need time
	// until they have set their traps, and that Logs are lent, which show when. The
	// traps of simulated ones are set at once.
	Shells bool
	// Only are the beginnings of the names of the checks to run, for a test of a part
	// of what a backend lends; none: all.
	Only []string
	// Skip names checks that this remote cannot pass by its nature, with why.
	Skip map[string]string
}

const (
	defaultEventually = 10 * time.Second
	maxEventually     = 10 * time.Minute
)

// longGrace is a grace that a check never waits for: an end within Eventually was
// not caused by it.
func (s *suite) longGrace() time.Duration {
	if limit := s.Limits.MaxGrace; limit > 0 {
		return min(time.Hour, limit/2)
	}
	return time.Hour
}

// Run checks a backend against the contract.
func Run(t *testing.T, f Factory) {
	t.Helper()
	f = f.withDefaults(t)
	var running sync.WaitGroup
	places := make(chan struct{}, max(f.AtOnce, 1))
	for _, c := range checks {
		if !f.runs(c) {
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			t.Run(c.name, func(t *testing.T) { f.run(t, c) })
		})
	}
	running.Wait()
}

// run runs one check in its subtest.
func (f Factory) run(t *testing.T, c check) {
	if why, ok := f.Skip[c.name]; ok {
		t.Skip(why)
	}
	var out outcome
	f.Around(t, func(t *testing.T) { out = runCheck(t, f, c) })
	declared := slices.Contains(f.Refuses, c.name)
	switch {
	case out.refused != "" && !declared:
		t.Errorf("refused, and Factory.Refuses does not name it: %s", out.refused)
	case out.refused == "" && out.skipped == "" && declared:
		t.Error("Factory.Refuses names it, but it is not refused")
	case out.refused != "":
		t.Skip(out.refused)
	case out.skipped != "":
		t.Skip(out.skipped)
	}
}

// outcome says why a check was of no use.
type outcome struct{ skipped, refused string }

func (f Factory) runs(c check) bool {
	return c.name == lendsCheck || len(f.Only) == 0 || slices.ContainsFunc(
		f.Only, func(begins string) bool { return strings.HasPrefix(c.name, begins) },
	)
}

func (f Factory) withDefaults(t *testing.T) Factory {
	t.Helper()
	if f.New == nil || f.Image == "" || f.MissingImage == "" {
		t.Fatal("backendtest: New, Image and MissingImage are required")
	}
	for _, name := range slices.AppendSeq(slices.Clone(f.Refuses), maps.Keys(f.Skip)) {
		if !known(name) {
			t.Fatalf("backendtest: Skip or Refuses names no check: %q", name)
		}
	}
	if f.Eventually == 0 {
		f.Eventually = defaultEventually
	}
	if f.Eventually > maxEventually {
		t.Fatalf("backendtest: Eventually is more than %v", maxEventually)
	}
	if f.Poll == 0 {
		f.Poll = f.Eventually / 50
	}
	if f.Around == nil {
		f.Around = func(t *testing.T, check func(t *testing.T)) { check(t) }
	}
	return f
}

// runCheck runs one check, or returns why it says nothing about this backend.
func runCheck(t *testing.T, f Factory, c check) outcome {
	s := &suite{T: t, f: f, open: f.New(t)}
	s.connect()
	defer func() { s.disconnect() }() // that of the latest connect
	defer s.cleanUp()
	if why := c.needs.missing(s.Backend, f); why != "" {
		return outcome{skipped: why}
	}
	c.run(s)
	return s.outcome
}

// suite is one check under way.
type suite struct {
	*testing.T
	backend.Backend
	f          Factory
	open       func() backend.Backend
	disconnect func()
	made       []types.UID
	outcome
}

// serial keeps pod names apart where checks share a remote.
var serial atomic.Int64

// connect opens the backend and waits until it answers.
func (s *suite) connect() {
	s.Helper()
	s.Backend = s.open()
	s.disconnect = func() {}
	if s.Pods == nil || s.Node == nil || s.Check == nil {
		s.Fatal("Pods, Node and Check are required")
	}
	if s.Backend.Run != nil {
		s.disconnect = s.background("Backend.Run", s.Backend.RunFreely)
	}
	s.eventually("the backend answers", func() error {
		if _, err := s.Node.Describe(s.Context()); err != nil {
			return err
		}
		_, err := s.Pods.List(s.Context())
		return err
	})
}

// background runs f in a goroutine until the returned function ends it.
func (s *suite) background(name string, f func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		s.Helper()
		select {
		case err := <-ended:
			cancel()
			s.Errorf("%s returned before its context ended: %v", name, err)
			return
		default:
		}
		cancel()
		select {
		case err := <-ended:
			s.Logf("%s ended: %v", name, err)
		case <-time.After(s.f.Eventually):
			s.Errorf("%s goes on %v after its context ended", name, s.f.Eventually)
		}
	}
}

// reopen connects as a restarted engine does.
func (s *suite) reopen() {
	s.Helper()
	s.disconnect()
	s.connect()
}

// eventually calls f until it is nil, or fails the check.
func (s *suite) eventually(what string, f func() error) {
	s.Helper()
	if err := s.within(s.f.Eventually, f); err != nil {
		s.Fatalf("not within %v: %s: %v", s.f.Eventually, what, err)
	}
}

// within calls f until it is nil, or returns its last error.
func (s *suite) within(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		s.pause(s.f.Poll)
	}
}

// pause waits, in virtual time too.
func (s *suite) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// must ends the check on an error.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %s: %v", backend.Class(err), err)
	}
}

// wantClass reports an error of another class.
func (s *suite) wantClass(what string, err, class error) {
	s.Helper()
	if want := backend.Class(class); backend.Class(err) != want {
		s.Errorf("%s: error of class %q (%v), want %s", what, backend.Class(err), err, want)
	}
}

// refuses is true, and the check of no use, when Check refuses the pod.
func (s *suite) refuses(pod *corev1.Pod) bool {
	for _, r := range s.Check.Check(pod) {
		s.refused = fmt.Sprintf("Check refuses %s: %s", r.Field, r.Why)
	}
	return s.refused != ""
}

// cleanUp removes the pods that the check made, so that remotes can be shared.
func (s *suite) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 3*s.f.Eventually)
	defer cancel()
	for _, uid := range s.made {
		err := s.within(2*s.f.Eventually, func() error { return s.removeAll(ctx, uid) })
		if err != nil {
			s.Errorf("clean up pod %s: %v", uid, err)
		}
	}
}

// removeAll is nil when no attempt and no volume of the pod is left.
func (s *suite) removeAll(ctx context.Context, uid types.UID) error {
	facts, err := s.Pods.Inspect(ctx, []types.UID{uid})
	if err != nil {
		return err
	}
	var left []string
	for _, f := range facts {
		err := s.Pods.Remove(ctx, f.Ref)
		if backend.Class(err) != backend.Class(backend.ErrNotFound) {
			left = append(left, fmt.Sprintf("attempt %d: %v", f.Attempt, err))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("not removed yet: %s", strings.Join(left, ", "))
	}
	if s.Files != nil {
		return s.clear(ctx, backend.Ref{UID: uid})
	}
	return nil
}
