package intask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ended is a supervisor whose command has just ended, so that no signal reaches anybody.
func ended(spec Spec) *supervisor {
	s := &supervisor{
		spec: spec, stop: syscall.SIGTERM, main: &process{reaper: &reaper{}}, preStopped: make(chan *HookFailure, 1),
	}
	s.ending.timer = time.NewTimer(time.Hour)
	s.ending.timer.Stop()
	return s
}

// TestWhenAContainerIsKilled: a shorter grace replaces a longer one, never the other way; two
// seconds are left after the request to end, and none is waited for a hook that may not run.
func TestWhenAContainerIsKilled(t *testing.T) {
	hook := &Handler{Sleep: new(int64(3600))}
	for name, tt := range map[string]struct {
		preStop *Handler
		graces  []time.Duration // a second apart
		want    time.Duration   // from the first
		asked   bool            // the container, and not its hook
	}{
		"the grace":               {nil, []time.Duration{30 * time.Second}, 30 * time.Second, true},
		"at least two seconds":    {nil, []time.Duration{time.Second}, 2 * time.Second, true},
		"none is two seconds too": {nil, []time.Duration{0}, 2 * time.Second, true},
		"a shorter one": {
			nil, []time.Duration{30 * time.Second, 5 * time.Second}, 6 * time.Second, true,
		},
		"a longer one": {
			nil, []time.Duration{5 * time.Second, 30 * time.Second}, 5 * time.Second, true,
		},
		"the same once more": {
			nil, []time.Duration{5 * time.Second, 5 * time.Second}, 5 * time.Second, true,
		},
		"none after one":          {nil, []time.Duration{30 * time.Second, 0}, time.Second, true},
		"a hook counts in":        {hook, []time.Duration{30 * time.Second}, 30 * time.Second, false},
		"a hook of a short grace": {hook, []time.Duration{time.Second}, time.Second, false},
		"no hook without a grace": {hook, []time.Duration{0}, 2 * time.Second, true},
		"a hook, then a shorter grace": {
			hook, []time.Duration{30 * time.Second, 3 * time.Second}, 4 * time.Second, false,
		},
		"a hook, then a longer grace": {
			hook, []time.Duration{3 * time.Second, 30 * time.Second}, 3 * time.Second, false,
		},
		"a hook, then no grace": {hook, []time.Duration{30 * time.Second, 0}, time.Second, false},
		"three times, the shortest counts": {
			nil, []time.Duration{time.Minute, 20 * time.Second, 30 * time.Second}, 21 * time.Second, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := ended(Spec{PreStop: tt.preStop})
				begun := time.Now()
				for i, grace := range tt.graces {
					if i > 0 {
						time.Sleep(time.Second)
					}
					s.end(ctx, grace)
				}
				if got := s.ending.deadline.Sub(begun); got != tt.want || !s.ending.begun || (s.ending.cut == nil) != tt.asked {
					t.Errorf("killed after %v, asked: %v; want %v, %v", got, s.ending.cut == nil, tt.want, tt.asked)
				}
				<-s.ending.timer.C
				if got := time.Since(begun); got != max(tt.want, time.Duration(len(tt.graces)-1)*time.Second) {
					t.Errorf("the timer rang after %v", got)
				}
				cancel()
				s.work.Wait()
			})
		})
	}
}

// TestAHookThatIsLateIsCut: the container is asked to end then, and has two seconds; nothing is
// told of a hook that was cut off.
func TestAHookThatIsLateIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ended(Spec{PreStop: &Handler{Sleep: new(int64(3600))}})
		begun := time.Now()
		s.end(t.Context(), 10*time.Second)
		<-s.ending.timer.C
		s.late()
		if failure := <-s.preStopped; failure != nil {
			t.Errorf("told %+v", failure)
		}
		s.ending.cut = nil
		s.signalStop()
		if got := s.ending.deadline.Sub(begun); got != 12*time.Second {
			t.Errorf("killed after %v", got)
		}
		<-s.ending.timer.C
		s.late() // SIGKILL, to nobody
		s.work.Wait()
	})
}

