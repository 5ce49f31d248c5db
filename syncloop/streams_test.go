package syncloop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// eachWith is each for an engine whose backend is changed.
func eachWith(t *testing.T, cfg sim.Config, change func(*backend.Backend), f func(t *testing.T, a *api)) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := cfg
				cfg.PodUnit = podUnit
				a := newAPI(t)
				a.remote = sim.New(cfg)
				b := a.remote.Backend()
				change(&b)
				a.start(b)
				defer func() { a.stop() }()
				time.Sleep(time.Second)
				f(t, a)
			})
		})
	}
}

// exec runs a command through the engine.
func (a *api) exec(pod backend.Ref, container string, argv ...string) (string, int32, error) {
	var out bytes.Buffer
	code, err := a.engine.Exec(context.Background(), pod, container, backend.ExecSpec{Command: argv, Stdout: &out})
	return out.String(), code, err
}

var nsP = backend.Ref{Namespace: "ns", Name: "p"}

func TestExecReachesEveryKindOfContainer(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		always := corev1.ContainerRestartPolicyAlways
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{
				{Name: "sidecar", Image: "busybox", Command: []string{"sleep", "infinity"}, RestartPolicy: &always},
				{Name: "init", Image: "busybox", Command: []string{"sleep", "60"}},
			}
		}, "sleep", "infinity")
		time.Sleep(10 * time.Second)
		reaches := func(containers ...string) {
			t.Helper()
			for _, c := range containers {
				out, code, err := a.exec(nsP, c, "sh", "-c", "echo here; exit 3")
				if err != nil || code != 3 || out != "here\n" {
					t.Errorf("container %s: %q, %d, %v", c, out, code, err)
				}
			}
		}
		reaches("sidecar", "init")
		if _, _, err := a.exec(nsP, "a", "true"); !errors.Is(err, backend.ErrNotFound) ||
			!strings.HasPrefix(err.Error(), `container not found ("a")`) {
			t.Errorf("a container that waits: %v", err)
		}
		time.Sleep(time.Minute)
		reaches("sidecar", "a")
		if _, _, err := a.exec(nsP, "init", "true"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("an init container that has ended: %v", err)
		}
		if a.remote.Backend().Containers == nil {
			return // tasks take no ephemeral containers
		}
		a.update("p", func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name: "debug", Image: "busybox", Command: []string{"sleep", "infinity"}, ImagePullPolicy: corev1.PullIfNotPresent,
				}},
			}
		})
		time.Sleep(10 * time.Second)
		reaches("debug")
		r, err := a.engine.ContainerLogs(context.Background(), "ns", "p", "debug", false, backend.LogOptions{})
		if err != nil {
			t.Fatalf("log of an ephemeral container: %v", err)
		}
		r.Close()
	})
}

// TestStreamsNameTheirPod: who is meant, and what is said to those who are wrong.
func TestStreamsNameTheirPod(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		a.create("done", "d", "Never", nil, "true")
		time.Sleep(10 * time.Second)
		for _, tt := range []struct {
			name      string
			pod       backend.Ref
			container string
			want      string // of exec and attach; "" is none
			forward   string
		}{
			{"by name", nsP, "a", "", ""},
			{"by UID", backend.Ref{Namespace: "ns", Name: "p", UID: "u"}, "a", "", ""},
			{"attempts and ids mean nothing", backend.Ref{Namespace: "ns", Name: "p", Attempt: 7, ID: "x"}, "a", "", ""},
			{"unknown name", backend.Ref{Namespace: "ns", Name: "q"}, "a", "pod does not exist", "pod does not exist"},
			{"other namespace", backend.Ref{Namespace: "other", Name: "p"}, "a", "pod does not exist", "pod does not exist"},
			{"unknown UID", backend.Ref{Namespace: "ns", Name: "p", UID: "v"}, "a", "pod does not exist", "pod does not exist"},
			{
				"UID of another",
				backend.Ref{Namespace: "ns", Name: "p", UID: "d"},
				"a", "pod does not exist",
				"pod does not exist",
			},
			{"unknown container", nsP, "b", `container not found ("b")`, ""},
			{
				"ended",
				backend.Ref{Namespace: "ns", Name: "done"},
				"a", `container not found ("a"): it is not running`,
				`pod not found ("done_ns"): it is not running`,
			},
		} {
			check := func(call string, err error, want string) {
				t.Helper()
				if want == "" && err != nil || want != "" && (!errors.Is(err, backend.ErrNotFound) || err.Error() != want) {
					t.Errorf("%s: %s: got %v, want %q", tt.name, call, err, want)
				}
			}
			check("CanExec", a.engine.CanExec(tt.pod, tt.container), tt.want)
			check("CanForward", a.engine.CanForward(tt.pod), tt.forward)
			_, _, err := a.exec(tt.pod, tt.container, "true")
			check("Exec", err, tt.want)
		}
	})
}

