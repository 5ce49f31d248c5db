package ecs

import (
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// always is more often than the SDK tries.
const always = clients.Attempts

func TestLaunchFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		faults []stub.Fault
		class  string // of the first launch
		made   int    // tasks after it
	}{
		"one lost reply is replayed by the SDK": {[]stub.Fault{{Action: "RunTask", LoseReply: true}}, "", 1},
		"all replies lost":                      {[]stub.Fault{{Action: "RunTask", LoseReply: true, Times: always}}, "Unavailable", 1},
		"a reply that cannot be read":           {[]stub.Fault{{Action: "RunTask", Garble: true}}, "Unavailable", 1},
		"one throttled call":                    {[]stub.Fault{{Action: "RunTask", Code: "ThrottlingException"}}, "", 1},
		"throttled":                             {[]stub.Fault{{Action: "RunTask", Code: "ThrottlingException", Times: always}}, "Throttled", 0},
		"server error":                          {[]stub.Fault{{Action: "RunTask", Code: "ServerException", Status: 500, Times: always}}, "Unavailable", 0},
		"no capacity":                           {[]stub.Fault{{Action: "RunTask", Failure: "Capacity is unavailable at this time. Please try again later or in a different availability zone"}}, "Capacity", 0},
		"quota":                                 {[]stub.Fault{{Action: "RunTask", Code: "ClientException", Message: "You've reached the limit on the number of vCPUs you can run concurrently"}}, "Capacity", 0},
		"denied":                                {[]stub.Fault{{Action: "RunTask", Code: "AccessDeniedException"}}, "Denied", 0},
		"role":                                  {[]stub.Fault{{Action: "RunTask", Code: "ClientException", Message: "ECS was unable to assume the role"}}, "Transient", 0},
		"invalid":                               {[]stub.Fault{{Action: "RunTask", Code: "InvalidParameterException", Message: "x"}}, "Invalid", 0},
		"registration denied":                   {[]stub.Fault{{Action: "RegisterTaskDefinition", Code: "AccessDeniedException"}}, "Denied", 0},
		"registration collides":                 {[]stub.Fault{{Action: "RegisterTaskDefinition", Code: "ClientException", Message: "Too many concurrent attempts to create a new revision of the specified family."}}, "Throttled", 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				for _, f := range tc.faults {
					s.Inject(f)
				}
				spec := specOf(podOf("a", "sleep", "600"), 0)
				wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), tc.class)
				if got := len(s.Tasks(true)); got != tc.made {
					t.Fatalf("%d tasks, want %d", got, tc.made)
				}
				must(t, b.Pods.Launch(t.Context(), t.Context(), spec)) // the faults are used up
				if got := s.Tasks(true); len(got) != 1 {
					t.Fatalf("after the replay: %v", got)
				}
				facts, err := b.Pods.List(t.Context())
				only(t, facts, err)
			})
		})
	}
}

// While it is not known whether a launch made a task, nothing says NotFound.
func TestUnresolvedLaunch(t *testing.T) {
	virtual(t, stub.Config{Delays: stub.Delays{Visible: time.Minute}}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Inject(stub.Fault{Action: "RunTask", LoseReply: true, Times: always})
		spec := specOf(podOf("a", "sleep", "600"), 0)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Unavailable")
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		wantClass(t, b.Pods.Stop(t.Context(), spec.Ref(), 0), "Unavailable")
		time.Sleep(time.Minute) // it shows, and is stopped
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
		if got := s.Tasks(true); len(got) != 0 {
			t.Fatalf("left: %v", got)
		}
	})
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Inject(stub.Fault{Action: "RunTask", Code: "ServerException", Status: 500, Times: always})
		spec := specOf(podOf("a", "sleep", "600"), 0)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Unavailable")
		must(t, b.Pods.Remove(t.Context(), spec.Ref()))
		time.Sleep(2 * time.Minute) // the settle time: nothing was made
		wantClass(t, b.Pods.Remove(t.Context(), spec.Ref()), "NotFound")
	})
}

// A launch repeated after the configuration changed conflicts: its task is adopted.
func TestConflict(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		live, dead := specOf(podOf("a", "sleep", "600"), 0), specOf(podOf("b", "false"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), live))
		must(t, b.Pods.Launch(t.Context(), t.Context(), dead))
		time.Sleep(5 * time.Second)
		changed := configOf(s)
		changed.Subnets = []string{"subnet-c"}
		again := open(t, changed)
		must(t, again.Pods.Launch(t.Context(), t.Context(), live))
		must(t, again.Pods.Launch(t.Context(), t.Context(), dead))
		facts, err := again.Pods.List(t.Context())
		must(t, err)
		if len(facts) != 2 || !facts[0].Live || facts[1].Live || facts[1].Containers[0].ExitCode != 1 || len(s.Tasks(false)) != 2 {
			t.Fatalf("%+v", facts)
		}
		stranger := configOf(s)
		stranger.NodeIdentity = "another"
		wantClass(t, open(t, stranger).Pods.Launch(t.Context(), t.Context(), live), "Exists")
		if len(s.Tasks(false)) != 2 {
			t.Fatal("a second task was made")
		}
	})
}

// An error while reading is unknown, never gone.
func TestReadFaults(t *testing.T) {
	for name, f := range map[string]stub.Fault{
		"list":            {Action: "ListTasks", Code: "ServerException", Status: 500, Times: always},
		"list lost":       {Action: "ListTasks", LoseReply: true, Times: always},
		"describe":        {Action: "DescribeTasks", Code: "ServerException", Status: 500, Times: always},
		"describe broken": {Action: "DescribeTasks", Garble: true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "sleep", "600"), 0)))
				s.Inject(f)
				_, err := b.Pods.List(t.Context())
				wantClass(t, err, "Unavailable")
				facts, err := b.Pods.List(t.Context())
				only(t, facts, err)
			})
		})
	}
}

// Where the definition was deregistered behind our back it is made again.
func TestDefinitionGone(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "sleep", "600"), 0)))
		s.Inject(stub.Fault{Action: "RunTask", Code: "ClientException", Message: "TaskDefinition is inactive"})
		spec := specOf(podOf("b", "sleep", "600"), 0)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Transient")
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		if n := s.Calls()["DescribeTaskDefinition"]; n != 2 {
			t.Fatalf("looked up %d times", n)
		}
	})
}