// TestAHookLeavesTheRestOfTheGrace: it may fail, which is told.
func TestAHookLeavesTheRestOfTheGrace(t *testing.T) {
	const seconds = time.Second
	for name, tt := range map[string]struct {
		takes, grace, want time.Duration
		err                error
		told               string
	}{
		"a quick one":             {takes: 0, grace: 30 * seconds, want: 30 * seconds},
		"a slow one":              {takes: 20 * seconds, grace: 30 * seconds, want: 30 * seconds},
		"one that leaves nothing": {takes: 29 * seconds, grace: 30 * seconds, want: 31 * seconds},
		"one that fails": {
			takes: seconds, grace: 30 * seconds, want: 30 * seconds, err: errors.New("broken"),
			told: `Exec lifecycle hook ([stop]) failed: error: broken, message: ""`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := ended(Spec{PreStop: &Handler{Exec: []string{"stop"}}})
				s.checker.output = func(ctx context.Context, _ []string) (ran, error) {
					timer := time.NewTimer(tt.takes)
					defer timer.Stop()
					select {
					case <-timer.C:
						return ran{}, tt.err
					case <-ctx.Done():
						return ran{}, ctx.Err()
					}
				}
				begun := time.Now()
				s.end(t.Context(), tt.grace)
				failure := <-s.preStopped
				s.signalStop()
				if got := s.ending.deadline.Sub(begun); got != tt.want {
					t.Errorf("killed after %v, want %v", got, tt.want)
				}
				told := ""
				if failure != nil {
					told = failure.What + " failed: " + failure.Why
				}
				if told != tt.told {
					t.Errorf("told %q, want %q", told, tt.told)
				}
			})
		})
	}
}

// TestWhatEndsAContainer: the pod's signal before the image's, and any of them, or SIGTERM, asks
// the supervisor for the end.
func TestWhatEndsAContainer(t *testing.T) {
	for _, tt := range []struct {
		image, own string
		stop       syscall.Signal
		asked      []syscall.Signal
		err        string
	}{
		{"", "", syscall.SIGTERM, []syscall.Signal{15, 15, 15}, ""},
		{"SIGQUIT", "", syscall.SIGQUIT, []syscall.Signal{15, 3, 3}, ""},
		{"3", "", syscall.SIGQUIT, []syscall.Signal{15, 3, 3}, ""},
		{"", "SIGINT", syscall.SIGINT, []syscall.Signal{15, 15, 2}, ""},
		{"SIGQUIT", "SIGUSR1", syscall.SIGUSR1, []syscall.Signal{15, 3, 10}, ""},
		{"SIGQUIT", "SIGTERM", syscall.SIGTERM, []syscall.Signal{15, 3, 15}, ""},
		{"SIGRTMIN+3", "", 37, []syscall.Signal{15, 37, 37}, ""},
		{"SIGWHAT", "", 0, nil, `STOPSIGNAL of the image: "SIGWHAT" is no signal`},
		{"SIGWHAT", "SIGTERM", 0, nil, `STOPSIGNAL of the image: "SIGWHAT" is no signal`},
		{"", "SIGWHAT", 0, nil, `lifecycle.stopSignal: "SIGWHAT" is no signal`},
	} {
		s := &supervisor{spec: Spec{ImageStopSignal: tt.image, StopSignal: tt.own}}
		err := s.signals()
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%q, %q: %v", tt.image, tt.own, err)
			}
			continue
		}
		if err != nil || s.stop != tt.stop || !slices.Equal(s.asked, tt.asked) {
			t.Errorf("%q, %q: %v of %v, %v", tt.image, tt.own, s.stop, s.asked, err)
		}
		for sig := syscall.Signal(1); sig <= signalMax; sig++ {
			var grace []time.Duration
			s.main, s.spec.Grace = &process{reaper: &reaper{}}, 7
			s.received(sig, func(g time.Duration) { grace = append(grace, g) })
			if asks := slices.Contains(tt.asked, sig); asks != slices.Equal(grace, []time.Duration{7 * time.Second}) {
				t.Errorf("%q, %q: signal %d asks to end: %v", tt.image, tt.own, sig, grace)
			}
		}
		s.received(otherSignal{}, func(time.Duration) { t.Error("what is no signal of this system ended it") })
	}
}

