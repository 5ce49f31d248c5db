package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/test/bufconn"

	"github.com/burstlet/burstlet/backend"
)

func TestFirstDelay(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const s = time.Second
	at := spread("u1", Key{Container: "web", ID: "c1", Kind: Readiness}, 10*s)
	for name, tt := range map[string]struct {
		initial int32
		age     time.Duration
		// up is how long this process has been running.
		up    time.Duration
		known bool
		want  time.Duration
	}{
		"just started: at once":                    {0, 0, time.Hour, false, 0},
		"initial delay":                            {5, 0, time.Hour, false, 5 * s},
		"what is left of the initial delay":        {5, 2 * s, time.Hour, false, 3 * s},
		"clock of the remote is ahead":             {5, -time.Minute, time.Hour, false, 5 * s},
		"seen late, but of this process: at once":  {0, time.Minute, time.Hour, false, 0},
		"left running, younger than a period":      {0, 9 * s, s, false, 0},
		"left running by an earlier process":       {0, time.Minute, s, false, at},
		"the same within its initial delay":        {90, time.Minute, s, false, 30*s + at},
		"left running, but its startup was probed": {0, time.Minute, s, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			target := execTarget(Readiness, func(p *corev1.Probe) { p.InitialDelaySeconds = tt.initial })
			target.StartedAt = now.Add(-tt.age)
			if got := firstDelay("u1", target, now, now.Add(-tt.up), tt.known); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestARestartSpreadsProbesOverThePeriod(t *testing.T) {
	var perSecond [10]int
	for i := range 1000 {
		d := spread(types.UID(fmt.Sprintf("uid-%d", i)), Key{Container: "web", ID: "c", Kind: Liveness}, 10*time.Second)
		perSecond[d/time.Second]++
	}
	if slices.Max(perSecond[:]) > 150 {
		t.Errorf("probes a second: %v", perSecond)
	}
}

func TestThresholds(t *testing.T) {
	for name, tt := range map[string]struct {
		kind             Kind
		success, failure int32
		script           []answer
		// changes are the probes, from 0, that changed the outcome.
		changes []int
		want    Outcome
		probes  int
	}{
		"one success is enough":         {Readiness, 1, 3, []answer{good}, []int{0}, Success, 6},
		"failures below the threshold":  {Readiness, 1, 3, []answer{good, bad, bad, good}, []int{0}, Success, 6},
		"failures at the threshold":     {Readiness, 1, 3, []answer{good, bad}, []int{0, 3}, Failure, 6},
		"a failure before any success":  {Readiness, 1, 3, []answer{bad}, []int{2}, Failure, 6},
		"successes below the threshold": {Readiness, 2, 1, []answer{bad, good, bad}, []int{0}, Failure, 6},
		"successes at the threshold":    {Readiness, 2, 1, []answer{bad, good, good}, []int{0, 2}, Success, 6},
		"readiness comes and goes": {
			Readiness, 1, 1, []answer{good, bad, good, bad}, []int{0, 1, 2, 3}, Failure, 6,
		},
		"defaults are 1 and 3": {
			Readiness, 0, 0, []answer{good, bad, bad, bad, good}, []int{0, 3, 4}, Success, 6,
		},
		"startup ends with success":      {Startup, 1, 3, []answer{bad, bad, good}, []int{2}, Success, 3},
		"startup ends with failure":      {Startup, 1, 3, []answer{bad}, []int{2}, Failure, 3},
		"liveness goes on after success": {Liveness, 1, 3, []answer{good}, []int{0}, Success, 6},
		"liveness ends with failure":     {Liveness, 1, 2, []answer{good, bad}, []int{0, 2}, Failure, 3},
		"an error counts neither way": {
			Liveness, 1, 2, []answer{bad, broken, broken, broken, bad}, []int{2}, Failure, 5,
		},
		"an error that goes away counts none": {Readiness, 1, 1, []answer{broken, broken, good}, []int{0}, Success, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{}, tt.script...)
				target := execTarget(tt.kind, func(p *corev1.Probe) {
					p.SuccessThreshold, p.FailureThreshold = tt.success, tt.failure
				})
				r.set(thePod(), []Target{target})
				after(55 * time.Second)
				var want []time.Duration
				for _, i := range tt.changes {
					want = append(want, time.Duration(i)*10*time.Second)
				}
				if changes, _ := r.told(); !slices.Equal(changes, want) {
					t.Errorf("changed at %v, want %v", changes, want)
				}
				if got := r.outcome(target.Key); got != tt.want {
					t.Errorf("outcome %v, want %v", got, tt.want)
				}
				if got := r.remote.times(); len(got) != tt.probes {
					t.Errorf("probed at %v, want %d", got, tt.probes)
				}
			})
		})
	}
}

