package sim_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// at is what is seen at which second.
type at map[int]string

// podUnitCase is the life of one whole pod.
type podUnitCase struct {
	containers []backend.ContainerSpec
	latency    sim.Latency
	stopAt     int // second; 0 never
	grace      time.Duration
	want       at
}

func podUnitCases() map[string]podUnitCase {
	sidecar := initContainer("side", "serve")
	sidecar.Container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	stubborn := initContainer("deaf", "sh", "-c", "trap '' TERM; sleep 99")
	stubborn.Container.RestartPolicy = sidecar.Container.RestartPolicy
	missing := container("m", "true")
	missing.Container.Image = "registry.test:5000/a/is-missing:v1"
	return map[string]podUnitCase{
		"all ends": {
			containers: []backend.ContainerSpec{container("a", "sleep", "2"), container("b", "sh", "-c", "sleep 4; exit 3")},
			want: at{
				0: "live=true - | a 0..- 0 | b 0..- 0",
				3: "live=true - | a 0..2 0 | b 0..- 0",
				4: "live=false 4 | a 0..2 0 | b 0..4 3",
			},
		},
		"init in order, with latencies": {
			containers: []backend.ContainerSpec{
				initContainer("i", "sleep", "1"), initContainer("j", "true"), container("a", "sleep", "1"),
			},
			latency: sim.Latency{Launch: 2 * time.Second, Pull: 3 * time.Second, Start: time.Second, Stop: 2 * time.Second},
			want: at{
				5:  "live=true - | i -..- 0 | j -..- 0 | a -..- 0",
				6:  "live=true - | i 6..- 0 | j -..- 0 | a -..- 0",
				8:  "live=true - | i 6..7 0 | j 8..8 0 | a -..- 0",
				10: "live=true - | i 6..7 0 | j 8..8 0 | a 9..10 0",
				12: "live=false 12 | i 6..7 0 | j 8..8 0 | a 9..10 0",
			},
		},
		"init fails": {
			containers: []backend.ContainerSpec{
				initContainer("i", "sh", "-c", "sleep 1; exit 9"), initContainer("j", "true"), container("a", "true"),
			},
			want: at{1: "live=false 1 | i 0..1 9 | j -..- 0 | a -..- 0"},
		},
		"sidecar lasts as long as the rest": {
			containers: []backend.ContainerSpec{sidecar, initContainer("i", "sleep", "1"), container("a", "sleep", "1")},
			want: at{
				1: "live=true - | side 0..- 0 | i 0..1 0 | a 1..- 0",
				2: "live=false 2 | side 0..2 143 | i 0..1 0 | a 1..2 0",
			},
		},
		"sidecars end after the rest, the last one first": {
			containers: []backend.ContainerSpec{sidecar, stubborn, container("a", "sleep", "2")},
			want: at{
				2: "live=true - | side 0..- 0 | deaf 0..- 0 | a 0..2 0",
				6: "live=false 6 | side 0..6 137 | deaf 0..6 137 | a 0..2 0",
			},
		},
		"sidecars end in the reverse order of their starts": {
			containers: []backend.ContainerSpec{stubborn, sidecar, container("a", "sleep", "2")},
			want: at{
				2: "live=true - | deaf 0..- 0 | side 0..2 143 | a 0..2 0",
				6: "live=false 6 | deaf 0..6 137 | side 0..2 143 | a 0..2 0",
			},
		},
		"a stop ends the sidecars after the rest": {
			containers: []backend.ContainerSpec{sidecar, container("a", "sh", "-c", "trap '' TERM; sleep 99")},
			stopAt:     2, grace: 3 * time.Second,
			want: at{
				4: "live=true - | side 0..- 0 | a 0..- 0",
				5: "live=false 5 | side 0..5 137 | a 0..5 137",
			},
		},
		"a stop shortens the end of a sidecar": {
			containers: []backend.ContainerSpec{stubborn, container("a", "sleep", "1")},
			stopAt:     2, grace: time.Second,
			want: at{
				2: "live=true - | deaf 0..- 0 | a 0..1 0",
				3: "live=false 3 | deaf 0..3 137 | a 0..1 0",
			},
		},
		"image missing": {
			containers: []backend.ContainerSpec{container("a", "sleep", "9"), missing},
			latency:    sim.Latency{Launch: time.Second, Pull: time.Second},
			want: at{
				1: "live=true - | a -..- 0 | m -..- 0",
				2: "live=false 2 | a -..- 0 | m -..2 0",
			},
		},
		"stopped while pulling": {
			containers: []backend.ContainerSpec{container("a", "sleep", "9"), missing},
			latency:    sim.Latency{Pull: 5 * time.Second, Stop: time.Second},
			stopAt:     2, grace: time.Minute,
			want: at{
				2: "live=true - | a -..- 0 | m -..- 0",
				3: "live=false 3 | a -..- 0 | m -..- 0",
				9: "live=false 3 | a -..- 0 | m -..- 0",
			},
		},
		"stopped during init": {
			containers: []backend.ContainerSpec{initContainer("i", "sleep", "9"), container("a", "true")},
			stopAt:     2, grace: time.Minute,
			want: at{2: "live=false 2 | i 0..2 143 | a -..- 0"},
		},
		"stopped between init and app": {
			containers: []backend.ContainerSpec{sidecar, initContainer("i", "sleep", "1"), container("a", "true")},
			latency:    sim.Latency{Start: 2 * time.Second},
			stopAt:     6, grace: time.Minute,
			want: at{6: "live=false 6 | side 2..6 143 | i 4..5 0 | a -..- 0"},
		},
		"stopped, one ignores TERM, one has ended": {
			containers: []backend.ContainerSpec{
				container("a", "true"), container("b", "sh", "-c", "trap '' TERM; sleep 99"), container("c", "serve"),
			},
			stopAt: 2, grace: 3 * time.Second,
			want: at{
				2: "live=true - | a 0..0 0 | b 0..- 0 | c 0..2 143",
				5: "live=false 5 | a 0..0 0 | b 0..5 137 | c 0..2 143",
			},
		},
		"it ends by itself before the grace is over": {
			containers: []backend.ContainerSpec{container("b", "sh", "-c", "trap '' TERM; sleep 4; exit 5")},
			stopAt:     2, grace: time.Minute,
			want: at{4: "live=false 4 | b 0..4 5"},
		},
	}
}

