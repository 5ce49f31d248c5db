package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// t0 is when the pods of these tables were made.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// aPod has app containers a, b, …; policy Always unless changed.
func aPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", CreationTimestamp: metav1.NewTime(t0)},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "a", Image: "img"}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func policy(p corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = p }
}

func inits(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, n := range names {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: n, Image: "img"})
		}
	}
}

func apps(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = nil
		for _, n := range names {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: n, Image: "img"})
		}
	}
}

func deleted(grace int64, sec float64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: at(sec)}
		pod.DeletionGracePeriodSeconds = &grace
	}
}

func ran1(name string, attempt int, start, end float64, code int32) backend.ContainerFacts {
	return backend.ContainerFacts{
		Name: name, ID: name + "-id" + string(rune('0'+attempt)), Attempt: attempt, Image: "img", ImageID: "sha",
		CreatedAt: at(start), StartedAt: at(start), FinishedAt: at(end), ExitCode: code,
	}
}

func runs(name string, attempt int, start float64) backend.ContainerFacts {
	c := ran1(name, attempt, start, 0, 0)
	c.FinishedAt = time.Time{}
	return c
}

func made(name string, attempt int) backend.ContainerFacts {
	c := runs(name, attempt, 1)
	c.StartedAt = time.Time{}
	return c
}

func attempt(n int, live bool, cs ...backend.ContainerFacts) backend.PodFacts {
	p := backend.PodFacts{
		Ref:       backend.Ref{UID: "uid", Namespace: "ns", Name: "pod", Attempt: n, ID: "sandbox"},
		CreatedAt: at(0), Live: live, IPs: []string{"10.0.0.9"}, Containers: cs,
	}
	if !live {
		p.StoppedAt = at(2)
	}
	return p
}

func input(pod *corev1.Pod, now float64, facts ...backend.PodFacts) Input {
	in := Input{
		Pod: pod, Facts: facts, FactsAt: at(now), Now: at(now), Memory: newMemory(corev1.PodStatus{}),
		Traits:  backend.Traits{Containers: true, Limits: backend.Limits{Settle: 5 * time.Second, Runtime: "rt"}},
		HostIPs: []string{"192.0.2.1"},
		Objects: resolve.Objects{ServicesSynced: true},
	}
	if pod != nil {
		in.Memory = newMemory(pod.Status)
	}
	return in
}

func names(actions []Action) []string {
	var out []string
	for _, a := range actions {
		out = append(out, a.String())
	}
	return out
}

func wantActions(t *testing.T, p Plan, want ...string) {
	t.Helper()
	if got := names(p.Actions); !slices.Equal(got, want) {
		t.Errorf("actions:\n got %q\nwant %q", got, want)
	}
}

// planCase is a row: what is known, and what must be planned.
type planCase struct {
	name  string
	in    Input
	mem   func(*Memory)
	want  []string
	phase corev1.PodPhase
	// wake is when to decide again, in seconds; 0 is not looked at.
	wake                float64
	reclaimed, couldRun bool
}

// decide checks what every table checks.
func (c planCase) decide(t *testing.T) Plan {
	t.Helper()
	if c.mem != nil {
		c.mem(&c.in.Memory)
	}
	p := Decide(c.in)
	wantActions(t, p, c.want...)
	if p.Status.Phase != c.phase {
		t.Errorf("phase %s, want %s", p.Status.Phase, c.phase)
	}
	if c.wake != 0 && !p.WakeAt.Equal(at(c.wake)) {
		t.Errorf("wakes at %v, want %v", p.WakeAt, at(c.wake))
	}
	return p
}