// otherSignal is none of this system.
type otherSignal struct{}

func (otherSignal) String() string { return "other" }
func (otherSignal) Signal()        {}

var _ os.Signal = otherSignal{}

// TestAPostStartHook: after it the container is as good as started; where it fails, the container
// ends, and says why.
func TestAPostStartHook(t *testing.T) {
	for name, tt := range map[string]struct {
		failure *HookFailure
		spec    Spec
		says    string
		probes  bool
		ends    []time.Duration
		reason  string
	}{
		"well":                         {nil, Spec{}, healthy, true, nil, ""},
		"well, with a startup probe":   {nil, Spec{Startup: &Probe{}}, pendingStart, true, nil, ""},
		"well, with a readiness probe": {nil, Spec{Readiness: &Probe{}}, pendingReady, true, nil, ""},
		"badly": {
			&HookFailure{"Exec lifecycle hook", "no"},
			Spec{Grace: 5},
			pendingHook, false,
			[]time.Duration{5 * time.Second},
			ReasonPostStartHook,
		},
	} {
		s := ended(tt.spec)
		s.task.RunDir = t.TempDir()
		s.state = state{started: tt.spec.Startup == nil, ready: tt.spec.Readiness == nil}
		must(t, publish(s.task.RunDir, s.state))
		var ends []time.Duration
		probes := false
		s.postStarted(tt.failure, func() { probes = true }, func(g time.Duration) { ends = append(ends, g) })
		says := read(t, s.task.RunDir+"/"+healthFile)
		if says != tt.says || probes != tt.probes || !slices.Equal(ends, tt.ends) || s.report.Reason != tt.reason ||
			s.report.Hook != tt.failure {
			t.Errorf("%s: says %q, probes: %v, ends %v, report %+v", name, says, probes, ends, s.report)
		}
	}
}

