package cri

import (
	"os"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
	testimages "github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// TestRealLeadersOverSSH: two processes lead one node, each with a helper on its host. The
// first is refused once the second has come, also by a helper that it starts after that;
// and nothing of them is left when the node goes.
func TestRealLeadersOverSSH(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	h := remotehost.ForTest(t)
	lead := func(name string) *backend.Backend {
		cfg := sshConfig(h)
		cfg.Leader = name
		b, err := New(cfg, backend.Always)
		must(t, err)
		background.Run(t, b.RunFreely)
		return b
	}
	ctx := t.Context()
	a := lead("a")
	pod := testPod("led")
	c := pod.Spec.Containers[0]
	c.Image, c.Command = testimages.BusyboxRef, []string{"sh", "-c", "echo began; exec sleep 1000"}
	launched := launchSpec(pod, 0)
	retried(t, "launch", func() error { return a.Pods.Launch(ctx, ctx, launched) })
	must(t, a.Confirm(ctx))
	b := lead("b")
	retried(t, "the second takes the node", func() error { return b.Confirm(ctx) })
	spec := backend.ContainerSpec{Pod: pod, Container: c, Hash: "h"}
	refused := func(when string) {
		t.Helper()
		for what, err := range map[string]error{
			"confirm": a.Confirm(ctx),
			"start":   a.Containers.Start(ctx, launched.Ref(), spec),
			"launch":  a.Pods.Launch(ctx, ctx, launchSpec(testPod("other"), 0)),
			"remove":  a.Pods.Remove(ctx, launched.Ref()),
		} {
			if backend.Class(err) != "Superseded" {
				t.Errorf("%s: %s of the first: %v (%s)", when, what, err, backend.Class(err))
			}
		}
	}
	refused("when the second has come")
	h.Link().Reset()
	eventually(t, "the first reaches the host again", func() bool { return backend.Class(a.Confirm(ctx)) == "Superseded" })
	refused("with a new helper")
	retried(t, "start", func() error { return b.Containers.Start(ctx, launched.Ref(), spec) })
	retried(t, "remove", func() error {
		for {
			if err := b.Pods.Remove(ctx, launched.Ref()); err != nil {
				if backend.Class(err) == "NotFound" {
					return nil
				}
				return err
			}
		}
	})
	if _, err := b.Sweep(ctx); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(h.Path(sshConfig(h).WithDefaults().PodsDir))
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".leader-") {
			t.Errorf("left on the host: %s", e.Name())
		}
	}
}
