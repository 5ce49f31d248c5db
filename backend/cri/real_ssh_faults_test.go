package cri

import (
	"context"
	"errors"
	"flag"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/link"
)

const (
	// faultRate is the share of calls that go wrong.
	faultRate = 0.3
	// resetFrom and resetTo bound the random pause between two resets of the link,
	// which takes a second or two to come up again where all are busy.
	resetFrom, resetTo = time.Second, 8 * time.Second
	// patience is for how long a call that fails is made again while the link is
	// reset, and againAfter the pause before it is.
	patience, againAfter = 3 * time.Minute, 20 * time.Millisecond
	// mostInARow is more faults in a row than one call draws: a chance of 10 to the -21.
	mostInARow = 40
)

// TestContractOverSSHWithFaults: whoever repeats what failed, as the engine does,
// finds the contract honoured although calls fail before they are made, their
// replies are lost or late, and listings are cut short.
func TestContractOverSSHWithFaults(t *testing.T) {
	lane.From(t, lane.Gate)
	_, f := overSSH(t, withFaults(t))
	backendtest.Run(t, f)
}

// TestContractOnContainerdWithFaults: the same on a local socket. What repeats and
// what is repeated are the same code as over SSH, so only the slowest lane has both.
func TestContractOnContainerdWithFaults(t *testing.T) {
	lane.From(t, lane.All)
	backendtest.Run(t, onContainerd(t, withFaults(t)))
}

// withFaults puts faults into what the suite connects to, and one who repeats what
// failed before it.
func withFaults(t *testing.T) func(*testing.T, backend.Backend) backend.Backend {
	t.Helper()
	scripts := &scriptsByCheck{}
	t.Cleanup(func() {
		if n := scripts.calls(); n == 0 && !t.Skipped() {
			t.Error("no call went through a script")
		}
	})
	return func(t *testing.T, b backend.Backend) backend.Backend {
		return persistent(fault.Wrap(b, scripts.of(t.Name())), false)
	}
}

// scriptsByCheck keeps one script for each check: it goes on over restarts of the
// engine, and draws the same faults at every run.
type scriptsByCheck struct {
	mu     sync.Mutex
	byName map[string]*fault.Script
}

func (s *scriptsByCheck) of(name string) *fault.Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*fault.Script{}
	}
	if s.byName[name] == nil {
		s.byName[name] = &fault.Script{Decide: drawFaults(name)}
	}
	return s.byName[name]
}

func (s *scriptsByCheck) calls() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, script := range s.byName {
		n += script.Calls(fault.PodsList)
	}
	return n
}

// drawFaults draws faults from a name. What a stream has begun is not begun twice:
// commands, logs and connections are let through.
func drawFaults(name string) func(fault.Call) fault.Fault {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // it has no errors
	draw := rand.New(rand.NewPCG(sum.Sum64(), 1))
	return func(c fault.Call) fault.Fault {
		if draw.Float64() >= faultRate {
			return fault.Fault{}
		}
		switch c.Method {
		case fault.Hint:
			return fault.Fault{Repeat: 2}
		case fault.PodsList, fault.PodsInspect, fault.FilesVolumes, fault.StoreList, fault.StatsStats:
			return pick(
				draw, fault.Fault{Partial: true}, fault.Fault{Err: errInjected}, fault.Fault{Delay: 30 * time.Millisecond},
			)
		case fault.PodsLaunch, fault.PodsStop, fault.PodsRemove,
			fault.ContainersStart, fault.ContainersStop, fault.ContainersRemove,
			fault.ResizeResize, fault.FilesPlace, fault.FilesClear, fault.StoreRemove,
			fault.ImagesPull, fault.ImagesFind, fault.NodeDescribe:
			return pick(draw, fault.Fault{LoseReply: true}, fault.Fault{Err: errInjected},
				fault.Fault{Delay: 50 * time.Millisecond}, fault.Fault{ReplyDelay: 50 * time.Millisecond})
		default:
			return fault.Fault{}
		}
	}
}

var errInjected = backend.Errorf(backend.ErrUnavailable, "%w: the call was not made", fault.ErrInjected)

func pick(draw *rand.Rand, from ...fault.Fault) fault.Fault { return from[draw.IntN(len(from))] }

var (
	linkResets = flag.Bool(
		"linkresets", false, "run TestContractOverSSHWhileTheLinkIsReset in every lane; make chaos does",
	)
	linkSeed = flag.Uint64("linkseed", 0, "the seed of the moments of resets, to have those of a run again; 0: a new one")
)

