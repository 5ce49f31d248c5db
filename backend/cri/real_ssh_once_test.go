package cri

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
	testimages "github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// TestRealStartsAreMadeOnce: the connection to the host breaks while containerd starts a
// container. However often its start is asked for again, it runs once, and to its end.
func TestRealStartsAreMadeOnce(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	const enough, most = 4, 60 // starts that are cut, and that are tried for it
	h := remotehost.ForTest(t)
	b, err := New(sshConfig(h), backend.Always)
	must(t, err)
	background.Run(t, b.RunFreely)
	draw := rand.New(rand.NewPCG(linkSeedOf(t), 3))
	cut := 0
	for i := 0; cut < enough; i++ {
		if i == most {
			t.Fatalf("%d of %d starts were cut, want %d", cut, most, enough)
		}
		pod := testPod(fmt.Sprintf("once-%d", i))
		c := pod.Spec.Containers[0]
		c.Image, c.Command = testimages.BusyboxRef, []string{"sh", "-c", "echo began; sleep 0.3; echo ended"}
		launched := launchSpec(pod, 0)
		retried(t, "launch", func() error { return b.Pods.Launch(t.Context(), t.Context(), launched) })
		spec := backend.ContainerSpec{Pod: pod, Container: c, Hash: "h"}
		resets := time.AfterFunc(time.Duration(draw.Int64N(int64(200*time.Millisecond))), h.Link().Reset)
		if err := b.Containers.Start(t.Context(), launched.Ref(), spec); err != nil {
			cut++
		}
		resets.Stop()
		retried(t, "start", func() error { return b.Containers.Start(t.Context(), launched.Ref(), spec) })
		var end backend.ContainerFacts
		eventually(t, "the container ends", func() bool {
			facts, err := b.Pods.Inspect(t.Context(), []types.UID{pod.UID})
			if err != nil || len(facts) != 1 || len(facts[0].Containers) != 1 {
				return false
			}
			end = facts[0].Containers[0]
			return end.State() == backend.Exited
		})
		log, err := os.ReadFile(h.Path(fmt.Sprintf("/var/log/pods/ns_%s_%s/main/0.log", pod.Name, pod.UID)))
		must(t, err)
		if began, ended := strings.Count(string(log), "began"), strings.Count(string(log), "ended"); began != 1 ||
			ended != 1 || end.ExitCode != 0 {
			t.Errorf(
				"pod %d: it began %d times and ended %d times, with code %d (%s: %s)", i, began, ended, end.ExitCode, end.Reason,
				end.Message,
			)
		}
	}
}

// retried repeats a call while the host is away, as the engine does.
func retried(t *testing.T, what string, call func() error) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", what, last)
		}
	}()
	eventually(t, what, func() bool { last = call(); return last == nil })
}