// TestHookWords: what is told of a hook that failed is what a kubelet says (lifecycle/handlers.go).
func TestHookWords(t *testing.T) {
	exec := &Handler{Exec: []string{"sh", "-c", "x"}}
	const what = "Exec lifecycle hook ([sh -c x])"
	for name, tt := range map[string]struct {
		handler *Handler
		ran     ran
		err     error
		want    *HookFailure
	}{
		"a success":             {exec, ran{}, nil, nil},
		"a success with output": {exec, ran{stdout: "out", stderr: "err"}, nil, nil},
		"a failure": {
			exec, ran{code: 3}, nil, &HookFailure{what, `error: command 'sh -c x' exited with 3: , message: ""`},
		},
		"a failure with output": {
			exec,
			ran{code: 1, stdout: "out\n", stderr: "err\n"},
			nil,
			&HookFailure{what, "error: command 'sh -c x' exited with 1: err\n, message: \"out\\nerr\\n\""},
		},
		"one that was not run": {
			exec, ran{}, errors.New("no shell"), &HookFailure{what, `error: no shell, message: ""`},
		},
		"a sleep":  {&Handler{Sleep: new(int64(2))}, ran{}, nil, nil},
		"no sleep": {&Handler{Sleep: new(int64(0))}, ran{}, nil, nil},
		"nothing to do": {
			&Handler{}, ran{}, nil, &HookFailure{"lifecycle hook", "error: missing probe handler"},
		},
		"what a hook cannot do": {
			&Handler{TCP: &TCPSocket{Port: 1}}, ran{}, nil, &HookFailure{"lifecycle hook", "error: missing probe handler"},
		},
		"nowhere to ask": {
			&Handler{HTTP: &HTTPGet{Path: "/x", Port: 80}},
			ran{},
			nil,
			&HookFailure{"HTTP lifecycle hook (/x)", "error: the address of the task is not known"},
		},
		"no port to ask": {
			&Handler{HTTP: &HTTPGet{Host: "h", Path: "/x"}},
			ran{},
			nil,
			&HookFailure{"HTTP lifecycle hook (/x)", "error: invalid port number: 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := checker{output: func(context.Context, []string) (ran, error) { return tt.ran, tt.err }}
				if diff := cmp.Diff(tt.want, c.hook(t.Context(), tt.handler)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	got := checker{}.hook(cut, &Handler{Sleep: new(int64(9))})
	want := &HookFailure{"Sleep lifecycle hook (9)", "error: container terminated before sleep hook finished"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a sleep that is cut off (-want +got):\n%s", diff)
	}
	const words = `Sleep lifecycle hook (9) for Container "app" in Pod "web_ns(u)" failed - error: `
	if said := got.Message("app", "web_ns(u)"); !strings.HasPrefix(said, words) {
		t.Errorf("%s", said)
	}
}

// TestProbesAreRepeatedIfTheyErr: three times at most, and an error counts for nothing.
func TestProbesAreRepeatedIfTheyErr(t *testing.T) {
	broken := errors.New("broken")
	type outcome struct {
		v   verdict
		err error
	}
	for name, tt := range map[string]struct {
		outcomes []outcome
		want     verdict
		asked    int
	}{
		"well at once":  {[]outcome{{success, nil}}, success, 1},
		"badly at once": {[]outcome{{failed, nil}}, failed, 1},
		"well at last": {
			[]outcome{{unknown, broken}, {unknown, broken}, {success, nil}}, success, 3,
		},
		"badly at second": {[]outcome{{unknown, broken}, {failed, nil}}, failed, 2},
		"never": {
			[]outcome{{unknown, broken}, {unknown, broken}, {unknown, broken}}, unknown, 3,
		},
		"a verdict with an error does not count": {[]outcome{{failed, broken}, {success, nil}}, success, 2},
	} {
		asked := 0
		p := prober{check: func(_ context.Context, h Handler, timeout time.Duration) (verdict, string, error) {
			if timeout != 3*time.Second || h.Exec[0] != "x" {
				t.Errorf("%s: asked %+v within %v", name, h, timeout)
			}
			asked++
			return tt.outcomes[asked-1].v, "said", tt.outcomes[asked-1].err
		}}
		got, said := p.ask(t.Context(), &Probe{Handler: Handler{Exec: []string{"x"}}, Timeout: 3})
		if got != tt.want || asked != tt.asked || (said == "said") != (tt.want != unknown) {
			t.Errorf("%s: %v, %q after %d", name, got, said, asked)
		}
	}
}

// TestNumbersOfProbes: 0 is the API's default (SetDefaults_Probe).
func TestNumbersOfProbes(t *testing.T) {
	for _, tt := range []struct {
		probe             Probe
		period, timeout   time.Duration
		success, failures int
	}{
		{Probe{}, 10 * time.Second, time.Second, 1, 3},
		{Probe{Period: 1}, time.Second, time.Second, 1, 3},
		{Probe{Timeout: 60}, 10 * time.Second, time.Minute, 1, 3},
		{Probe{SuccessThreshold: 2}, 10 * time.Second, time.Second, 2, 3},
		{Probe{FailureThreshold: 1}, 10 * time.Second, time.Second, 1, 1},
		{
			Probe{Period: -1, Timeout: -1, SuccessThreshold: -1, FailureThreshold: -1}, 10 * time.Second, time.Second, 1, 3,
		},
	} {
		p := &tt.probe
		got := fmt.Sprint(p.period(), p.timeout(), p.threshold(success), p.threshold(failed))
		if want := fmt.Sprint(tt.period, tt.timeout, tt.success, tt.failures); got != want {
			t.Errorf("%+v: %s, want %s", tt.probe, got, want)
		}
	}
}
