package cri

import (
	"context"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// keptHost counts what is done to keep it in bounds.
type keptHost struct {
	host.Host
	rotations, sweeps int
}

func (h *keptHost) Rotate(context.Context, host.Rotation) ([]string, error) {
	h.rotations++
	return nil, nil
}

func (h *keptHost) Sweep(context.Context, host.Sweep) error {
	h.sweeps++
	return nil
}

// TestHostLogsAskFirst: logs are rotated and removed only where something may be changed.
func TestHostLogsAskFirst(t *testing.T) {
	h := &keptHost{}
	r := &remote{host: h, hostLogs: &hostLogs{logs: map[string]string{"/log": "id"}, uids: []string{}}}
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
