package syncloop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// unlisted is a remote that does not answer a listing before it is told to.
type unlisted struct {
	backend.Pods
	answer chan struct{}
}

func (u unlisted) List(ctx context.Context) ([]backend.PodFacts, error) {
	select {
	case <-u.answer:
		return u.Pods.List(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestAwaitPodAfterATakeover: whoever asks a process for what ran under the one before it,
// before the remote was listed, hears of it and not that it has not started.
func TestAwaitPodAfterATakeover(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sh", "-c", "echo here; sleep infinity")
		time.Sleep(10 * time.Second)
		a.stop()
		b, answer := a.remote.Backend(), make(chan struct{})
		b.Pods = unlisted{b.Pods, answer}
		a.start(b)
		synctest.Wait() // it knows the API's pods now

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.engine.AwaitPod(ctx, nsP); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("before the remote was listed: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- a.engine.AwaitPod(t.Context(), nsP) }()
		synctest.Wait()
		close(answer)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		// At once: the pod's worker may not have had a turn yet.
		if got, err := a.log("a", false, false); err != nil || !strings.HasSuffix(got, "here\n") {
			t.Errorf("its log is %q, %v", got, err)
		}
		if got, code, err := a.exec(nsP, "a", "echo", "too"); err != nil || code != 0 || got != "too\n" {
			t.Errorf("exec prints %q and ends with %d, %v", got, code, err)
		}
	})
}

// TestAwaitPodThatIsNotKnown: the API's pods come after the remote's.
func TestAwaitPodThatIsNotKnown(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(10 * time.Second)
		a.stop()
		a.synced.Store(false)
		a.start(a.remote.Backend())
		time.Sleep(time.Second)

		// Nor may static pods wait for ever: what is not known then is not there.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.engine.AwaitPod(ctx, nsP); err != nil {
			t.Errorf("while the API is away: %v", err)
		}
		if _, _, err := a.exec(nsP, "a", "true"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("while the API is away: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- a.engine.AwaitPod(t.Context(), nsP) }()
		synctest.Wait()
		a.synced.Store(true)
		a.source.EnqueueAll()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if _, _, err := a.exec(nsP, "a", "true"); err != nil {
			t.Error(err)
		}
		unknown := backend.Ref{Namespace: "ns", Name: "q"}
		if err := a.engine.AwaitPod(t.Context(), unknown); err != nil {
			t.Errorf("a pod that is not there: %v", err)
		}
	})
}