// TestStreamsGoToTheNewest: attempt of a container, and pod of a name.
func TestStreamsGoToTheNewest(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		crash := func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "UID", Value: string(pod.UID)}}
		}
		a.create("p", "old", "Always", crash, "sh", "-c", "sleep 30; exit 1")
		time.Sleep(40 * time.Second) // it has run again for a while
		if n := a.restarts("p"); n != 1 {
			t.Fatalf("%d restarts", n)
		}
		uid := func(pod backend.Ref) string {
			t.Helper()
			out, _, err := a.exec(pod, "a", "printenv", "UID")
			if err != nil {
				t.Errorf("%+v: %v", pod, err)
			}
			return strings.TrimSpace(out)
		}
		if got := uid(nsP); got != "old" {
			t.Errorf("got %q", got)
		}
		a.force("p")
		a.create("p", "new", "Always", crash, "sleep", "infinity")
		time.Sleep(10 * time.Second)
		if got := uid(nsP); got != "new" {
			t.Errorf("got %q", got)
		}
	})
}

// lends records what the engine asks for.
type lends struct {
	refs   []string
	attach []backend.AttachSpec
	ports  []string
	err    error
}

func nameOf(ref backend.ContainerRef) string {
	return fmt.Sprintf("%s/%d:%s/%d", ref.Pod.UID, ref.Pod.Attempt, ref.Name, ref.Attempt)
}

func (l *lends) Exec(_ context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	if spec.TTY && spec.Stderr != nil {
		return 1, errors.New("stderr beside a terminal")
	}
	l.refs = append(l.refs, nameOf(ref))
	return 0, l.err
}

func (l *lends) Attach(_ context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	l.refs, l.attach = append(l.refs, nameOf(ref)), append(l.attach, spec)
	return l.err
}

func (l *lends) Forward(_ context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	l.ports = append(l.ports, fmt.Sprintf("%s/%d:%d", pod.UID, pod.Attempt, port))
	return nil, l.err
}