// TestContractOverSSHWhileTheLinkIsReset: the same, with all connections of the
// link reset at random moments. Streams end with their connection: what is about
// them is left out.
func TestContractOverSSHWhileTheLinkIsReset(t *testing.T) {
	if !*linkResets {
		lane.From(t, lane.All)
	}
	h, f := overSSH(t, func(_ *testing.T, b backend.Backend) backend.Backend { return persistent(b, true) })
	f.AtOnce = 2 // so that it lasts, and many resets fall into it
	f.Around = func(t *testing.T, check func(t *testing.T)) {
		_, rest, _ := strings.Cut(t.Name(), "/")
		topic, name, _ := strings.Cut(rest, "/")
		switch topic {
		case "launch", "read", "start", "stop", "remove", "resize":
		case "files":
			if strings.HasPrefix(name, "a_swap") || strings.HasPrefix(name, "an_emptyDir") ||
				strings.HasPrefix(name, "contents") {
				t.Skip("it reads by a stream, which ends with its connection")
			}
		default:
			t.Skip("it is about streams, or changes nothing")
		}
		check(t)
	}
	resets := resetAtRandom(t, h.Link())
	backendtest.Run(t, f)
	t.Cleanup(func() {
		n := resets()
		t.Logf("%d resets, %+v", n, h.Link().Counts())
		if n < 5 {
			t.Errorf("the link was reset %d times only", n)
		}
	})
}

// linkSeedOf returns the seed of the moments of resets, and says how to have it again.
func linkSeedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *linkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the moments are those of -linkseed %d", seed)
	return seed
}

// resetAtRandom resets a link until the returned function is called, which says
// how often.
func resetAtRandom(t *testing.T, l *link.Link) (end func() int) {
	t.Helper()
	draw := rand.New(rand.NewPCG(linkSeedOf(t), 2))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	count := make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-time.After(resetFrom + time.Duration(draw.Int64N(int64(resetTo-resetFrom)))):
				l.Reset()
			case <-ctx.Done():
				count <- n
				return
			}
		}
	}()
	return func() int {
		cancel()
		return <-count
	}
}

// persistent repeats calls that failed, as the engine does: those into which a
// fault was put, and while the link is reset all that are Unavailable. What has a
// stream is left as it is. With stops that are lost the engine's way is to ask again
// with what is left of the grace until facts show the end: so it is done when facts
// are read while the link is reset.
func persistent(b backend.Backend, linkIsReset bool) backend.Backend {
	asked := &stopsAsked{again: linkIsReset, by: map[string]stopAsked{}}
	r := repeats{anyUnavailable: linkIsReset}
	b.Pods = persistentPods{b.Pods, asked, r, &sync.Map{}}
	b.Containers = persistentContainers{b.Containers, asked, r}
	b.Resize = persistentResizer{b.Resize, r}
	b.Files = persistentFiles{b.Files, r}
	b.Images = persistentImages{b.Images, r}
	b.Store = persistentStore{b.Store, r}
	b.Node = persistentNode{b.Node, r}
	b.Stats = persistentStats{b.Stats, r}
	b.Signals = persistentSignals{b.Signals, r}
	return b
}

// repeats says which calls are made again.
type repeats struct{ anyUnavailable bool }

// again is true when a call is to be made again: a fault was put into it, which a
// few calls in a row are enough for, or the link is reset. A call that fails by itself
// is not: who repeated it would hide that.
func (r repeats) again(err error, times int, deadline time.Time) bool {
	if r.anyUnavailable {
		return errors.Is(err, backend.ErrUnavailable) && time.Now().Before(deadline)
	}
	return errors.Is(err, fault.ErrInjected) && times < mostInARow
}

// again makes a call until it does not fail, or fails by itself.
func again[T any](ctx context.Context, r repeats, call func() (T, error)) (T, error) {
	deadline := time.Now().Add(patience)
	for times := 1; ; times++ {
		value, err := call()
		if !r.again(err, times, deadline) {
			return value, err
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return value, err
		}
	}
}

func againErr(ctx context.Context, r repeats, call func() error) error {
	_, err := again(ctx, r, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// untilGone is again for stops and removals: what is not there after a call that may
// have been made is what that call ended.
func untilGone(ctx context.Context, r repeats, call func() error) error {
	failed := false
	return againErr(ctx, r, func() error {
		err := call()
		if failed && errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		failed = failed || (errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, errInjected))
		return err
	})
}

// stopsAsked remembers what was asked to stop.
type stopsAsked struct {
	again bool
	mu    sync.Mutex
	by    map[string]stopAsked
}

// stopAsked is a stop, and when it kills.
type stopAsked struct {
	kill time.Time
	stop func(ctx context.Context, grace time.Duration) error
}

func (s *stopsAsked) note(key string, grace time.Duration, stop func(context.Context, time.Duration) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kill := time.Now().Add(grace)
	if before, ok := s.by[key]; !ok || kill.Before(before.kill) {
		s.by[key] = stopAsked{kill, stop}
	}
}

// askAgain asks once more for all that was asked for. What comes of it the facts
// show.
func (s *stopsAsked) askAgain(ctx context.Context) {
	if !s.again {
		return
	}
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.by))
	s.mu.Unlock()
	for _, a := range all {
		_ = a.stop(ctx, max(0, time.Until(a.kill)))
	}
}

