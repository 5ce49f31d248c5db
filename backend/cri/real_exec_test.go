package cri

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// A command is ended where it runs, whether its time is over or its caller
// leaves: a probe of every second would otherwise fill the container.
func TestRealExecEndsWithItsContext(t *testing.T) {
	w := newRealWorld(t)
	ref := w.start(t, testPod("real-exec"), "sleep 3600 & wait")
	c := backend.ContainerRef{Pod: ref, Name: "main"}
	running := func() string {
		var out bytes.Buffer
		_, err := commands{w.remote}.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"ps"}, Stdout: &out})
		must(t, err)
		return out.String()
	}
	for name, tt := range map[string]struct {
		make func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"its time is over": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 500*time.Millisecond)
		}, context.DeadlineExceeded},
		"its caller leaves": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(500*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := tt.make(t.Context())
			defer cancel()
			begun := time.Now()
			_, err := commands{w.remote}.Exec(ctx, c, backend.ExecSpec{Command: []string{"sleep", "4321"}})
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if took := time.Since(begun); took > 3*time.Minute {
				t.Errorf("it took %v to end", took)
			}
			eventually(t, "the command is gone", func() bool { return !strings.Contains(running(), "sleep 4321") })
		})
	}
	if !strings.Contains(running(), "sleep 3600") {
		t.Errorf("the container's own process is gone:\n%s", running())
	}
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}

func TestRealEphemeralContainerSeesItsTarget(t *testing.T) {
	w := newRealWorld(t)
	pod := testPod("real-debug")
	ref := w.start(t, pod, "exec sleep 4321")
	spec := backend.ContainerSpec{Pod: pod, Container: pod.Spec.Containers[0], Target: "main", Hash: "h"}
	spec.Container.Name, spec.Container.Command = "debug", []string{"sleep", "1234"}
	must(t, containers{w.remote}.Start(t.Context(), ref, spec))
	for _, want := range []string{"sleep 4321", "sleep 1234"} {
		eventually(t, want+" is among the processes", func() bool {
			var out bytes.Buffer
			_, err := commands{w.remote}.Exec(t.Context(), backend.ContainerRef{Pod: ref, Name: "debug"}, backend.ExecSpec{Command: []string{"ps"}, Stdout: &out})
			must(t, err)
			return strings.Contains(out.String(), want)
		})
	}
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}
