package cri

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// keptHost counts what is done to keep it in bounds.
type keptHost struct {
	host.Host
	rotations, sweeps int
	strays            []host.Known
	// kept is how the last rotation is to go on.
	kept *host.Rotation
	// rotated is what each rotation rotates; failed, if it is set, how an undone one fails.
	rotated []string
	failed  error
	// undone are the logs that got their names back.
	undone []string
}

func (h *keptHost) Rotate(_ context.Context, r host.Rotation) ([]string, error) {
	if r.MaxSize == math.MaxInt64 {
		if h.failed == nil {
			h.undone = append(h.undone, r.Logs...)
		}
		return nil, h.failed
	}
	h.rotations++
	h.kept = &r
	return h.rotated, nil
}

func (h *keptHost) Sweep(context.Context, host.Sweep) error {
	h.sweeps++
	return nil
}

func (h *keptHost) Strays(_ context.Context, pods []host.Known) ([]string, error) {
	h.strays = pods
	return nil, nil
}

// TestHostLogsAskFirst: logs are rotated and removed only where something may be changed.
func TestHostLogsAskFirst(t *testing.T) {
	h := &keptHost{}
	r := &remote{host: h, hostLogs: &hostLogs{logs: map[string]string{"/log": "id"}, uids: []string{}, at: time.Now()}}
	for _, may := range []backend.Permit{nil, backend.Always} {
		r.rotateLogs(t.Context(), may)
		r.sweep(t.Context(), may)
		want := 0
		if may != nil {
			want = 1
		}
		if h.rotations != want || h.sweeps != want {
			t.Errorf("%d rotations, %d sweeps, want %d", h.rotations, h.sweeps, want)
		}
	}
}

// Nothing is removed by a listing that is not of late: what was made since is not in it.
func TestOnlyAFreshListingIsSweptBy(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
	h := &keptHost{}
	r.host = h
	r.sweep(t.Context(), backend.Always)
	if h.sweeps != 0 || h.strays != nil {
		t.Error("swept before the first listing")
	}
	_, err := pods{r}.List(t.Context())
	must(t, err)
	r.sweep(t.Context(), backend.Always)
	sandboxes := slices.Collect(maps.Keys(w.fake.Sandboxes()))
	if h.sweeps != 1 || len(h.strays) != 1 || !slices.Equal(h.strays[0].IDs, sandboxes) ||
		h.strays[0].Cgroup.Parent == "" {
		t.Errorf("swept %d times, strays beside %+v, want the sandbox %q", h.sweeps, h.strays, sandboxes)
	}
	r.hostLogs.at = r.hostLogs.at.Add(-sweepListing)
	r.sweep(t.Context(), backend.Always)
	if h.sweeps != 1 {
		t.Error("swept by an old listing")
	}
}

// TestHostKeepsLogsInBounds: a host that is reached over a link rotates by itself while that is
// down; each connection takes over, also where there is nothing to rotate, and ends it when
// the node goes.
func TestHostKeepsLogsInBounds(t *testing.T) {
	for endpoint, want := range map[string]bool{"ssh://root@host": true, "unix:///run/containerd/containerd.sock": false} {
		h := &keptHost{}
		cfg := Config{Endpoint: endpoint, NodeIdentity: "n", ContainerLogMaxSize: 100}.WithDefaults()
		r := &remote{cfg: cfg, convert: convert.New(cfg), socket: "/socket", host: h, hostLogs: newHostLogs()}
		r.rotateLogs(t.Context(), backend.Always)
		if got := h.kept != nil; got != want {
			t.Fatalf("%s: %+v", endpoint, h.kept)
		}
		if want {
			var list runtimeapi.ListContainersRequest
			must(t, proto.Unmarshal(h.kept.Keep.List, &list))
			if k := h.kept.Keep; k.Root != cfg.PodsDir || k.PodLogs != cfg.PodLogsDir || k.Node != "n" ||
				k.Socket != "/socket" ||
				list.GetFilter().GetLabelSelector()[convert.LabelNode] != "n" || h.kept.MaxSize != 100 {
				t.Errorf("%+v of %v", h.kept, &list)
			}
		}
		must(t, r.endKeeping(t.Context()))
		if want && (h.kept.Keep == nil || h.kept.MaxSize > 0) {
			t.Errorf("when the node goes: %+v", h.kept)
		}
	}
}

// TestLogsThatAreNotReopened: a container that ends between the rotation of its log and the
// new file keeps its log under its name, also where the host was away for a while.
func TestLogsThatAreNotReopened(t *testing.T) {
	for name, tt := range map[string]struct {
		reopened error
		failed   error // how giving the name back fails at first
		want     []string
	}{
		"reopened":     {},
		"it has ended": {reopened: status.Error(codes.NotFound, "no such container"), want: []string{"/log"}},
		"the host goes away": {
			reopened: status.Error(codes.Unavailable, "gone"), failed: backend.ErrUnavailable, want: []string{"/log"},
		},
		"the host cannot do it": {reopened: errors.New("no"), failed: errors.New("full"), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.Reopening = func(string) error { return tt.reopened }
			})
			r, _ := w.connect(t)
			h := &keptHost{rotated: []string{"/log"}, failed: tt.failed}
			r.host = h
			r.hostLogs = &hostLogs{logs: map[string]string{"/log": "id"}, uids: []string{}}
			r.rotateLogs(t.Context(), backend.Always)
			h.failed, h.rotated = nil, nil
			r.hostLogs.logs = nil // it has ended
			r.rotateLogs(t.Context(), backend.Always)
			if !slices.Equal(h.undone, tt.want) {
				t.Errorf("logs with their names back: %q, want %q", h.undone, tt.want)
			}
		})
	}
}
