package syncloop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// badEntrypoint makes containers that end without having run, as a runtime does of
// those whose command is not there.
type badEntrypoint struct{ backend.Containers }

func (b badEntrypoint) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	spec.Container.Command, spec.Container.Args = []string{"sh", "-c", "exit 128"}, nil
	if err := b.Containers.Start(ctx, ref, spec); err != nil {
		return err
	}
	return backend.NotStarted(fmt.Errorf("exec: \"/nope\": no such file or directory"))
}

// alone runs f in virtual time on a remote of containers that change alters.
func alone(t *testing.T, change func(*backend.Backend), f func(t *testing.T, a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{Record: true, Files: true})
		b := a.remote.Backend()
		if change != nil {
			change(&b)
		}
		a.start(b)
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(t, a)
		a.audit()
	})
}

// watch returns what a pod's first container was, each once in its order, for so long:
// the phase with the state's reason.
func (a *api) watch(name string, d time.Duration) (seen []string) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		synctest.Wait() // not what is there for no time
		pod := a.get(name)
		if len(pod.Status.ContainerStatuses) == 0 {
			continue
		}
		word := string(pod.Status.Phase) + " "
		switch s := pod.Status.ContainerStatuses[0].State; {
		case s.Waiting != nil:
			word += s.Waiting.Reason
		case s.Terminated != nil:
			word += s.Terminated.Reason
		default:
			word += "Running"
		}
		if len(seen) == 0 || seen[len(seen)-1] != word {
			seen = append(seen, word)
		}
	}
	return seen
}

// A command that is not there: a kubelet says RunContainerError, and then
// CrashLoopBackOff, which KubePodCrashLooping looks for.
func TestBadEntrypoint(t *testing.T) {
	alone(t, func(b *backend.Backend) { b.Containers = badEntrypoint{b.Containers} }, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "/nope")
		got := a.watch("p", 29*time.Second)
		want := []string{
			"Running RunContainerError", "Running CrashLoopBackOff", // at once and again, then after 10 s
			"Running RunContainerError", "Running CrashLoopBackOff",
		}
		if !slices.Equal(slices.Compact(got), want) {
			t.Errorf("seen\n%q, want\n%q", got, want)
		}
		if n := a.restarts("p"); n != 2 {
			t.Errorf("%d restarts, want 2", n)
		}
		s := a.get("p").Status.ContainerStatuses[0]
		if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 128 {
			t.Errorf("the end before: %+v", s.LastTerminationState)
		}
		for _, reason := range []string{"Created", "Failed", "BackOff"} {
			if a.event("p", reason) == "" {
				t.Errorf("no Event %s", reason)
			}
		}
		a.create("once", "o", "Never", nil, "/nope")
		time.Sleep(5 * time.Second)
		a.phase("once", corev1.PodFailed)
	})
}

// hooked gives the pod's container a postStart hook.
func hooked(argv ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: argv}},
		}
	}
}

// A container is being created while its postStart hook runs.
func TestPostStartIsPartOfTheStart(t *testing.T) {
	alone(t, nil, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", hooked("sleep", "5"), "sh", "-c", "sleep 20; exit 1")
		got := a.watch("p", 19*time.Second)
		want := []string{"Pending ContainerCreating", "Running Running"}
		if !slices.Equal(got, want) {
			t.Errorf("seen\n%q, want\n%q", got, want)
		}
		got = a.watch("p", 15*time.Second)
		if want := []string{"Running Running", "Running Error", "Running Running"}; !slices.Equal(got, want) {
			t.Errorf("seen at the restart\n%q, want\n%q", got, want)
		}
	})
}

// Who kills the process while a hook runs, and then the container: it ran, and a pod
// under Never does not run again.
func TestCrashInAPostStartHook(t *testing.T) {
	alone(t, nil, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", hooked("sleep", "30"), "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.phase("p", corev1.PodPending)
		a.stop()
		a.remote.Vanish("u")
		a.start(a.remote.Backend())
		time.Sleep(30 * time.Second)
		a.phase("p", corev1.PodFailed)
		if s := a.get("p").Status.ContainerStatuses[0].State.Terminated; s == nil || s.Reason != "ContainerStatusUnknown" {
			t.Errorf("state %+v", a.get("p").Status.ContainerStatuses[0].State)
		}
	})
}

// A hook that fails is told by the kubelet's reason, until the container backs off.
func TestFailedPostStart(t *testing.T) {
	alone(t, nil, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", hooked("false"), "sleep", "infinity")
		got := a.watch("p", 25*time.Second)
		for _, want := range []string{"Running PostStartHookError", "Running CrashLoopBackOff"} {
			if !slices.Contains(got, want) {
				t.Errorf("%q was not seen: %q", want, got)
			}
		}
		if a.event("p", "BackOff") == "" || a.event("p", "FailedPostStartHook") == "" {
			t.Error("Events are missing")
		}
	})
}