type persistentPods struct {
	backend.Pods
	asked *stopsAsked
	repeats
	removed *sync.Map // by the attempt's Ref: who asks once more is told NotFound, whatever fails
}

func (p persistentPods) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	return againErr(ctx, p.repeats, func() error { return p.Pods.Launch(ctx, wanted, spec) })
}

func (p persistentPods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	stop := func(ctx context.Context, grace time.Duration) error { return p.Pods.Stop(ctx, ref, grace) }
	p.asked.note(ref.ID, grace, stop)
	return untilGone(ctx, p.repeats, func() error { return stop(ctx, grace) })
}

func (p persistentPods) Remove(ctx context.Context, ref backend.Ref) error {
	remove := func() error { return p.Pods.Remove(ctx, ref) }
	if _, again := p.removed.Load(ref); again {
		return againErr(ctx, p.repeats, remove)
	}
	err := untilGone(ctx, p.repeats, remove)
	if err == nil || errors.Is(err, backend.ErrNotFound) {
		p.removed.Store(ref, true)
	}
	return err
}

func (p persistentPods) List(ctx context.Context) ([]backend.PodFacts, error) {
	p.asked.askAgain(ctx)
	return again(ctx, p.repeats, func() ([]backend.PodFacts, error) { return p.Pods.List(ctx) })
}

func (p persistentPods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	p.asked.askAgain(ctx)
	return again(ctx, p.repeats, func() ([]backend.PodFacts, error) { return p.Pods.Inspect(ctx, uids) })
}

type persistentContainers struct {
	backend.Containers
	asked *stopsAsked
	repeats
}

func (p persistentContainers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	return againErr(ctx, p.repeats, func() error { return p.Containers.Start(ctx, ref, spec) })
}

func (p persistentContainers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	stop := func(ctx context.Context, grace time.Duration) error { return p.Containers.Stop(ctx, ref, grace) }
	p.asked.note(ref.ID, grace, stop)
	return untilGone(ctx, p.repeats, func() error { return stop(ctx, grace) })
}

func (p persistentContainers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	return untilGone(ctx, p.repeats, func() error { return p.Containers.Remove(ctx, ref) })
}

type persistentResizer struct {
	backend.Resizer
	repeats
}

func (p persistentResizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	return againErr(ctx, p.repeats, func() error { return p.Resizer.Resize(ctx, ref, spec) })
}

type persistentFiles struct {
	backend.Files
	repeats
}

func (p persistentFiles) Place(ctx context.Context, spec backend.VolumeSpec) error {
	return againErr(ctx, p.repeats, func() error { return p.Files.Place(ctx, spec) })
}

func (p persistentFiles) Clear(ctx context.Context, ref backend.Ref) error {
	return untilGone(ctx, p.repeats, func() error { return p.Files.Clear(ctx, ref) })
}

func (p persistentFiles) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	return again(ctx, p.repeats, func() ([]backend.VolumeFacts, error) { return p.Files.Volumes(ctx) })
}

type persistentImages struct {
	backend.Images
	repeats
}

func (p persistentImages) Find(ctx context.Context, image string) (string, error) {
	return again(ctx, p.repeats, func() (string, error) { return p.Images.Find(ctx, image) })
}

func (p persistentImages) Pull(
	ctx context.Context, image string, creds []backend.Credential,
) (backend.PulledImage, error) {
	return again(ctx, p.repeats, func() (backend.PulledImage, error) { return p.Images.Pull(ctx, image, creds) })
}

type persistentStore struct {
	backend.ImageStore
	repeats
}

func (p persistentStore) List(ctx context.Context) ([]backend.ImageFacts, error) {
	return again(ctx, p.repeats, func() ([]backend.ImageFacts, error) { return p.ImageStore.List(ctx) })
}

func (p persistentStore) Remove(ctx context.Context, id string) error {
	return untilGone(ctx, p.repeats, func() error { return p.ImageStore.Remove(ctx, id) })
}

func (p persistentStore) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	return again(ctx, p.repeats, func() (backend.FilesystemUsage, error) { return p.ImageStore.Disk(ctx) })
}

type persistentNode struct {
	backend.Node
	repeats
}

func (p persistentNode) Describe(ctx context.Context) (backend.NodeFacts, error) {
	return again(ctx, p.repeats, func() (backend.NodeFacts, error) { return p.Node.Describe(ctx) })
}

type persistentStats struct {
	inner backend.Stats
	repeats
}

func (p persistentStats) Stats(ctx context.Context) (backend.StatsFacts, error) {
	return again(ctx, p.repeats, func() (backend.StatsFacts, error) { return p.inner.Stats(ctx) })
}

type persistentSignals struct {
	inner backend.Signals
	repeats
}

func (p persistentSignals) Signals(ctx context.Context) (backend.SignalFacts, error) {
	return again(ctx, p.repeats, func() (backend.SignalFacts, error) { return p.inner.Signals(ctx) })
}
