package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// realExecEnds: a command is ended where it runs, whether its time is over or its caller
// leaves: a probe of every second would otherwise fill the container. It has begun by
// then: a call that ends while containerd 1.6 starts its command may leave the command
// running, which nobody but containerd could end.
func realExecEnds(t *testing.T, w *realWorld) {
	ref := w.start(t, testPod("real-exec"), "sleep 3600 & wait")
	c := &execs{w, backend.ContainerRef{Pod: ref, Name: "main"}}
	t.Run("its caller leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := c.begin(ctx, "sleep 4321")
		eventually(t, "the command runs", func() bool { return c.runs(t, "sleep 4321") })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
		eventually(t, "the command is gone", func() bool { return !c.runs(t, "sleep 4321") })
	})
	t.Run("its time is over", func(t *testing.T) {
		// Twice the time when it was too short for the command to begin.
		for limit := time.Second; !c.endsInTime(t, limit); limit *= 2 {
			if limit > time.Minute {
				t.Fatalf("a command does not begin within %v", limit)
			}
		}
	})
	if !c.runs(t, "sleep 3600") {
		t.Error("the container's own process is gone")
	}
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}

// execs runs commands in a container.
type execs struct {
	*realWorld
	in backend.ContainerRef
}

// begin runs a command until the context ends, and says how it ended.
func (e *execs) begin(ctx context.Context, command string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := e.remote.sessions.Exec(ctx, e.in, backend.ExecSpec{Command: strings.Fields(command)})
		ended <- err
	}()
	return ended
}

// runs is true while the command is among the container's processes.
func (e *execs) runs(t *testing.T, command string) bool {
	t.Helper()
	var out bytes.Buffer
	_, err := e.remote.sessions.Exec(t.Context(), e.in, backend.ExecSpec{Command: []string{"ps"}, Stdout: &out})
	must(t, err)
	return strings.Contains(out.String(), command)
}

// endsInTime runs a command with a limit, and is false when it was not seen to run.
func (e *execs) endsInTime(t *testing.T, limit time.Duration) (ran bool) {
	t.Helper()
	command := fmt.Sprintf("sleep 432%d", limit/time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ended := e.begin(ctx, command)
	for !ran && ctx.Err() == nil {
		ran = e.runs(t, command)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	if ran {
		eventually(t, "the command is gone", func() bool { return !e.runs(t, command) })
	}
	return ran
}

func realEphemeral(t *testing.T, w *realWorld) {
	pod := testPod("real-debug")
	ref := w.start(t, pod, "exec sleep 4321")
	spec := backend.ContainerSpec{Pod: pod, Container: pod.Spec.Containers[0], Target: "main", Hash: "h"}
	spec.Container.Name, spec.Container.Command = "debug", []string{"sleep", "1234"}
	must(t, containers{w.remote}.Start(t.Context(), ref, spec))
	for _, want := range []string{"sleep 4321", "sleep 1234"} {
		eventually(t, want+" is among the processes", func() bool {
			var out bytes.Buffer
			_, err := w.remote.sessions.Exec(
				t.Context(), backend.ContainerRef{Pod: ref, Name: "debug"}, backend.ExecSpec{Command: []string{"ps"}, Stdout: &out},
			)
			must(t, err)
			return strings.Contains(out.String(), want)
		})
	}
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}
