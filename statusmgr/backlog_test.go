package statusmgr

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

func (h *harness) wantPending(count, seconds string) {
	h.t.Helper()
	err := testutil.GatherAndCompare(h.reg, strings.NewReader(`
# HELP burstlet_status_oldest_pending_seconds How long the status that waits longest is not in the API yet; 0 without any.
# TYPE burstlet_status_oldest_pending_seconds gauge
burstlet_status_oldest_pending_seconds `+seconds+`
# HELP burstlet_status_pending Number of pods whose status is not in the API yet.
# TYPE burstlet_status_pending gauge
burstlet_status_pending `+count+"\n"), "burstlet_status_pending", "burstlet_status_oldest_pending_seconds")
	if err != nil {
		h.t.Error(err)
	}
}

func TestStatusesThatWaitAreCountedUntilTheAPIHasThem(t *testing.T) {
	bubble(t, func(h *harness) {
		var down atomic.Bool
		down.Store(true)
		h.api.before = func(call) error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}
		h.wantPending("0", "0")
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(20 * time.Second)
		h.SetStatus(h.api.put(testPod("q", "u2")), running())
		h.pass(10 * time.Second)
		h.wantPending("2", "30")
		down.Store(false)
		h.pass(time.Minute)
		h.wantPending("0", "0")
	})
}

func TestAPhaseThatIsHeldBackDoesNotWaitForTheAPI(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.pass(time.Minute)
		h.containersMayRun("u1", true)
		h.SetStatus(h.api.pod("p"), ended(corev1.PodSucceeded))
		h.pass(time.Minute)
		h.wantPending("0", "0")
	})
}