// TestContainerUnit reads as the rules for backends that start containers.
func TestContainerUnit(t *testing.T) {
	always, onFailure, never := policy("Always"), policy("OnFailure"), policy("Never")
	for _, tt := range []planCase{
		{
			name: "new pod: sandbox and containers in one go",
			in:   input(aPod(apps("a", "b")), 0),
			want: []string{"launch attempt 0", "start container a attempt 0", "start container b attempt 0"}, phase: "Pending",
		},
		{
			name: "new pod with init containers: only the first starts",
			in:   input(aPod(inits("i", "j")), 0),
			want: []string{"launch attempt 0", "start container i attempt 0"}, phase: "Pending",
		},
		{
			name: "init runs: wait", in: input(aPod(inits("i", "j")), 2, attempt(0, true, runs("i", 0, 1))), phase: "Pending",
		},
		{
			name: "init done: the next", in: input(aPod(inits("i", "j")), 2, attempt(0, true, ran1("i", 0, 1, 2, 0))),
			want: []string{"start container j attempt 0"}, phase: "Pending",
		},
		{
			name: "all init done: the apps",
			in:   input(aPod(inits("i", "j")), 3, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("j", 0, 2, 3, 0))),
			want: []string{"start container a attempt 0"}, phase: "Pending",
		},
		{
			name: "init fails, Always: again at once",
			in:   input(aPod(inits("i"), always), 3, attempt(0, true, ran1("i", 0, 1, 2, 1))),
			want: []string{"start container i attempt 1"}, phase: "Pending",
		},
		{
			name: "init fails, OnFailure: again at once",
			in:   input(aPod(inits("i"), onFailure), 3, attempt(0, true, ran1("i", 0, 1, 2, 1))),
			want: []string{"start container i attempt 1"}, phase: "Pending",
		},
		{
			name: "init fails, Never: the pod failed and its sandbox ends",
			in:   input(aPod(inits("i"), never), 3, attempt(0, true, ran1("i", 0, 1, 2, 1))),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed",
		},
		{
			name: "init containers are not looked at once an app container was made",
			in:   input(aPod(inits("i")), 3, attempt(0, true, runs("a", 0, 2))), phase: "Running",
		},
		{
			name: "exit 0, Always: again", in: input(aPod(always), 3, attempt(0, true, ran1("a", 0, 1, 2, 0))),
			want: []string{"start container a attempt 1"}, phase: "Running",
		},
		{
			name: "exit 0, OnFailure: succeeded", in: input(aPod(onFailure), 3, attempt(0, true, ran1("a", 0, 1, 2, 0))),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Succeeded",
		},
		{
			name: "exit 1, OnFailure: again", in: input(aPod(onFailure), 3, attempt(0, true, ran1("a", 0, 1, 2, 1))),
			want: []string{"start container a attempt 1"}, phase: "Running",
		},
		{
			name: "exit 1, Never: failed", in: input(aPod(never), 3, attempt(0, true, ran1("a", 0, 1, 2, 1))),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed",
		},
		{
			name:  "one of two done, Never: the other goes on",
			in:    input(aPod(never, apps("a", "b")), 3, attempt(0, true, ran1("a", 0, 1, 2, 1), runs("b", 0, 1))),
			phase: "Running",
		},
		{
			name: "made but not started: the same attempt again",
			in:   input(aPod(), 3, attempt(0, true, made("a", 3))),
			want: []string{"start container a attempt 3"}, phase: "Pending",
		},
		{
			name: "crash loop: wait out the backoff",
			in:   input(aPod(), 9, attempt(0, true, ran1("a", 1, 5, 8, 1))),
			mem: func(m *Memory) {
				m.Backoff[key("a")] = Backoff{Delay: 10 * time.Second, Last: at(5)}
			},
			phase: "Running", wake: 18,
		},
		{
			name: "crash loop: backoff over",
			in:   input(aPod(), 18, attempt(0, true, ran1("a", 1, 5, 8, 1))),
			mem: func(m *Memory) {
				m.Backoff[key("a")] = Backoff{Delay: 10 * time.Second, Last: at(5)}
			},
			want: []string{"start container a attempt 2"}, phase: "Running",
		},
		{
			name: "crash after ten minutes of running: no backoff",
			in:   input(aPod(), 700, attempt(0, true, ran1("a", 1, 5, 699, 1))),
			mem: func(m *Memory) {
				m.Backoff[key("a")] = Backoff{Delay: 5 * time.Minute, Last: at(5)}
			},
			want: []string{"start container a attempt 2"}, phase: "Running",
		},
		{
			name: "sandbox died, Always: a new one, init anew, restart counts go on",
			in:   input(aPod(inits("i")), 9, attempt(0, false, ran1("i", 0, 1, 2, 0), ran1("a", 2, 2, 8, 137))),
			want: []string{"launch attempt 1", "start container i attempt 1"}, phase: "Running",
		},
		{
			name: "sandbox died, Never: failed, nothing left to stop",
			in:   input(aPod(never), 9, attempt(0, false, ran1("a", 0, 2, 8, 137))), phase: "Failed",
		},
		{
			name: "sandbox died under a container that still runs: end it first",
			in:   input(aPod(), 9, attempt(0, false, runs("a", 0, 2))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running",
		},
		{
			name: "the runtime says that the sandbox is dead: end it first",
			in:   input(aPod(), 9, sandboxDead(attempt(0, true, runs("a", 0, 2)))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running",
		},
		{
			name: "vanished from the remote, Always: the next attempt",
			in:   input(aPod(running(2)), 9),
			want: []string{"launch attempt 0", "start container a attempt 3"}, phase: "Running",
		},
		{
			name: "vanished with a start on its way: that could land in a sandbox of the same number",
			in:   input(aPod(inits("i"), running(0), initDone), 9), mem: func(m *Memory) { m.LostStarts["a"] = at(8) },
			phase: "Running", wake: 13,
		},
		{
			name: "vanished, and the start has settled: its init containers run again",
			in:   input(aPod(inits("i"), running(0), initDone), 14), mem: func(m *Memory) { m.LostStarts["a"] = at(8) },
			want: []string{"launch attempt 0", "start container i attempt 1"}, phase: "Running",
		},
		{
			name: "the sandbox is dead and a start is on its way: that cannot land in the next",
			in:   input(aPod(), 9, attempt(0, false)), mem: func(m *Memory) { m.LostStarts["a"] = at(8) },
			want: []string{"launch attempt 1", "start container a attempt 0"}, phase: "Pending",
		},
		{
			name: "vanished from the remote, Never: failed, not run twice",
			in:   input(aPod(never, running(0)), 9), phase: "Failed",
		},
		{
			name: "a launch without a reply is launched again under its number",
			in:   input(aPod(), 9), mem: func(m *Memory) { m.Lost[0] = at(8) },
			want: []string{"launch attempt 0", "start container a attempt 0"}, phase: "Pending",
		},
		{
			name: "the next attempt waits until a lost launch of the one before has settled",
			in:   task(input(aPod(), 9, attempt(0, false, ran1("a", 0, 1, 2, 1)))), mem: func(m *Memory) { m.Lost[0] = at(8) },
			phase: "Running", wake: 13,
		},
		{
			name: "a lost launch whose sandbox is listed, dead after a reboot: the next attempt at once",
			in:   input(aPod(), 9, attempt(0, false)), mem: func(m *Memory) { m.Lost[0] = at(8) },
			want: []string{"launch attempt 1", "start container a attempt 0"}, phase: "Pending",
		},
		{
			name:  "the dead sandbox keeps the name of a lost launch taken until it settled",
			in:    input(aPod(), 9, attempt(0, false), attempt(1, true, runs("a", 0, 8))),
			mem:   func(m *Memory) { m.Lost[0] = at(8) },
			phase: "Running", wake: 13,
		},
		{
			name: "settled: the dead sandbox goes",
			in:   input(aPod(), 14, attempt(0, false), attempt(1, true, runs("a", 0, 8))),
			mem:  func(m *Memory) { m.Lost[0] = at(8) },
			want: []string{"remove attempt 0"}, phase: "Running",
		},
		{
			name: "kubelet-behaviours 14: the sandbox is lost, its init containers run again",
			in:   input(aPod(inits("i"), running(0), initDone), 9),
			want: []string{"launch attempt 0", "start container i attempt 1"}, phase: "Running",
		},
		{
			name: "a failed launch waits", in: input(aPod(), 9),
			mem:   func(m *Memory) { m.Failures[podKey] = Failure{At: at(8), Delay: 4 * time.Second} },
			phase: "Pending", wake: 12,
		},
		{
			name: "a launch that is not supported fails the pod", in: input(aPod(), 9),
			mem:   func(m *Memory) { m.Failures[podKey] = Failure{Class: "Unsupported", Reason: "X", At: at(8)} },
			phase: "Failed",
		},
		{
			name:  "a failed pull waits and wakes to say that it backs off",
			in:    input(aPod(), 9, attempt(0, true)),
			mem:   func(m *Memory) { m.Failures["a"] = Failure{Reason: "ErrImagePull", At: at(8), Delay: 10 * time.Second} },
			phase: "Pending", wake: 13,
		},
		{
			name: "all but one dead attempt of a container and two attempts of the pod are collected",
			in: input(aPod(), 30, attempt(0, false), attempt(1, false, ran1("a", 0, 1, 2, 1)),
				attempt(2, true, ran1("a", 1, 3, 4, 1), runs("a", 2, 5))),
			want: []string{"remove attempt 0", "remove container a attempt 0"}, phase: "Running",
		},
		{
			name: "a dead attempt that holds nothing is collected",
			in:   input(aPod(), 30, attempt(0, false), attempt(1, true, runs("a", 0, 5))),
			want: []string{"remove attempt 0"}, phase: "Running",
		},
		{
			name: "deadline passed: failed and stopped",
			in:   input(aPod(deadline(5), running(0)), 9, attempt(0, true, runs("a", 0, 1))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Failed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.decide(t) })
	}
}

func sandboxDead(p backend.PodFacts) backend.PodFacts {
	p.Reason = backend.SandboxNotReady
	return p
}

func key(name string) string {
	return loopOf(podContainer{Container: &corev1.Container{Name: name, Image: "img"}})
}

// running is a pod that the API holds as Running with restarts.
func running(restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		started := metav1.NewTime(t0)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started}
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, ContainerID: "rt://old", RestartCount: restarts,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			})
		}
	}
}

