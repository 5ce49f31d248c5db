package ecs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

// failing launches a container with a policy that runs a script.
func failing(
	t *testing.T, b backend.Backend, name string, policy corev1.TerminationMessagePolicy, script string,
) backend.ContainerRef {
	t.Helper()
	pod := podOf(name, "sh", "-c", script)
	pod.Spec.Containers[0].TerminationMessagePolicy = policy
	spec := specOf(pod, 0)
	must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
	return backend.ContainerRef{Pod: spec.Ref(), Name: "app"}
}

// lastWords are the facts once a container was seen to end, and a while later.
func lastWords(t *testing.T, b backend.Backend, ref backend.ContainerRef) (first, then backend.ContainerFacts) {
	t.Helper()
	for first = look(t, b, ref); first.State() != backend.Exited; first = look(t, b, ref) {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(reportLast + time.Second)
	return first, look(t, b, ref)
}

func TestAFailedContainersMessageIsTheEndOfItsLog(t *testing.T) {
	const fallback, file = corev1.TerminationMessageFallbackToLogsOnError, corev1.TerminationMessageReadFile
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}
	long := strings.Repeat("ä", 2000) // two bytes each
	for name, tc := range map[string]struct {
		policy       corev1.TerminationMessagePolicy
		script, want string
	}{
		"it failed":                       {fallback, "echo one; sleep 10; echo two; exit 3", "one\ntwo\n"},
		"kubelet-behaviours 15: 80 lines": {fallback, "seq 500; exit 1", numbers(421, 500)},
		"kubelet-behaviours 15: 2 KiB":    {fallback, "echo " + long + "; exit 1", long[:2*1023] + "\n"},
		"out of memory: what AWS says before": {
			fallback, "echo hungry; oom", "OutOfMemoryError: Container killed due to memory usage: hungry\n",
		},
		"it wrote nothing":                      {fallback, "exit 1", ""},
		"it succeeded":                          {fallback, "echo one; exit 0", ""},
		"by its policy nobody looks at a log":   {file, "echo one; exit 1", ""},
		"the default policy looks at a file":    {"", "echo one; exit 1", ""},
		"a log that ends without an end":        {fallback, "echo one; false", "one\n"},
		"it failed at once, its log comes late": {fallback, "echo one; exit 1", "one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
				defer background.Run(t, b.RunFreely)()
				first, then := lastWords(t, b, failing(t, b, "p", tc.policy, tc.script))
				if first.ExitCode != then.ExitCode || strings.Contains(first.Message, "one") {
					t.Errorf("first %+v, then %+v", first, then)
				}
				if then.Message != tc.want {
					t.Errorf("%q, want %q", then.Message, tc.want)
				}
			})
		})
	}
}

// A listing, and the end itself, wait for no log.
func TestAMessageDelaysNothing(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		defer background.Run(t, b.RunFreely)()
		s.Inject(stub.Fault{Service: "logs", Action: "GetLogEvents", Code: "ThrottlingException", Times: 30})
		ref := failing(t, b, "p", corev1.TerminationMessageFallbackToLogsOnError, "sleep 10; echo late; exit 1")
		for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(time.Second) {
			at := time.Now()
			_, err := b.Pods.List(t.Context())
			must(t, err)
			if took := time.Since(at); took > 0 {
				t.Fatalf("a listing took %s", took)
			}
			c := look(t, b, ref)
			if up := time.Since(begun); up > 12*time.Second && c.ExitCode != 1 {
				t.Fatalf("after %s: %+v", up, c)
			}
		}
		if c := look(t, b, ref); c.Message != "late\n" {
			t.Errorf("it was not asked for again: %q", c.Message)
		}
	})
}

