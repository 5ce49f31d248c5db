package syncloop

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod on a node is scheduled, whatever the scheduler has said of it (kubelet:
// generateAPIPodStatus).
func TestScheduledCondition(t *testing.T) {
	said := func(status corev1.ConditionStatus, reason string) *corev1.PodCondition {
		return &corev1.PodCondition{
			Type: corev1.PodScheduled, Status: status, Reason: reason, LastTransitionTime: metav1.Time{Time: at(0)},
		}
	}
	for _, tt := range []struct {
		name  string
		held  *corev1.PodCondition
		since float64
	}{
		{"as the scheduler said", said(corev1.ConditionTrue, ""), 0},
		{"a pod that names its node", nil, 5},
		{"a failure of the one before under the name", said(corev1.ConditionFalse, corev1.PodReasonSchedulerError), 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := aPod()
			if tt.held != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *tt.held)
			}
			var got []corev1.PodCondition
			for _, c := range Decide(input(pod, 5)).Status.Conditions {
				if c.Type == corev1.PodScheduled {
					got = append(got, c)
				}
			}
			if len(got) != 1 || got[0].Status != corev1.ConditionTrue || got[0].Reason != "" || !got[0].LastTransitionTime.Time.Equal(at(tt.since)) {
				t.Errorf("PodScheduled is %+v, want True since %v", got, at(tt.since))
			}
		})
	}
}