var broken = answer{err: errors.New("exec failed")}

// TestReadinessIsProbedAtOnceAfterStartup: behaviour 8.
func TestReadinessIsProbedAtOnceAfterStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, bad, good)
		startup, ready := execTarget(Startup, nil), execTarget(Readiness, nil)
		// The container was started long before this process.
		startup.StartedAt = time.Now().Add(-time.Hour)
		ready.StartedAt = startup.StartedAt
		r.set(thePod(), []Target{startup})
		for r.outcome(startup.Key) != Success {
			after(time.Millisecond)
		}
		r.set(thePod(), []Target{startup, ready})
		synctest.Wait()
		if r.outcome(ready.Key) != Success {
			t.Errorf("got %v", r.Results("u1"))
		}
		times := r.remote.times()
		if len(times) != 3 || times[2]-times[1] > time.Millisecond {
			t.Errorf("probed at %v", times)
		}
	})
}

func TestASlowProbeIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, answer{takes: 15 * time.Second}, answer{takes: 2 * time.Second}, good)
		r.set(thePod(), []Target{execTarget(Readiness, func(p *corev1.Probe) { p.TimeoutSeconds = 20 })})
		after(36 * time.Second)
		want := []time.Duration{0, 15 * time.Second, 25 * time.Second, 35 * time.Second}
		if got := r.remote.times(); !slices.Equal(got, want) {
			t.Errorf("probed at %v, want %v", got, want)
		}
	})
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, answer{takes: time.Hour})
		target := execTarget(Readiness, func(p *corev1.Probe) { p.PeriodSeconds, p.TimeoutSeconds = 0, 0 })
		r.set(thePod(), []Target{target})
		after(10 * time.Second)
		if got := r.remote.times(); !slices.Equal(got, []time.Duration{0, 10 * time.Second}) {
			t.Errorf("probed at %v", got)
		}
		_, events := r.told()
		if want := []string{
			`Warning Unhealthy Readiness probe failed: command timed out: "true" timed out after 1s`,
		}; !slices.Equal(events, want) {
			t.Errorf("events %q", events)
		}
	})
}

func TestEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		answer answer
		tries  int
		want   []string
	}{
		"success": {good, 1, nil},
		"failure": {bad, 1, []string{"Warning Unhealthy Liveness probe failed: not yet"}},
		"behaviour 8: an error is tried three times": {
			broken, 3, []string{"Warning Unhealthy Liveness probe errored and resulted in unknown state: exec failed"},
		},
		"an unreachable remote is no news of the pod": {answer{err: backend.ErrUnavailable}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{}, tt.answer)
				r.set(thePod(), []Target{execTarget(Liveness, nil)})
				after(0)
				if _, events := r.told(); !slices.Equal(events, tt.want) {
					t.Errorf("got %q, want %q", events, tt.want)
				}
				if got := r.remote.times(); len(got) != tt.tries {
					t.Errorf("%d tries, want %d", len(got), tt.tries)
				}
			})
		})
	}
}

// TestSilenceOfTheRemoteIsNoFailure: a cut connection must not restart containers
// that are well.
func TestSilenceOfTheRemoteIsNoFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		reach func(context.Context, types.UID) error
		want  Outcome
		asked int
	}{
		"the remote answers: the container hangs": {func(context.Context, types.UID) error { return nil }, Failure, 2},
		"an error is an answer": {
			func(context.Context, types.UID) error { return errors.New("no") }, Failure, 2,
		},
		"it cannot be reached": {func(context.Context, types.UID) error { return backend.ErrUnavailable }, Unknown, 2},
		"it does not answer": {func(ctx context.Context, _ types.UID) error {
			<-ctx.Done()
			return ctx.Err()
		}, Unknown, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				reach := func(ctx context.Context, uid types.UID) error {
					asked++
					return tt.reach(ctx, uid)
				}
				r := newRig(t, Config{Reach: reach}, answer{way: time.Hour})
				target := execTarget(Liveness, func(p *corev1.Probe) { p.FailureThreshold = 2 })
				r.set(thePod(), []Target{target})
				after(2*(2*time.Minute+5*time.Second) + 3*time.Second)
				if got := r.outcome(target.Key); got != tt.want || asked != tt.asked {
					t.Errorf("found %v, asked %d times; want %v, %d", got, asked, tt.want, tt.asked)
				}
			})
		})
	}
}

