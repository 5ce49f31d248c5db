package statusmgr

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestFlushWritesWhatRunLeft(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.delay = time.Second
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.stop() // cuts the write off
		h.SetStatus(h.api.put(testPod("q", "u2")), running())
		ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
		defer cancel()
		if err := h.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"p", "q"} {
			if s := h.api.pod(name).Status; s.Phase != corev1.PodRunning {
				t.Errorf("%s is %s", name, s.Phase)
			}
		}
	})
}

func TestFlushBesideRun(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.delay = time.Second
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.settle()
		if err := h.Flush(h.t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := h.api.pod("p").Status; s.Phase != corev1.PodRunning {
			t.Errorf("phase %s when Flush returned", s.Phase)
		}
	})
}

func TestFlushDoesNotWaitOutABackoff(t *testing.T) {
	bubble(t, func(h *harness) {
		var down atomic.Bool
		down.Store(true)
		h.api.before = func(call) error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(time.Minute)
		h.stop()
		down.Store(false)
		start := time.Now()
		if err := h.Flush(h.t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("flushed after %s: %v", time.Since(start), err)
		}
	})
}

func TestFlushNamesWhatItCouldNotWrite(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.before = func(call) error { return errors.New("down") }
		for _, name := range []string{"p", "q", "r"} {
			h.SetStatus(h.api.put(testPod(name, types.UID(name))), running())
		}
		h.stop()
		ctx, cancel := context.WithTimeout(h.t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := h.Flush(ctx)
		if err == nil || !strings.Contains(err.Error(), "3 pods") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush: %v, want 3 pods and the deadline", err)
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("Flush took %s, want its 10 s", d)
		}
	})
}

func TestFlushDoesNotWaitForWhatTheAPIRefuses(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.before = func(c call) error {
			if c.verb == "patch" {
				return apierrors.NewBadRequest("no")
			}
			return nil
		}
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.settle()
		start := time.Now()
		if err := h.Flush(h.t.Context()); err == nil || !strings.Contains(err.Error(), "1 pods") || time.Since(start) != 0 {
			t.Errorf("Flush after %s: %v", time.Since(start), err)
		}
	})
}

func TestFlushLeavesWhatIsHeldBack(t *testing.T) {
	bubble(t, func(h *harness) {
		h.containersMayRun("u1", true)
		h.SetStatus(h.api.put(testPod("p", "u1")), ended(corev1.PodFailed))
		if err := h.Flush(h.t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := h.api.pod("p").Status; s.Phase != corev1.PodPending {
			t.Errorf("phase %s", s.Phase)
		}
	})
}

func TestFlushWithNothingToDo(t *testing.T) {
	bubble(t, func(h *harness) {
		if err := h.Flush(h.t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestIncompleteConfigIsAnError(t *testing.T) {
	m := New(Config{})
	for name, f := range map[string]func(context.Context) error{"Run": m.Run, "Flush": m.Flush} {
		err := f(t.Context())
		if err == nil || !strings.Contains(err.Error(), "client") || !strings.Contains(err.Error(), "safety") {
			t.Errorf("%s: %v, want both missing parts named", name, err)
		}
	}
}
