package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/admit"
)

func TestRefusals(t *testing.T) {
	rejection := &admit.Rejection{Reason: admit.ReasonUnsupported, Message: "spec.x: not possible"}
	for _, tt := range []struct {
		name    string
		in      Input
		at      float64
		refused bool
		actions []string
	}{
		{name: "at once", in: input(aPod(), 1), refused: true},
		{name: "spaced: held back", in: input(aPod(), 1), at: 10},
		{name: "spaced: due", in: input(aPod(), 10), at: 10, refused: true},
		{name: "a pod with facts is not judged again", in: input(aPod(), 1, attempt(0, true, runs("a", 0, 1)))},
		{
			name: "nor one that ran before the restart", in: input(aPod(running(0)), 1),
			actions: []string{"launch attempt 0", "start container a attempt 1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Rejection, tt.in.RefuseAt = rejection, at(tt.at)
			p := Decide(tt.in)
			wantActions(t, p, tt.actions...)
			if p.Refused != tt.refused || (p.Status.Phase == corev1.PodFailed) != tt.refused {
				t.Fatalf("refused %v phase %s", p.Refused, p.Status.Phase)
			}
			if tt.refused &&
				(p.Status.Reason != admit.ReasonUnsupported || p.Status.Message != "Pod was rejected: spec.x: not possible") {
				t.Errorf("status says %s: %s", p.Status.Reason, p.Status.Message)
			}
			if tt.refused { // and it stays as it is
				tt.in.Memory.Status, tt.in.Memory.Termination = p.Status, p.Termination
				again := Decide(tt.in)
				if len(again.Status.ContainerStatuses) != 0 || again.Status.Phase != corev1.PodFailed {
					t.Errorf("second decision: %+v", again.Status)
				}
			}
		})
	}
}
