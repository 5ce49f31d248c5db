package backendtest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func exitCodes(s *suite) {
	programs, codes := []program{succeed, fail, exitWith(3)}, []int32{0, 1, 3}
	for len(programs) > 0 {
		some := s.upTo(programs...)
		f := s.awaitExited(s.run(s.pod(some...), 0))
		for i := range some {
			c := s.facts(f, fmt.Sprint("c", i), 0)
			if c.NeverRan() || c.ExitCode != codes[i] || c.OOM {
				s.Errorf("%s: %+v, want exit code %d", c.Name, c, codes[i])
			}
		}
		programs, codes = programs[len(some):], codes[len(some):]
	}
}

func exitTimes(s *suite) {
	before := time.Now().Add(-s.f.Slack)
	f := s.awaitExited(s.run(s.pod(exitAfter(1, 0)), 0))
	after := time.Now().Add(s.f.Slack)
	c := s.facts(f, "c0", 0)
	s.wantOrder(map[string]time.Time{"the call": before, "CreatedAt": f.CreatedAt.Add(s.f.Slack)}, "the call", "CreatedAt")
	s.wantOrder(map[string]time.Time{
		"CreatedAt": c.CreatedAt.Add(-s.f.Slack), "StartedAt": c.StartedAt,
		"FinishedAt": c.FinishedAt.Add(s.f.Slack), "the reading": after.Add(s.f.Slack),
	}, "CreatedAt", "StartedAt", "FinishedAt", "the reading")
	if ran := c.FinishedAt.Sub(c.StartedAt); ran < time.Second-s.f.Slack {
		s.Errorf("ran for %v, want 1s", ran)
	}
}

// wantOrder reports times that are not in the order of their names.
func (s *suite) wantOrder(times map[string]time.Time, order ...string) {
	s.Helper()
	for i := 1; i < len(order); i++ {
		a, b := times[order[i-1]], times[order[i]]
		if b.Before(a) {
			s.Errorf("%s (%v) is before %s (%v)", order[i], b, order[i-1], a)
		}
	}
}

func exitOfOne(s *suite) {
	ref := s.run(s.pod(exitWith(4), untilTerm), 0)
	f := s.await(ref, "c0 exited and c1 runs", func(f backend.PodFacts) bool {
		return len(f.Containers) == 2 && f.Containers[0].State() == backend.Exited &&
			f.Containers[1].State() == backend.Running
	})
	if c := s.facts(f, "c0", 0); c.ExitCode != 4 {
		s.Errorf("exit code %d, want 4", c.ExitCode)
	}
	s.pause(settle)
	f = s.only(ref.UID)
	if c := s.facts(f, "c1", 0); !f.Live || c.State() != backend.Running {
		s.Errorf("c1 ended with c0: %+v", f)
	}
}

func exitOfAll(s *suite) {
	f := s.awaitDead(s.run(s.pod(s.upTo(exitAfter(1, 6), succeed)...), 0))
	if !allAppsIn(f, backend.Exited) {
		s.Errorf("not live, but a container has not exited: %+v", f)
	}
	if c := s.facts(f, "c0", 0); c.ExitCode != 6 {
		s.Errorf("exit code %d, want 6", c.ExitCode)
	}
}

func initOrder(s *suite) {
	pod := s.withInit(s.pod(succeed), exitAfter(1, 0), exitAfter(1, 0))
	f := s.awaitDead(s.run(pod, 0))
	one, two, app := s.facts(f, "i0", 0), s.facts(f, "i1", 0), s.facts(f, "c0", 0)
	s.wantOrder(map[string]time.Time{
		"end of i0": one.FinishedAt.Add(-s.f.Slack), "start of i1": two.StartedAt,
	}, "end of i0", "start of i1")
	s.wantOrder(map[string]time.Time{
		"end of i1": two.FinishedAt.Add(-s.f.Slack), "start of c0": app.StartedAt,
	}, "end of i1", "start of c0")
	if app.StartedAt.IsZero() || app.ExitCode != 0 {
		s.Errorf("c0 after the init containers: %+v", app)
	}
}

func initFailure(s *suite) {
	pod := s.withInit(s.pod(untilTerm), exitWith(7), succeed)
	f := s.awaitDead(s.run(pod, 0))
	if c := s.facts(f, "i0", 0); c.ExitCode != 7 {
		s.Errorf("i0: %+v, want exit code 7", c)
	}
	for _, name := range []string{"i1", "c0"} {
		if c := s.facts(f, name, 0); !c.StartedAt.IsZero() {
			s.Errorf("%s ran after the failure of i0: %+v", name, c)
		}
	}
}

// initSidecar: an init container that is always restarted is not waited for, and
// ends when all app containers have.
func initSidecar(s *suite) {
	pod := s.withInit(s.pod(exitAfter(2, 0)), untilTerm, succeed)
	pod.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	if s.refuses(pod) {
		return
	}
	f := s.awaitDead(s.run(pod, 0))
	side, init, app := s.facts(f, "i0", 0), s.facts(f, "i1", 0), s.facts(f, "c0", 0)
	s.wantOrder(map[string]time.Time{
		"start of i0": side.StartedAt.Add(-s.f.Slack), "end of i1": init.FinishedAt,
		"end of c0": app.FinishedAt, "end of i0": side.FinishedAt.Add(s.f.Slack),
	}, "start of i0", "end of i1", "end of c0", "end of i0")
	if side.StartedAt.IsZero() || side.FinishedAt.IsZero() || app.StartedAt.IsZero() {
		s.Errorf("sidecar %+v, app %+v", side, app)
	}
}

// message runs a script to its end and wants a termination message, perhaps some
// time later: a remote's logs may be late.
func (s *suite) message(policy corev1.TerminationMessagePolicy, script, want string) {
	s.Helper()
	pod := s.pod(program{"sh", "-c", script})
	c := &pod.Spec.Containers[0]
	c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.TerminationMessagePathDefault, policy
	if s.refuses(pod) {
		return
	}
	ref := s.run(pod, 0)
	s.awaitExited(ref)
	s.await(ref, fmt.Sprintf("%q: message %q", script, want), func(f backend.PodFacts) bool {
		return s.facts(f, "c0", 0).Message == want
	})
}

func messageOfFile(s *suite) {
	for script, want := range map[string]string{
		"echo log; echo -n bye > /dev/termination-log; exit 1": "bye",
		"echo -n done > /dev/termination-log; exit 0":          "done",
		"echo log; exit 1": "",
	} {
		s.message(corev1.TerminationMessageReadFile, script, want)
	}
}

func messageOfLog(s *suite) {
	for script, want := range map[string]string{"echo one; echo two; exit 1": "one\ntwo\n", "echo log; exit 0": ""} {
		s.message(corev1.TerminationMessageFallbackToLogsOnError, script, want)
	}
}

func messageOfFileBeforeLog(s *suite) {
	s.message(
		corev1.TerminationMessageFallbackToLogsOnError, "echo log; echo -n file > /dev/termination-log; exit 1", "file",
	)
}
