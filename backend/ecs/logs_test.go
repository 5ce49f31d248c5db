package ecs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/task"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

const testGroup = "/burstlet/pods"

const (
	// page is how many lines CloudWatch returns at once.
	page = 10000
	// pollIdle is how often a log is read at least that somebody follows.
	pollIdle = 2 * time.Second
)

// withLogs runs f in virtual time with a server and a backend that writes logs,
// which show three seconds late.
func withLogs(t *testing.T, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{
			LogGroups: []string{testGroup}, Delays: stub.Delays{Ingest: 3 * time.Second}, Throttles: true,
		})
		cfg := richConfig(s)
		cfg.LogGroup = testGroup
		f(t, s, open(t, cfg))
	})
}

// launchedPod is a launched pod and its container.
func launchedPod(t *testing.T, b backend.Backend, name string, attempt int, script string) backend.ContainerRef {
	t.Helper()
	spec := specOf(podOf(name, "sh", "-c", script), attempt)
	must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
	return backend.ContainerRef{Pod: spec.Ref(), Name: "app", Attempt: attempt}
}

// look has the facts read anew.
func look(t *testing.T, b backend.Backend, ref backend.ContainerRef) backend.ContainerFacts {
	t.Helper()
	facts, err := b.Pods.Inspect(t.Context(), uids(ref.Pod.Name))
	must(t, err)
	for _, f := range facts {
		if f.Attempt == ref.Pod.Attempt {
			return f.Containers[0]
		}
	}
	t.Fatal("it is not known")
	return backend.ContainerFacts{}
}

func readAll(t *testing.T, b backend.Backend, ref backend.ContainerRef, opts backend.LogOptions) string {
	t.Helper()
	r, err := b.Logs.Open(t.Context(), ref, opts)
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	return string(text)
}

func TestLogsOfAContainerThatHasJustEndedAreWhole(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		defer background.Run(t, b.RunFreely)()
		ref := launchedPod(t, b, "p", 0, "echo first; sleep 10; echo last; exit 3")
		for look(t, b, ref).State() != backend.Exited {
			time.Sleep(100 * time.Millisecond)
		}
		begun := time.Now()
		if got := readAll(t, b, ref, backend.LogOptions{}); got != "first\nlast\n" {
			t.Errorf("%q", got)
		}
		if took := time.Since(begun); took > task.LogLag+time.Second {
			t.Errorf("it took %s", took)
		}
		time.Sleep(time.Minute)
		begun = time.Now()
		if got := readAll(t, b, ref, backend.LogOptions{}); got != "first\nlast\n" || time.Since(begun) > time.Second {
			t.Errorf("later: %q after %s", got, time.Since(begun))
		}
	})
}

// Of a container that has just started the first lines are waited for, as long as
// CloudWatch may not show them.
func TestLogsOfAContainerThatHasJustStarted(t *testing.T) {
	for script, want := range map[string]string{"echo first; sleep 100000": "first\n", "sleep 100000": ""} {
		t.Run(script, func(t *testing.T) {
			withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
				ref := launchedPod(t, b, "p", 0, script)
				if st := look(t, b, ref).State(); st != backend.Running {
					t.Fatal(st)
				}
				begun := time.Now()
				if got := readAll(t, b, ref, backend.LogOptions{Tail: new(int64(0))}); got != "" ||
					time.Since(begun) > time.Second {
					t.Errorf("a tail of none: %q after %s", got, time.Since(begun))
				}
				if got := readAll(t, b, ref, backend.LogOptions{}); got != want {
					t.Errorf("%q", got)
				}
				if took := time.Since(begun); took > task.LogLag+time.Second {
					t.Errorf("it took %s", took)
				}
				time.Sleep(time.Minute)
				begun = time.Now()
				if got := readAll(t, b, ref, backend.LogOptions{}); got != want || time.Since(begun) > time.Second {
					t.Errorf("later: %q after %s", got, time.Since(begun))
				}
			})
		})
	}
}

func TestLogOptions(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		started := time.Now()
		ref := launchedPod(t, b, "p", 0, "echo a; sleep 10; echo b; sleep 10; echo c; sleep 100000")
		time.Sleep(time.Minute)
		look(t, b, ref)
		for _, c := range []struct {
			name string
			opts backend.LogOptions
			want string
		}{
			{"all", backend.LogOptions{}, "a\nb\nc\n"},
			{"tail", backend.LogOptions{Tail: new(int64(2))}, "b\nc\n"},
			{"tail of none", backend.LogOptions{Tail: new(int64(0))}, ""},
			{"tail of more than there is", backend.LogOptions{Tail: new(int64(100))}, "a\nb\nc\n"},
			{"since", backend.LogOptions{Since: started.Add(5 * time.Second)}, "b\nc\n"},
			{"since now", backend.LogOptions{Since: time.Now()}, ""},
			{"tail and since", backend.LogOptions{Tail: new(int64(2)), Since: started.Add(15 * time.Second)}, "c\n"},
			{"limit", backend.LogOptions{LimitBytes: new(int64(3))}, "a\nb"},
			{"limit of none", backend.LogOptions{LimitBytes: new(int64(0))}, ""},
			{
				"timestamps",
				backend.LogOptions{Timestamps: true, Tail: new(int64(1))},
				started.Add(20*time.Second).UTC().Format("2006-01-02T15:04:05.000000000Z") + " c\n",
			},
		} {
			if got := readAll(t, b, ref, c.opts); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	})
}

