package syncloop_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// refusing is a remote that makes no pod, for the pod's own sake.
type refusing struct {
	backend.Pods
	class error
}

func (r refusing) Launch(context.Context, context.Context, backend.LaunchSpec) error {
	return backend.Errorf(r.class, "FQDN is too long")
}

// refuse runs f against a remote that refuses every launch.
func refuse(t *testing.T, podUnit bool, class error, f func(t *testing.T, a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{PodUnit: podUnit})
		b := a.remote.Backend()
		b.Pods = refusing{b.Pods, class}
		a.start(b)
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(t, a)
	})
}

// replace plays a ReplicaSet of one pod for so long: it makes the next as soon as one has
// failed, and returns how many did.
func (a *api) replace(d time.Duration) (failed int) {
	create := func(n int) {
		a.create(fmt.Sprintf("p%d", n), types.UID(fmt.Sprint("u", n)), "Always", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
		}, "true")
	}
	create(0)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if a.get(fmt.Sprintf("p%d", failed)).Status.Phase == corev1.PodFailed {
			failed++
			create(failed)
		}
	}
	return failed
}

// What the remote refuses when it is launched is refused again when its controller makes
// it anew: the failures are spaced as those of admission are.
func TestRefusalsAtLaunchAreSpaced(t *testing.T) {
	for _, tt := range []struct {
		class  error
		reason string
	}{{backend.ErrInvalid, "InvalidPod"}, {backend.ErrUnsupported, "UnsupportedByBackend"}} {
		refuse(t, true, tt.class, func(t *testing.T, a *api) {
			if n := a.replace(5 * time.Minute); n < 2 || n > 6 { // at 0, 10, 30, 70, 150, 310 s
				t.Errorf("%s: %d pods failed in 5 min, want 5", tt.reason, n)
			}
			if e := a.event("p1", tt.reason); e == "" {
				t.Errorf("no Event %s before the second pod fails", tt.reason)
			}
			if s := a.get("p0").Status; s.Reason != tt.reason {
				t.Errorf("the first pod failed for %q, want %s", s.Reason, tt.reason)
			}
		})
	}
}

// A sandbox that cannot be made is tried again, whatever the runtime says of it, as a
// kubelet does: the pod stays Pending.
func TestSandboxThatCannotBeMade(t *testing.T) {
	refuse(t, false, backend.ErrInvalid, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", nil, "true")
		time.Sleep(time.Minute)
		a.phase("p", corev1.PodPending)
		if e := a.event(
			"p", "FailedCreatePodSandBox",
		); e != "p FailedCreatePodSandBox Failed to create pod sandbox: FQDN is too long" {
			t.Errorf("Event %q", e)
		}
		a.delete("p", 1)
		time.Sleep(10 * time.Second)
		if a.get("p") != nil {
			t.Error("the pod is still there after it was deleted")
		}
	})
}