func TestStreamsAsTheBackendWantsThem(t *testing.T) {
	var l *lends
	with := func(b *backend.Backend) { l = &lends{}; b.Exec, b.Attach, b.Forward = l, l, l }
	eachWith(t, sim.Config{}, with, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: "console", Image: "busybox", Command: []string{"sleep", "infinity"}, TTY: true, Stdin: true,
			})
		}, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		ctx := t.Context()
		sizes := make(chan backend.TerminalSize)
		asked := backend.AttachSpec{Stdout: io.Discard, Stderr: io.Discard, Resize: sizes, TTY: true}
		for _, c := range []string{"a", "console"} {
			if err := a.engine.Attach(ctx, nsP, c, asked); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.attach[0]; got.TTY || got.Resize != nil || got.Stderr == nil {
			t.Errorf("attach to a container without a terminal: %+v", got)
		}
		if got := l.attach[1]; !got.TTY || got.Resize == nil || got.Stderr != nil {
			t.Errorf("attach to a container with a terminal: %+v", got)
		}
		if _, err := a.engine.Exec(
			ctx, nsP, "a", backend.ExecSpec{Command: []string{"sh"}, TTY: true, Stderr: io.Discard},
		); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"u/0:a/0", "u/0:console/0", "u/0:a/0"}, l.refs); diff != "" {
			t.Error(diff)
		}
		if _, err := a.engine.Forward(ctx, nsP, 80); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"u/0:80"}, l.ports); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStreamsKeepTheClassOfErrors(t *testing.T) {
	with := func(b *backend.Backend) {
		l := &lends{err: backend.Errorf(backend.ErrUnavailable, "host is away")}
		b.Exec, b.Attach, b.Forward = l, l, l
	}
	eachWith(t, sim.Config{}, with, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		_, _, exec := a.exec(nsP, "a", "sh")
		_, forward := a.engine.Forward(t.Context(), nsP, 80)
		for _, err := range []error{exec, a.engine.Attach(t.Context(), nsP, "a", backend.AttachSpec{}), forward} {
			if !errors.Is(err, backend.ErrUnavailable) || !strings.HasSuffix(err.Error(), "host is away") {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestStreamsThatTheBackendDoesNotLend(t *testing.T) {
	without := func(b *backend.Backend) { b.Exec, b.Attach, b.Forward = nil, nil, nil }
	eachWith(t, sim.Config{}, without, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		_, _, exec := a.exec(nsP, "a", "true")
		_, forward := a.engine.Forward(t.Context(), nsP, 80)
		for want, errs := range map[string][]error{
			"the sim backend does not lend exec": {exec, a.engine.CanExec(nsP, "a")},
			"the sim backend does not lend attach": {
				a.engine.Attach(t.Context(), nsP, "a", backend.AttachSpec{}), a.engine.CanAttach(nsP, "a"),
			},
			"the sim backend does not lend port forwarding": {forward, a.engine.CanForward(nsP)},
		} {
			for _, err := range errs {
				if !errors.Is(err, backend.ErrUnsupported) || err.Error() != want {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		}
	})
}

// log reads a container's log to its end.
func (a *api) log(container string, previous, follow bool) (string, error) {
	r, err := a.engine.ContainerLogs(
		context.Background(), "ns", "p", container, previous, backend.LogOptions{Follow: follow},
	)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// waitForBackoff waits until a pod's container has ended, and waits for its turn.
func (a *api) waitForBackoff(name string) {
	a.t.Helper()
	for range 60 {
		if w := a.get(name).Status.ContainerStatuses[0].State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			return
		}
		time.Sleep(time.Second)
	}
	a.t.Fatalf("status %+v", a.get(name).Status.ContainerStatuses)
}

// TestLogsOfAttempts: the one that kubectl logs shows in each state of a container
// (kubelet: validateContainerLogStatus).
func TestLogsOfAttempts(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		script := "date +%s; sleep 20; exit 1"
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: []string{"echo", "initial"}}}
		}, "sh", "-c", script)
		time.Sleep(5 * time.Second)
		if got, err := a.log("i", false, false); err != nil || !strings.Contains(got, "initial") {
			t.Errorf("init container that has ended: %q, %v", got, err)
		}
		if _, err := a.log("a", true, false); !errors.Is(err, backend.ErrInvalid) ||
			err.Error() != `previous terminated container "a" in pod "p" not found` {
			t.Errorf("previous of the first: %v", err)
		}
		begin := time.Now()
		if _, err := a.log("a", false, true); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("following ended after %s, not with the container", took)
		}
		time.Sleep(10 * time.Second) // attempt 1 runs
		if a.restarts("p") != 1 {
			t.Fatal("it was not restarted")
		}
		if _, err := a.log("a", true, false); err != nil && a.remote.Backend().Containers != nil {
			t.Errorf("previous of the second: %v", err)
		}
		a.waitForBackoff("p")
		for _, previous := range []bool{false, true} {
			if _, err := a.log("a", previous, false); err != nil {
				t.Errorf("previous=%v while it waits: %v", previous, err)
			}
		}
	})
}

func TestLogsOfAContainerThatNeverRan(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.test/missing:1" })
		words := map[string]string{
			"ContainerCreating": "ContainerCreating",
			"ErrImagePull":      "image can't be pulled",
			"ImagePullBackOff":  "trying and failing to pull image",
		}
		seen := map[string]bool{}
		for range 60 {
			time.Sleep(time.Second)
			synctest.Wait() // a pull that is tried at this very second
			reason := a.get("p").Status.ContainerStatuses[0].State.Waiting.Reason
			_, err := a.log("a", false, false)
			if want := `container "a" in pod "p" is waiting to start: ` + words[reason]; !errors.Is(err, backend.ErrInvalid) ||
				err.Error() != want {
				t.Errorf("%s: got %v, want %s", reason, err, want)
			}
			seen[reason] = true
		}
		if !seen["ErrImagePull"] || !seen["ImagePullBackOff"] {
			t.Errorf("reasons %v", seen)
		}
	})
}

func TestLogsOfAnEndedPod(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", nil, "echo", "done")
		time.Sleep(time.Minute)
		a.phase("p", corev1.PodSucceeded)
		for _, follow := range []bool{false, true} {
			if got, err := a.log("a", false, follow); err != nil || !strings.Contains(got, "done") {
				t.Errorf("follow=%v: %q, %v", follow, got, err)
			}
		}
	})
}
