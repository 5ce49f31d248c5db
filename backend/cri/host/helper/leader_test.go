package helper

import (
	"context"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

// TestLeaderArrives: the host learns who asks for each operation, and its refusal comes
// back as what it is.
func TestLeaderArrives(t *testing.T) {
	var asked host.Leader
	h := &fakeHost{answer: func(ctx context.Context, _ string, _ any) (any, error) {
		asked = host.LeaderOf(ctx)
		return nil, fence.Record{Number: 2, Holder: "b"}.Check(asked.Holder)
	}}
	client := started(t, h)
	for _, tt := range everyCall(t, true) {
		for _, l := range []host.Leader{{}, {Root: "/r ü\n", Node: "uid/n", Holder: "a"}} {
			_, err := tt.do(host.WithLeader(t.Context(), l), client)
			if asked != l || backend.Class(err) != "Superseded" {
				t.Errorf("%s: asked by %+v, want %+v: %v", tt.op, asked, l, err)
			}
		}
	}
}

func TestLeaderThatIsMalformed(t *testing.T) {
	for _, value := range []string{"?", "e30=", "eyJIb2xkZXIiOjF9"} { // no base64, {}, {"Holder":1}
		if l, err := decodeLeader(value); err == nil {
			t.Errorf("%s: %+v", value, l)
		}
	}
}
