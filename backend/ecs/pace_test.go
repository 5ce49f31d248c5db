package ecs

import (
	"fmt"
	"testing"
	"time"

	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/taskevents"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// watch lists every second, as the engine does, and returns the calls of each kind.
func watch(t *testing.T, s *stub.Server, b backend.Backend, d time.Duration) (describes, lists int) {
	t.Helper()
	before := s.Calls()
	for range int(d / time.Second) {
		time.Sleep(time.Second)
		_, err := b.Pods.List(t.Context())
		must(t, err)
	}
	after := s.Calls()
	return after["DescribeTasks"] - before["DescribeTasks"], after["ListTasks"] - before["ListTasks"]
}

// A thousand pods: looked at every other second while they come, twice a minute
// at rest, and what changes behind our back is seen within that time.
func TestReadsOfAThousand(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	virtual(t, stub.Config{
		Kindness: stub.Kindness{Interfaces: true}, Delays: stub.Delays{Provision: 20 * time.Second, Pull: 5 * time.Second},
	}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		for i := range 1000 {
			must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf(fmt.Sprint("p", i), "sleep", "100000"), 0)))
		}
		coming, _ := watch(t, s, b, time.Minute)
		if coming < 50 || coming > 300 {
			t.Errorf("%d DescribeTasks calls in the minute in which they come", coming)
		}
		describes, lists := watch(t, s, b, time.Minute)
		t.Logf("coming: %d DescribeTasks a minute, at rest: %d, and %d ListTasks", coming, describes, lists)
		if describes >= 30 || describes < 10 || lists >= 30 {
			t.Errorf("at rest %d DescribeTasks and %d ListTasks a minute", describes, lists)
		}
		s.Interrupt(s.Tasks(true)[500], "UserInitiated", "by hand")
		watch(t, s, b, 41*time.Second)
		facts, err := b.Pods.List(t.Context())
		must(t, err)
		dead := 0
		for _, f := range facts {
			if !f.Live {
				dead++
			}
		}
		if dead != 1 || len(facts) != 1000 {
			t.Errorf("%d of %d tasks seen to have stopped", dead, len(facts))
		}
	})
}

// Few pods are looked at often, and Inspect asks anew, but not for what ECS told a
// moment ago.
func TestInspectAsksOnce(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := specOf(podOf("a", "sleep", "1000"), 0)
		_, err := b.Pods.List(t.Context())
		must(t, err)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		asked := func(want int) {
			t.Helper()
			before := s.Calls()["DescribeTasks"]
			facts, err := b.Pods.Inspect(t.Context(), []ktypes.UID{spec.Pod.UID})
			only(t, facts, err)
			if got := s.Calls()["DescribeTasks"] - before; got != want {
				t.Errorf("%d calls, want %d", got, want)
			}
		}
		asked(0) // RunTask told
		time.Sleep(time.Second)
		asked(1)
		asked(0)
		time.Sleep(time.Second)
		asked(1)
		must(t, b.Pods.Stop(t.Context(), spec.Ref(), 30*time.Second))
		asked(0) // StopTask told
	})
}

// What is hinted at is read at once, although it was read a moment ago.
func TestHintsAreReadAnew(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := specOf(podOf("a", "nginx"), 0)
		_, err := b.Pods.List(t.Context())
		must(t, err)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		s.Interrupt(s.Tasks(true)[0], "UserInitiated", "by hand")
		p, _ := b.Pods.(*pods)
		event := fmt.Sprintf(`{"source": "aws.ecs", "detail": {"taskArn": "t", "startedBy": %q, "version": 9,
			"overrides": {"containerOverrides": [{"environment": [{"name": %q, "value": %q}]}]}}}`,
			p.startedBy, identity.Env, fmt.Sprintf(`{"uid": %q}`, spec.Pod.UID))
		uid, ok := taskevents.New(nil, "url", p.startedBy, p.known).Read(t.Context(), event)
		if !ok {
			t.Fatal("the event is no hint")
		}
		facts, err := b.Pods.Inspect(t.Context(), []ktypes.UID{uid})
		if f := only(t, facts, err); f.Live {
			t.Errorf("what was hinted at was not read: %+v", f)
		}
	})
}

// A launch whose reply was lost is not certain to have made nothing until a
// listing that began after the settle time says so.
func TestAbsenceNeedsALateListing(t *testing.T) {
	virtual(t, stub.Config{Delays: stub.Delays{Visible: 110 * time.Second}}, func(
		t *testing.T, s *stub.Server, b backend.Backend,
	) {
		s.Inject(stub.Fault{Action: "RunTask", LoseReply: true, Times: always})
		spec := specOf(podOf("a", "sleep", "600"), 0)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Unavailable")
		describes, lists := watch(t, s, b, 100*time.Second)
		if describes != 0 || lists < 40 || lists > 60 {
			t.Errorf("while it is open: %d DescribeTasks, %d ListTasks", describes, lists)
		}
		watch(t, s, b, 15*time.Second)
		facts, err := b.Pods.List(t.Context())
		only(t, facts, err)
	})
}
