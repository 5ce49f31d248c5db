package syncloop_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/metrics"
)

func priority(p int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &p }
}

func patient(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// TestShutdown: as a kubelet's graceful node shutdown, by its table in the
// Kubernetes documentation: ordinary pods have the time less that of the critical
// ones, which end last.
func TestShutdown(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		stubborn := []string{"sh", "-c", "trap '' TERM; sleep infinity"}
		a.create("quick", "u1", "Always", nil, "sleep", "infinity")
		a.create("short", "u2", "Always", patient(5), stubborn...)
		a.create("long", "u3", "Always", patient(300), stubborn...)
		a.create("critical", "u4", "Always", priority(2_000_000_000), stubborn...)
		a.create("done", "u5", "Never", nil, "true")
		time.Sleep(5 * time.Second)
		begin := time.Now()
		a.engine.Shutdown(t.Context(), syncloop.ShutdownGraces(30*time.Second, 10*time.Second))
		if took := time.Since(begin); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("it took %s, want 30s", took)
		}
		for name, after := range map[string]time.Duration{
			"quick": 0, "short": 5 * time.Second, "long": 20 * time.Second, "critical": 30 * time.Second,
		} {
			a.phase(name, corev1.PodFailed)
			s := a.get(name).Status
			if s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown." {
				t.Errorf("%s: %s: %s", name, s.Reason, s.Message)
			}
			if !slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "TerminationByKubelet"
			}) {
				t.Errorf("%s: no DisruptionTarget: %+v", name, s.Conditions)
			}
			ended := s.ContainerStatuses[0].State.Terminated.FinishedAt.Sub(begin)
			if ended < after || ended > after+2*time.Second {
				t.Errorf("%s ended after %s, want %s", name, ended, after)
			}
		}
		a.phase("done", corev1.PodSucceeded)
		if s := a.get("done").Status; s.Reason != "" {
			t.Errorf("a completed pod has the reason %s", s.Reason)
		}
		a.create("late", "u6", "Always", nil, "sleep", "infinity")
		time.Sleep(time.Second)
		a.phase("late", corev1.PodFailed)
		if s := a.get("late").Status; s.Reason != "NodeShutdown" ||
			s.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
			t.Errorf("late: %s: %s", s.Reason, s.Message)
		}
	})
}

// TestShutdownOfNothing does not wait.
func TestShutdownOfNothing(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		begin := time.Now()
		a.engine.Shutdown(context.Background(), syncloop.ShutdownGraces(time.Minute, 0))
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// hosts runs f in virtual time with a host whose shutdown pods have time for.
func hosts(t *testing.T, graces []syncloop.ShutdownGrace, f func(t *testing.T, a *api)) {
	measuredHosts(t, nil, graces, f)
}

// measuredHosts is hosts with metrics of the first engine.
func measuredHosts(
	t *testing.T, reg prometheus.Registerer, graces []syncloop.ShutdownGrace, f func(t *testing.T, a *api),
) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.metrics = metrics.New(reg)
		a.shutdown, a.remote = graces, sim.New(sim.Config{Record: true})
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(t, a)
		a.audit()
	})
}