// initDone is an init container that ended well, for all that the API knows.
func initDone(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "i", ContainerID: "rt://gone", Ready: true,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
	}}
}

func task(in Input) Input { in.Containers = false; return in }

func deadline(s int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &s }
}

// TestPodUnit reads as the rules for backends whose unit of restart is the pod.
func TestPodUnit(t *testing.T) {
	never, onFailure := policy("Never"), policy("OnFailure")
	pullFailed := func(n int) backend.ContainerFacts {
		c := ran1("a", n, 0, 2, 0)
		c.StartedAt, c.Reason = time.Time{}, "ErrImagePull"
		return c
	}
	for _, tt := range []planCase{
		{name: "new pod", in: input(aPod(inits("i")), 0), want: []string{"launch attempt 0"}, phase: "Pending"},
		{name: "provisioning", in: input(aPod(), 1, attempt(0, true, made("a", 0))), phase: "Pending"},
		{name: "runs", in: input(aPod(), 1, attempt(0, true, runs("a", 0, 1))), phase: "Running"},
		{
			name: "crashed, Always: the next attempt at once",
			in:   input(aPod(), 3, attempt(0, false, ran1("a", 0, 1, 2, 1))), want: []string{"launch attempt 1"},
			phase: "Running",
		},
		{
			name: "crashed again: backoff", in: input(aPod(), 3, attempt(1, false, ran1("a", 1, 1, 2, 1))),
			mem:   func(m *Memory) { m.Backoff[key("a")] = Backoff{Delay: 10 * time.Second, Last: at(1)} },
			phase: "Running", wake: 12,
		},
		{
			name: "exit 0, OnFailure", in: input(aPod(onFailure), 3, attempt(0, false, ran1("a", 0, 1, 2, 0))),
			phase: "Succeeded",
		},
		{name: "exit 1, Never", in: input(aPod(never), 3, attempt(0, false, ran1("a", 0, 1, 2, 1))), phase: "Failed"},
		{
			name:  "init failed, Never",
			in:    input(aPod(never, inits("i")), 3, attempt(0, false, ran1("i", 0, 1, 2, 1), made("a", 0))),
			phase: "Failed",
		},
		{
			name: "init failed, OnFailure: again",
			in:   input(aPod(onFailure, inits("i")), 3, attempt(0, false, ran1("i", 0, 1, 2, 1), made("a", 0))),
			want: []string{"launch attempt 1"}, phase: "Pending",
		},
		{
			name: "one of two crashed: the attempt ends, then the next",
			in:   input(aPod(apps("a", "b")), 3, attempt(0, true, ran1("a", 0, 1, 2, 1), runs("b", 0, 1))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running",
		},
		{
			name:  "one of two crashed, Never: the other goes on",
			in:    input(aPod(never, apps("a", "b")), 3, attempt(0, true, ran1("a", 0, 1, 2, 1), runs("b", 0, 1))),
			phase: "Running",
		},
		{
			name: "image cannot be pulled, Never: not failed, tried again after a wait",
			in:   input(aPod(never), 3, attempt(0, false, pullFailed(0))), phase: "Pending", wake: 7,
		},
		{
			name: "image cannot be pulled: tried again", in: input(aPod(never), 12, attempt(0, false, pullFailed(0))),
			want: []string{"launch attempt 1"}, phase: "Pending",
		},
		{
			name: "the remote forgot it: the next attempt has a number of its own", in: input(aPod(running(2)), 9),
			want: []string{"launch attempt 3"}, phase: "Running",
		},
		{name: "the remote forgot it, Never", in: input(aPod(never, running(0)), 9), phase: "Failed"},
		{
			name: "the remote forgot it while a twin of its launch was on its way: not that number again",
			in:   input(aPod(running(0)), 9), mem: func(m *Memory) { m.Lost[0] = at(8) }, phase: "Running", wake: 13,
		},
	} {
		tt.in.Containers = false
		t.Run(tt.name, func(t *testing.T) { tt.decide(t) })
	}
}