func TestAMessageIsReadOnceAndAgainAfterARestart(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		end := background.Run(t, b.RunFreely)
		ref := failing(t, b, "p", corev1.TerminationMessageFallbackToLogsOnError, "echo bye; exit 1")
		if _, then := lastWords(t, b, ref); then.Message != "bye\n" {
			t.Fatalf("%q", then.Message)
		}
		reads := s.Calls()["GetLogEvents"]
		time.Sleep(10 * time.Minute)
		look(t, b, ref)
		if n := s.Calls()["GetLogEvents"]; n != reads {
			t.Errorf("it was read %d times, then %d", reads, n)
		}
		end()
		cfg := richConfig(s)
		cfg.LogGroup = testGroup
		b = open(t, cfg)
		defer background.Run(t, b.RunFreely)()
		_, err := b.Pods.List(t.Context())
		must(t, err)
		time.Sleep(time.Second)
		if c := look(t, b, ref); c.Message != "bye\n" {
			t.Errorf("after a restart: %q", c.Message)
		}
		if n := s.Calls()["GetLogEvents"]; n != reads+1 {
			t.Errorf("after a restart it was read %d times", n-reads)
		}
	})
}

func TestALogThatCannotBeReadIsSaid(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		defer background.Run(t, b.RunFreely)()
		s.Deny(stub.Denial{Principal: stub.Caller, Action: "logs:GetLogEvents", Resource: "*"})
		_, then := lastWords(t, b, failing(t, b, "p", corev1.TerminationMessageFallbackToLogsOnError, "echo bye; exit 1"))
		if !strings.HasPrefix(then.Message, "Error on reading termination message from logs: ") {
			t.Errorf("%q", then.Message)
		}
	})
}

// Who was removed meanwhile is not asked for.
func TestNobodyReadsForAPodThatIsGone(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		defer background.Run(t, b.RunFreely)()
		ref := failing(t, b, "p", corev1.TerminationMessageFallbackToLogsOnError, "echo bye; exit 1")
		for look(t, b, ref).State() != backend.Exited {
			time.Sleep(100 * time.Millisecond)
		}
		for backend.Class(b.Pods.Remove(t.Context(), ref.Pod)) != "NotFound" {
			time.Sleep(100 * time.Millisecond)
		}
		reads := s.Calls()["GetLogEvents"]
		time.Sleep(time.Minute)
		if n := s.Calls()["GetLogEvents"]; n > reads {
			t.Errorf("%d calls, then %d", reads, n)
		}
	})
}

// A supervisor's report is for the facts, and nobody reads it in the log.
func TestAReportIsReadAndHidden(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		defer background.Run(t, b.RunFreely)()
		report := "\x1eburstlet " + `{"exit":0,"message":"bye","reason":"OOMKilled","probe":"Liveness probe failed: no"}`
		ref := failing(t, b, "p", corev1.TerminationMessageReadFile, "echo one; echo '"+report+"'; exit 1")
		_, then := lastWords(t, b, ref)
		if then.Message != "bye" || then.Killed != "Liveness probe failed: no" || !then.OOM || then.ExitCode != 1 {
			t.Errorf("%+v", then)
		}
		one := int64(1)
		for _, opts := range []backend.LogOptions{{}, {Tail: &one}, {Follow: true}} {
			if got := readAll(t, b, ref, opts); got != "one\n" {
				t.Errorf("%+v: %q", opts, got)
			}
		}
		ref = failing(
			t, b, "r", corev1.TerminationMessageFallbackToLogsOnError,
			"echo one; echo two; echo '\x1eburstlet "+`{"exit":4,"fromLogs":true}`+"'; exit 4",
		)
		if _, then = lastWords(t, b, ref); then.Message != "one\ntwo\n" {
			t.Errorf("the end of the log: %+v", then)
		}
		ref = failing(t, b, "q", corev1.TerminationMessageReadFile, "echo '\x1eburstlet "+
			`{"exit":137,"reason":"PostStartHookError","hook":{"what":"Exec lifecycle hook ([x])","why":"no"}}`+"'; exit 1")
		_, then = lastWords(t, b, ref)
		want := `Exec lifecycle hook ([x]) for Container "app" in Pod "q_ns(uid-of-q)" failed - no`
		if then.HookFailed != "PostStart" || then.Message != want || then.Reason != "PostStartHookError" {
			t.Errorf("%+v", then)
		}
	})
}
