package cri

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// TestSignals: one host operation tells what the host has left, and asks for no pod.
func TestSignals(t *testing.T) {
	_, r, h := measuring(t, host.PodUsage{})
	ctx := t.Context()
	whole := h.usage
	h.usage = func(req host.UsageRequest) (host.Usage, error) {
		u, err := whole(req)
		u.MaxProcesses, u.ImagesApart, u.PodsCgroup = 100, true, &host.CgroupUsage{WorkingSet: new(uint64(20))}
		return u, err
	}
	got, err := r.stats.Signals(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := backend.SignalFacts{
		Memory: &backend.Level{Available: 70, Capacity: 100}, PodsMemory: new(uint64(20)),
		NodeFS: &backend.Level{Available: 400, Capacity: 1000}, NodeFSInodes: &backend.Level{Available: 4, Capacity: 10},
		ImageFS: &backend.Level{Available: 1500, Capacity: 2000}, DedicatedImageFS: true,
		PIDs: &backend.Level{Available: 23, Capacity: 100},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(backend.SignalFacts{}, "Time")); diff != "" {
		t.Error(diff)
	}
	if age := time.Since(got.Time); age.Abs() > time.Minute {
		t.Errorf("measured %v ago, by our clock", age)
	}
	asked := host.UsageRequest{
		Root: r.cfg.PodsDir, Images: fakecri.ImagesPath, PodsCgroup: host.Cgroup{Parent: "/" + r.cfg.CgroupParent},
	}
	if diff := cmp.Diff(asked, h.last()); diff != "" {
		t.Errorf("asked for: %s", diff)
	}
	h.usage = func(host.UsageRequest) (host.Usage, error) {
		return host.Usage{}, backend.Errorf(backend.ErrUnavailable, "down")
	}
	if _, err := r.stats.Signals(ctx); backend.Class(err) != "Unavailable" {
		t.Errorf("a host that is away: %v", err)
	}
}

// TestTopCgroup: it is above those of pods, in the words of both drivers.
func TestTopCgroup(t *testing.T) {
	for driver, want := range map[string]host.Cgroup{
		CgroupDriverCgroupfs: {Parent: "/top-most"}, CgroupDriverSystemd: {Parent: "top_most.slice", Systemd: true},
	} {
		if diff := cmp.Diff(want, convert.TopCgroup(driver, "top-most")); diff != "" {
			t.Errorf("%s: %s", driver, diff)
		}
	}
}