// TestTheWayToTheRuntimeIsNoneOfACommandsTime: the link comes back, and its helper is
// started, while probes wait for it.
func TestTheWayToTheRuntimeIsNoneOfACommandsTime(t *testing.T) {
	for name, tt := range map[string]struct {
		answer answer
		want   Outcome
	}{
		"it then succeeds":     {answer{way: 40 * time.Second}, Success},
		"it then fails":        {answer{way: 40 * time.Second, code: 1}, Failure},
		"it then is killed":    {answer{way: 40 * time.Second, takes: 6 * time.Second}, Failure},
		"it never got through": {answer{way: 40 * time.Second, err: backend.ErrUnavailable}, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{Linked: true, Reach: func(context.Context, types.UID) error { return nil }}, tt.answer)
				target := execTarget(Liveness, func(p *corev1.Probe) { p.FailureThreshold = 1 })
				r.set(thePod(), []Target{target})
				after(39 * time.Second)
				if got := r.outcome(target.Key); got != Unknown {
					t.Errorf("found %v before the runtime was asked", got)
				}
				after(8 * time.Second)
				if got := r.outcome(target.Key); got != tt.want {
					t.Errorf("found %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestAProbeOverALinkHasAllItsTime: what is away at the probe's beginning may be back when
// the remote is asked whether it is there.
func TestAProbeOverALinkHasAllItsTime(t *testing.T) {
	for name, tt := range map[string]struct {
		linked bool
		// away is for how long dials from the first on are not answered; each probe has 5 s.
		away  time.Duration
		want  Outcome
		dials int
	}{
		"the way comes back at the end of the probe": {true, 5500 * time.Millisecond, Success, 2},
		"the container hangs":                        {true, time.Hour, Failure, 2},
		"a container here hangs":                     {false, time.Hour, Failure, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, dials := time.Now(), 0
				r := newRig(t, Config{
					Linked: tt.linked,
					Reach: func(context.Context, types.UID) error {
						time.Sleep(700 * time.Millisecond) // within its second
						return nil
					},
					Dial: dialFunc(func(ctx context.Context, _ backend.Ref, _ string) (net.Conn, error) {
						dials++
						if time.Since(begin) < tt.away {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						near, far := net.Pipe()
						return near, far.Close()
					}),
				})
				target := execTarget(Liveness, func(p *corev1.Probe) {
					p.FailureThreshold, p.PeriodSeconds = 1, 60
					p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
				})
				r.set(thePod(), []Target{target})
				after(30 * time.Second)
				if got := r.outcome(target.Key); got != tt.want || dials != tt.dials {
					t.Errorf("found %v after %d dials, want %v after %d", got, dials, tt.want, tt.dials)
				}
			})
		})
	}
}

func TestAnAnswerNeedsNoSecondQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Reach: func(context.Context, types.UID) error {
			t.Error("the remote was asked")
			return nil
		}}, bad, good, broken)
		r.set(thePod(), []Target{execTarget(Readiness, nil)})
		after(25 * time.Second)
	})
}

// TestARedirectElsewhereIsAWarningAndASuccess: behaviour 8.
func TestARedirectElsewhereIsAWarningAndASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(64 << 10)
		server := &http.Server{Handler: http.RedirectHandler("http://other.test/", http.StatusFound)}
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		r := newRig(t, Config{Dial: dialFunc(func(ctx context.Context, _ backend.Ref, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		})})
		target := execTarget(Readiness, func(p *corev1.Probe) {
			p.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
		})
		r.set(thePod(), []Target{target})
		after(0)
		_, events := r.told()
		want := []string{"Warning ProbeWarning Readiness probe warning: Probe terminated redirects, " +
			"Response body: <a href=\"http://other.test/\">Found</a>.\n\n"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if r.outcome(target.Key) != Success {
			t.Errorf("got %v", r.Results("u1"))
		}
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestMessagesOfFailuresAreBoundedAndCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := answer{code: 1, output: strings.Repeat("é", 4<<10)}
		r := newRig(t, Config{}, long, bad, good)
		target := execTarget(Readiness, func(p *corev1.Probe) { p.FailureThreshold = 1 })
		r.set(thePod(), []Target{target})
		after(0)
		if got := r.Results("u1")[target.Key].Message; got != strings.Repeat("é", 512) {
			t.Errorf("kept %d bytes", len(got))
		}
		after(10 * time.Second)
		if got := r.Results("u1")[target.Key]; got != (Result{Failure, "not yet"}) {
			t.Errorf("got %v", got)
		}
		after(10 * time.Second)
		if got := r.Results("u1")[target.Key]; got != (Result{Success, ""}) {
			t.Errorf("got %v", got)
		}
		if changes, _ := r.told(); !slices.Equal(changes, []time.Duration{0, 20 * time.Second}) {
			t.Errorf("changed at %v", changes)
		}
	})
}
