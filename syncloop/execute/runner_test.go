package execute

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// An image that cannot be looked up is told of as the kubelet does, of its container
// alone, and tried again with its backoff.
func TestAnImageThatIsNotThere(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return made.Add(time.Duration(seconds * float64(time.Second))) }
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", CreationTimestamp: metav1.NewTime(made)},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "a", Image: "img"}},
		},
	}
	in := plan.Input{
		Pod: pod, FactsAt: made, Now: made,
		Traits: backend.Traits{
			Refreshes: true, Limits: backend.Limits{Supervised: true, Settle: 5 * time.Second, Runtime: "rt"},
		},
		HostIPs: []string{"192.0.2.1"},
		Objects: resolve.Objects{ServicesSynced: true},
	}
	launch := plan.Decide(in).Actions[0].(plan.Launch)
	var events []string
	x := &Runner{
		Backend: backend.Backend{Pods: refusing{err: &backend.ContainerError{
			Container: "a", Reason: "ErrImagePull", Err: errors.New("not found"),
		}}},
		Hold:   func() {},
		Record: func(_, kind, reason, _ string) { events = append(events, kind+" "+reason) },
	}
	r := x.act(t.Context(), t.Context(), launch)
	r.At = at(1)
	if r.Reason != "ErrImagePull" || r.Container != "a" ||
		!slices.Equal(events, []string{"Warning Failed", "Warning Failed"}) {
		t.Errorf("%+v, %q", r, events)
	}
	in.Memory.Record(r)
	if len(in.Memory.Lost) != 0 {
		t.Error("nothing was made, and it is waited for")
	}
	for second, want := range map[float64]string{2: "ErrImagePull", 8: "ImagePullBackOff"} {
		in.Now = at(second)
		p := plan.Decide(in)
		s := p.Status.ContainerStatuses[0].State.Waiting
		if s == nil || s.Reason != want || len(p.Actions) != 0 {
			t.Errorf("after %v s: %+v, %v", second, s, p.Actions)
		}
	}
	in.Now = at(12)
	if p := plan.Decide(in); len(p.Actions) != 1 {
		t.Errorf("not tried again: %v", p.Actions)
	}
}

// refusing is a backend that launches nothing.
type refusing struct {
	backend.Pods
	err error
}

func (r refusing) Launch(context.Context, context.Context, backend.LaunchSpec) error {
	return backend.Unmade(r.err)
}

// A grace that the remote does not keep is told of, and the pod ends: it is not asked again
// as after an error.
func TestAnotherGraceIsAWarning(t *testing.T) {
	var events []string
	x := &Runner{
		Backend: backend.Backend{Pods: refusing{err: backend.OtherGrace(errors.New("30s, not 5s"))}},
		Record:  func(_, kind, reason, message string) { events = append(events, kind+" "+reason+": "+message) },
	}
	r := x.act(t.Context(), t.Context(), plan.StopPod{Grace: 5 * time.Second})
	if r.Err != nil || !slices.Equal(events, []string{"Warning OtherGracePeriod: 30s, not 5s"}) {
		t.Errorf("%v, %q", r.Err, events)
	}
}

func (r refusing) Stop(context.Context, backend.Ref, time.Duration) error { return r.err }
