package payload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// withTokens is a pod with tokens that live for so many seconds; 0 is the default.
func withTokens(lives ...int64) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, life := range lives {
		p := &corev1.ServiceAccountTokenProjection{}
		if life > 0 {
			p.ExpirationSeconds = &life
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: p}}},
		}})
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{})
	return pod
}

func TestHowManySecretsAreWrittenInTurn(t *testing.T) {
	for _, tc := range []struct {
		lives []int64
		every time.Duration
		slots int
	}{
		{nil, 0, 1},
		{[]int64{0}, 48 * time.Minute, 1},
		{[]int64{600}, 8 * time.Minute, 3},
		{[]int64{750}, 10 * time.Minute, 2},
		{[]int64{1200}, 16 * time.Minute, 2},
		{[]int64{1500}, 20 * time.Minute, 1},
		{[]int64{3607, 600, 86400}, 8 * time.Minute, 3},
		{[]int64{60}, 48 * time.Second, podfiles.MaxSlots}, // the API server refuses it
	} {
		pod := withTokens(tc.lives...)
		if every, slots := taskdef.RenewEvery(pod), taskdef.Slots(pod); every != tc.every || slots != tc.slots {
			t.Errorf("%v: every %s, %d secrets; want %s, %d", tc.lives, every, slots, tc.every, tc.slots)
		}
	}
}

func TestWhenASecretMayBeWritten(t *testing.T) {
	now := time.Unix(10_000_000, 0)
	times := func(n int, apart time.Duration) (out []int64) {
		for i := range n {
			out = append(out, now.Add(-apart*time.Duration(n-1-i)-time.Minute).Unix())
		}
		return out
	}
	for name, tc := range map[string]struct {
		wrote, changed []int64
		slots          int
		every          time.Duration
		renewal        bool
		wait           time.Duration
	}{
		"the first write":       {nil, nil, 1, 0, false, 0},
		"a few changes at once": {times(5, time.Second), times(5, time.Second), 1, 0, false, 0},
		"more wait":             {times(6, time.Second), times(6, time.Second), 1, 0, false, 15 * time.Minute},
		"longer, where tokens are renewed": {
			times(6, time.Second), times(6, time.Second), 3, 8 * time.Minute, false,
			50 * time.Minute,
		},
		"longest, where that takes most": {
			times(6, time.Second), times(6, time.Second), 1, 20 * time.Minute, false,
			89 * time.Minute,
		},
		"changes of yesterday do not count": {times(50, 24*time.Hour), times(50, 24*time.Hour), 1, 0, false, 0},
		"a token does not wait for changes": {times(30, time.Minute), times(30, time.Minute), 1, time.Hour, true, 0},
		"nor for those before it":           {times(60, 24*time.Minute), nil, 3, 8 * time.Minute, true, 0},
		"all of a day's changes are made": {
			times(31, 10*time.Minute), times(28, 10*time.Minute), 3, 8 * time.Minute,
			false, 24*time.Hour - 271*time.Minute,
		},
		"the quota is used up: a token waits": {
			times(90, 10*time.Minute), nil, 1, 8 * time.Minute, true, 24*time.Hour - 891*time.Minute,
		},
		"so does a change": {times(90, 10*time.Minute), nil, 1, 0, false, 24*time.Hour - 891*time.Minute},
	} {
		got := writable(podfiles.Payload{Wrote: tc.wrote, Changed: tc.changed}, tc.slots, tc.every, tc.renewal, now)
		if wait := got.Sub(now); wait.Round(time.Minute) != tc.wait.Round(time.Minute) {
			t.Errorf("%s: it waits %s, want %s", name, wait, tc.wait)
		}
	}
	wrote, changed := written(podfiles.Payload{Wrote: times(3, 20*time.Hour), Changed: times(1, 0)}, true, now)
	if len(wrote) != 3 || len(changed) != 1 {
		t.Errorf("written: %v, %v", wrote, changed)
	}
	if _, changed := written(podfiles.Payload{}, false, now); len(changed) != 1 {
		t.Errorf("a change: %v", changed)
	}
}

// Whatever the life of a pod's tokens, and however often its ConfigMaps change meanwhile,
// no secret gets more versions in a day than Secrets Manager takes, and no token waits.
func TestRenewalsStayWithinTheQuota(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	for life := int64(600); life <= 7200; life += 60 {
		for _, change := range []time.Duration{0, time.Minute, 11 * time.Minute, time.Hour} {
			pod := withTokens(life)
			every, slots := taskdef.RenewEvery(pod), make([]podfiles.Payload, taskdef.Slots(pod))
			begun := time.Unix(10_000_000, 0)
			newest, renewed, changed := 0, begun, begun
			for now := begun; now.Sub(begun) < 72*time.Hour; now = now.Add(time.Minute) {
				renewal := now.Sub(renewed) >= every
				if !renewal && (change == 0 || now.Sub(changed) < change) {
					continue
				}
				next := (newest + 1) % len(slots)
				if at := writable(slots[next], len(slots), every, renewal, now); at.After(now) {
					if renewal {
						t.Fatalf("tokens of %d s, changes every %s: after %s one waits until %s", life, change, now.Sub(begun),
							at.Sub(begun))
					}
					continue
				}
				changed = now
				if renewal {
					renewed = now
				}
				slots[next].Wrote, slots[next].Changed = written(slots[next], renewal, now)
				if newest = next; len(slots[next].Wrote) > maxVersions {
					t.Fatalf("tokens of %d s, changes every %s: %d versions", life, change, len(slots[next].Wrote))
				}
			}
		}
	}
}