func TestALongLogIsReadPageByPage(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		const lines = 25_000
		ref := launchedPod(t, b, "p", 0, fmt.Sprintf("seq %d; sleep 100000", lines))
		time.Sleep(time.Minute)
		look(t, b, ref)
		if got := strings.Count(readAll(t, b, ref, backend.LogOptions{}), "\n"); got != lines {
			t.Errorf("%d lines", got)
		}
		for _, n := range []int64{10, page, page + 1, 2*page + 5} {
			got := strings.Split(readAll(t, b, ref, backend.LogOptions{Tail: &n}), "\n")
			if len(got) != int(n)+1 || got[0] != fmt.Sprint(lines-n+1) || got[n-1] != fmt.Sprint(lines) {
				t.Errorf("tail %d: %d lines from %s to %s", n, len(got)-1, got[0], got[len(got)-2])
			}
		}
	})
}

func TestAFollowedLogEndsWithItsContainer(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "echo a; sleep 60; echo b; sleep 60; echo c; exit 0")
		time.Sleep(10 * time.Second)
		look(t, b, ref)
		begun := time.Now()
		if got := readAll(t, b, ref, backend.LogOptions{Follow: true, Tail: new(int64(0))}); got != "b\nc\n" {
			t.Errorf("%q", got)
		}
		if took := time.Since(begun) - 110*time.Second; took < 0 || took > 20*time.Second {
			t.Errorf("it ended %s after the container", took)
		}
	})
}

func TestLinesAreSeenSoonAfterTheyCanBeRead(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "sleep 60; echo now; sleep 100000")
		started := time.Now()
		time.Sleep(10 * time.Second)
		look(t, b, ref)
		r, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{Follow: true})
		must(t, err)
		if _, err := io.ReadFull(r, make([]byte, len("now\n"))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started) - 68*time.Second; took > pollIdle+time.Second {
			t.Errorf("it came %s after it could be read", took)
		}
		must(t, r.Close())
	})
}

func TestManyWhoFollowShareTheCalls(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "while true; do echo x; sleep 2; done")
		time.Sleep(10 * time.Second)
		look(t, b, ref)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const followers = 30
		done := make(chan int, followers)
		for range followers {
			time.Sleep(30 * time.Millisecond) // each at its own time
			go func() {
				r, err := b.Logs.Open(ctx, ref, backend.LogOptions{Follow: true})
				if err != nil {
					done <- -1
					return
				}
				text, _ := io.ReadAll(r)
				done <- strings.Count(string(text), "x\n")
			}()
		}
		for range followers {
			if n := <-done; n < 28 {
				t.Errorf("one saw %d lines", n)
			}
		}
		if n := s.CallsWithin("GetLogEvents", time.Minute); n > 150 {
			t.Errorf("%d calls in a minute", n)
		}
		if n := s.Throttled()["GetLogEvents"]; n > 0 {
			t.Errorf("throttled %d times", n)
		}
	})
}

func TestTheLogOfThePreviousAttemptIsOfTheTaskBefore(t *testing.T) {
	withLogs(t, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		first := launchedPod(t, b, "p", 0, "echo one; exit 1")
		time.Sleep(time.Minute)
		second := launchedPod(t, b, "p", 1, "echo two; exit 1")
		time.Sleep(time.Minute)
		look(t, b, second)
		if got := readAll(t, b, first, backend.LogOptions{}) +
			readAll(t, b, second, backend.LogOptions{}); got != "one\ntwo\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestLogsThatCannotBeRead(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "sleep 100000")
		time.Sleep(10 * time.Second)
		look(t, b, ref)
		if got := readAll(t, b, ref, backend.LogOptions{}); got != "" {
			t.Errorf("nothing was written: %q", got)
		}
		other := ref
		other.Attempt = 7
		_, err := b.Logs.Open(t.Context(), other, backend.LogOptions{})
		wantClass(t, err, "NotFound")
		time.Sleep(time.Second)
		s.Deny(stub.Denial{Principal: stub.Caller, Action: "logs:GetLogEvents"})
		_, err = b.Logs.Open(t.Context(), ref, backend.LogOptions{})
		wantClass(t, err, "Denied")
		if !strings.Contains(err.Error(), "controller-policy.json") {
			t.Errorf("%v names no policy", err)
		}
	})
}

func TestAMissingGroupIsNamed(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "echo a; sleep 100000")
		time.Sleep(time.Minute)
		look(t, b, ref)
		_, err := sdkOf(t, s).Logs.DeleteLogGroup(
			t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String(testGroup)},
		)
		must(t, err)
		_, err = b.Logs.Open(t.Context(), ref, backend.LogOptions{})
		wantClass(t, err, "NotFound")
		if !strings.Contains(err.Error(), "backend.ecs.logGroup") {
			t.Error(err)
		}
	})
}

func TestAFollowerOutlivesAnOutage(t *testing.T) {
	withLogs(t, func(t *testing.T, s *stub.Server, b backend.Backend) {
		ref := launchedPod(t, b, "p", 0, "echo a; sleep 120; echo b; exit 0")
		time.Sleep(30 * time.Second)
		look(t, b, ref)
		s.Inject(stub.Fault{Action: "GetLogEvents", Skip: 2, Times: 60, Code: "ServiceUnavailableException", Status: 503})
		if got := readAll(t, b, ref, backend.LogOptions{Follow: true}); got != "a\nb\n" {
			t.Errorf("%q", got)
		}
	})
}