// TestPodUnit follows whole pods through virtual time.
func TestPodUnit(t *testing.T) {
	for name, tt := range podUnitCases() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				b := sim.New(sim.Config{PodUnit: true, Latency: tt.latency}).Backend()
				launch := spec("u", 0, tt.containers...)
				launch.Pod.Spec.TerminationGracePeriodSeconds = new(int64(4))
				must(t, b.Pods.Launch(ctx, ctx, launch))
				for second := range 15 {
					if second == tt.stopAt && second > 0 {
						must(t, b.Pods.Stop(ctx, backend.Ref{UID: "u"}, tt.grace))
					}
					facts, err := b.Pods.List(ctx)
					must(t, err)
					if want, ok := tt.want[second]; ok && state(facts[0]) != want {
						t.Errorf("after %d s:\n got %s\nwant %s", second, state(facts[0]), want)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// TestHealth: the remote's own verdicts come with time, and are hinted at.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		for _, health := range []bool{true, false} {
			b := sim.New(sim.Config{PodUnit: true, Health: health}).Backend()
			probed, plain := container("probed", "serve", "80", "ready-after=2s", "fail-after=4s"), container("plain", "serve")
			probed.Container.ReadinessProbe = &corev1.Probe{}
			must(t, b.Pods.Launch(ctx, ctx, spec("u", 0, probed, plain)))
			stream, cancel := context.WithCancel(ctx)
			hints, ended := make(chan types.UID, 10), make(chan error)
			go func() { ended <- b.Events.Run(stream, hints) }()
			var got []string
			for range 6 {
				facts, err := b.Pods.List(ctx)
				must(t, err)
				c := facts[0].Containers
				got = append(got, verdict(c[0].Healthy)+verdict(c[1].Healthy))
				time.Sleep(time.Second)
			}
			want, hinted := "?? ?? y? y? n? n?", 2
			if !health {
				want, hinted = "?? ?? ?? ?? ?? ??", 0
			}
			if s := strings.Join(got, " "); s != want || len(hints) != hinted || b.Limits.Supervised != health {
				t.Errorf("health %v: %s and %d hints, want %s and %d", health, s, len(hints), want, hinted)
			}
			cancel()
			wantClass(t, <-ended, "Unavailable")
		}
	})
}

func verdict(healthy *bool) string {
	switch {
	case healthy == nil:
		return "?"
	case *healthy:
		return "y"
	default:
		return "n"
	}
}