// TestHostShutsDown: the host waits while pods end in the order of their priorities, no
// longer than that, and has pods again when it is back.
func TestHostShutsDown(t *testing.T) {
	stubborn := []string{"sh", "-c", "trap '' TERM; sleep infinity"}
	hosts(t, []syncloop.ShutdownGrace{
		{0, 20 * time.Second}, {1000, 5 * time.Second}, {100_000, 10 * time.Second},
	}, func(t *testing.T, a *api) {
		for name, p := range map[string]int32{"below": -5, "low": 999, "middle": 1000, "high": 2_000_000_000} {
			a.create(name, types.UID("u-"+name), "Always", func(pod *corev1.Pod) {
				priority(p)(pod)
				patient(300)(pod)
			}, stubborn...)
		}
		a.setStatic(static("static", "u-static", "sleep", "infinity"))
		time.Sleep(5 * time.Second)
		if !a.remote.ShutdownDelayed() {
			t.Fatal("nothing would delay a shutdown")
		}
		begin := time.Now()
		a.remote.ShutDown(true)
		time.Sleep(time.Second)
		a.create("late", "u-late", "Always", nil, "sleep", "infinity")
		time.Sleep(time.Second)
		a.phase("late", corev1.PodFailed)
		if s := a.get("late").Status; s.Reason != "NodeShutdown" || !a.shuttingDown.Load() {
			t.Errorf("late: %s, the node says that it shuts down: %v", s.Reason, a.shuttingDown.Load())
		}
		time.Sleep(34*time.Second - time.Since(begin))
		if !a.remote.ShutdownDelayed() {
			t.Error("the host goes on before the last pod has had its time")
		}
		time.Sleep(5 * time.Second)
		if a.remote.ShutdownDelayed() {
			t.Error("the host is still delayed")
		}
		for name, after := range map[string]time.Duration{
			"below": 20 * time.Second, "low": 20 * time.Second, "middle": 25 * time.Second, "high": 35 * time.Second,
		} {
			a.phase(name, corev1.PodFailed)
			s := a.get(name).Status
			ended := s.ContainerStatuses[0].State.Terminated.FinishedAt.Sub(begin)
			if s.Reason != "Terminated" || ended < after || ended > after+3*time.Second {
				t.Errorf("%s: %s, ended after %s, want %s", name, s.Reason, ended, after)
			}
		}
		a.remote.ShutDown(false)
		time.Sleep(time.Second)
		if a.shuttingDown.Load() || !a.remote.ShutdownDelayed() {
			t.Error("the host is back, and the node is not")
		}
		a.create("next", "u-next", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.phase("next", corev1.PodRunning)
		a.phase("low", corev1.PodFailed)
		if !slices.Contains(a.runs(), "u-static") {
			t.Error("the static pod ended, and would not come back with its host")
		}
	})
}

// TestHostShutsDownWhileTheEngineIsAway: the next engine ends the pods.
func TestHostShutsDownWhileTheEngineIsAway(t *testing.T) {
	hosts(t, syncloop.ShutdownGraces(30*time.Second, 0), func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.stop()
		if a.remote.ShutdownDelayed() {
			t.Error("an engine that has ended delays the host")
		}
		a.remote.ShutDown(true)
		a.start(a.remote.Backend())
		time.Sleep(10 * time.Second)
		a.phase("p", corev1.PodFailed)
	})
}

// TestHostThatDoesNotTell is asked again and again, and said once.
func TestHostThatDoesNotTell(t *testing.T) {
	hosts(t, syncloop.ShutdownGraces(30*time.Second, 0), func(t *testing.T, a *api) {
		a.stop()
		asked, logged := 0, &bytes.Buffer{}
		logger := logrus.New()
		logger.SetOutput(logged)
		b := intercept.Wrap(a.remote.Backend(), func(
			ctx context.Context, c *intercept.Call, next func(context.Context) error,
		) error {
			if c.Name != intercept.ShutdownAwait || asked == 3 {
				return next(ctx)
			}
			asked++
			return backend.Errorf(backend.ErrUnsupported, "no logind")
		})
		a.startAs(log.WithLogger(context.Background(), logrus.NewEntry(logger)), b, a)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if said := strings.Count(logged.String(), "no logind"); asked != 3 || said != 1 || !a.remote.ShutdownDelayed() {
			t.Errorf("asked %d times, said %d times: %s", asked, said, logged)
		}
	})
}

// TestHostShutdownIsMeasured: the metrics say when the pods last had to end, and when they had.
func TestHostShutdownIsMeasured(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	measuredHosts(t, reg, []syncloop.ShutdownGrace{{0, 20 * time.Second}}, func(t *testing.T, a *api) {
		expect := func(what string, start, end float64) {
			t.Helper()
			for name, want := range map[string]float64{"start": start, "end": end} {
				if got := gauge(t, reg, "kubelet_graceful_shutdown_"+name+"_time_seconds", ""); math.Abs(got-want) > 2 {
					t.Errorf("%s: %s %v, want %v", what, name, got, want)
				}
			}
		}
		expect("no shutdown", 0, 0)
		for _, name := range []string{"first", "second"} {
			a.create(name, types.UID(name), "Always", patient(300), "sh", "-c", "trap '' TERM; sleep infinity")
			time.Sleep(5 * time.Second)
			begin := float64(time.Now().Unix())
			a.remote.ShutDown(true)
			time.Sleep(10 * time.Second)
			expect("pods end", begin, 0)
			time.Sleep(20 * time.Second)
			expect("pods have ended", begin, begin+20)
			a.remote.ShutDown(false)
			time.Sleep(5 * time.Second)
			expect("the host is back", begin, begin+20)
		}
	})
}
