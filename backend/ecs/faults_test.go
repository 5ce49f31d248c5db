package ecs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// always is more often than the SDK tries.
const always = clients.Attempts

// launchFaults are what may become of a launch.
var launchFaults = map[string]struct {
	faults []stub.Fault
	class  string // of the first launch
	// reworded is the same where AWS says it in words that nobody knows; "" is class.
	reworded string
	made     int // tasks after it
}{
	"one lost reply is replayed by the SDK": {[]stub.Fault{{Action: "RunTask", LoseReply: true}}, "", "", 1},
	"all replies lost": {
		[]stub.Fault{{Action: "RunTask", LoseReply: true, Times: always}}, "Unavailable", "", 1,
	},
	"a reply that cannot be read": {[]stub.Fault{{Action: "RunTask", Garble: true}}, "Unavailable", "", 1},
	"one throttled call":          {[]stub.Fault{{Action: "RunTask", Code: "ThrottlingException"}}, "", "", 1},
	"throttled": {
		[]stub.Fault{{Action: "RunTask", Code: "ThrottlingException", Times: always}}, "Throttled", "", 0,
	},
	"throttled in disguise": {
		[]stub.Fault{{Action: "RunTask", Code: "InvalidParameterException", Message: inDisguise, Times: always}},
		"Throttled",
		"Transient", 0,
	},
	"server error": {
		[]stub.Fault{{Action: "RunTask", Code: "ServerException", Status: 500, Times: always}}, "Unavailable", "", 0,
	},
	"no capacity": {[]stub.Fault{{
		Action:  "RunTask",
		Failure: "Capacity is unavailable at this time. Please try again later or in a different availability zone",
	}}, "Capacity", "", 0},
	"quota of vCPUs": {[]stub.Fault{{
		Action: "RunTask", Code: "ClientException",
		Message: "You've reached the limit on the number of vCPUs you can run concurrently",
	}}, "Capacity", "Transient", 0},
	"quota of tasks": {[]stub.Fault{{
		Action: "RunTask", Code: "ClientException",
		Message: "You've reached the limit on the number of tasks you can run concurrently",
	}}, "Capacity", "Transient", 0},
	"denied": {[]stub.Fault{{Action: "RunTask", Code: "AccessDeniedException"}}, "Denied", "", 0},
	"role": {
		[]stub.Fault{{Action: "RunTask", Code: "ClientException", Message: "ECS was unable to assume the role"}},
		"Transient",
		"", 0,
	},
	"service linked role": {[]stub.Fault{{
		Action: "RunTask", Code: "InvalidParameterException",
		Message: "Unable to assume the service linked role. Please verify that the ECS service linked role exists.",
	}}, "Transient", "", 0},
	"capacity provider": {[]stub.Fault{{
		Action: "RunTask", Code: "InvalidParameterException",
		Message: "The specified capacity provider is not associated with the cluster",
	}}, "Transient", "", 0},
	"subnet": {[]stub.Fault{{
		Action: "RunTask", Code: "InvalidParameterException", Message: "Error retrieving subnet information for [subnet-a]",
	}}, "Transient", "", 0},
	"platform": {
		[]stub.Fault{{Action: "RunTask", Code: "PlatformUnknownException", Message: "x"}}, "Transient", "", 0,
	},
	"unknown": {
		[]stub.Fault{{Action: "RunTask", Code: "InvalidParameterException", Message: "x"}}, "Transient", "", 0,
	},
	"unknown by its code too": {[]stub.Fault{{Action: "RunTask", Code: "NewException", Message: "x"}}, "Transient", "", 0},
	"registration denied": {
		[]stub.Fault{{Action: "RegisterTaskDefinition", Code: "AccessDeniedException"}}, "Denied", "", 0,
	},
	"registration refused": {
		[]stub.Fault{{Action: "RegisterTaskDefinition", Code: "ClientException", Message: "x"}}, "Transient", "", 0,
	},
	"registration collides": {[]stub.Fault{{
		Action: "RegisterTaskDefinition", Code: "ClientException",
		Message: "Too many concurrent attempts to create a new revision of the specified family.",
	}}, "Throttled", "Transient", 0},
}

const inDisguise = "Error retrieving security group information for [sg-a]: Request limit exceeded. (ErrorCode: " +
	"RequestLimitExceeded)"

// No answer of AWS's alone fails a pod, whatever its words.
func TestLaunchFaults(t *testing.T) {
	for name, tc := range launchFaults {
		for _, reworded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reworded %v", name, reworded), func(t *testing.T) {
				virtual(t, stub.Config{Reworded: reworded}, func(t *testing.T, s *stub.Server, b backend.Backend) {
					want := tc.class
					if reworded && tc.reworded != "" {
						want = tc.reworded
					}
					for _, f := range tc.faults {
						s.Inject(f)
					}
					spec := specOf(podOf("a", "sleep", "600"), 0)
					err := b.Pods.Launch(t.Context(), t.Context(), spec)
					wantClass(t, err, want)
					if errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnsupported) {
						t.Fatalf("it fails the pod: %v", err)
					}
					if got := len(s.Tasks(true)); got != tc.made {
						t.Fatalf("%d tasks, want %d", got, tc.made)
					}
					time.Sleep(10 * time.Second)                               // launches were spaced
					for b.Pods.Launch(t.Context(), t.Context(), spec) != nil { // each disguise counts
						if time.Sleep(10 * time.Second); len(s.Calls()) > 1000 {
							t.Fatal("it is never launched")
						}
					}
					if got := s.Tasks(true); len(got) != 1 {
						t.Fatalf("after the replay: %v", got)
					}
					facts, err := b.Pods.List(t.Context())
					only(t, facts, err)
				})
			})
		}
	}
}

// While it is not known whether a launch made a task, nothing says NotFound.
func TestUnresolvedLaunch(t *testing.T) {
	virtual(t, stub.Config{Delays: stub.Delays{Visible: time.Minute}}, func(
		t *testing.T, s *stub.Server, b backend.Backend,
	) {
		s.Inject(stub.Fault{Action: "RunTask", LoseReply: true, Times: always})
		spec := specOf(podOf("a", "nginx"), 0)
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
		if len(facts) != 2 || !facts[0].Live || facts[1].Live || facts[1].Containers[0].ExitCode != 1 ||
			len(s.Tasks(false)) != 2 {
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

// A task that a conflict names is adopted once it shows.
func TestConflictWithATaskThatDoesNotShowYet(t *testing.T) {
	virtual(t, stub.Config{Delays: stub.Delays{Visible: 2 * time.Second}}, func(
		t *testing.T, s *stub.Server, b backend.Backend,
	) {
		spec := specOf(podOf("a", "sleep", "600"), 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		changed := configOf(s)
		changed.Subnets = []string{"subnet-c"}
		must(t, open(t, changed).Pods.Launch(t.Context(), t.Context(), spec))
		if len(s.Tasks(false)) != 1 {
			t.Error("a second task was made")
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

// Where the definition was deregistered behind our back it is made again, whatever AWS's
// words for it.
func TestDefinitionGone(t *testing.T) {
	for _, words := range []string{"TaskDefinition is inactive", "This cannot be done"} {
		t.Run(words, func(t *testing.T) {
			virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "sleep", "600"), 0)))
				for _, d := range s.Report().Definitions {
					deregister(t, s, fmt.Sprintf("%s:%d", d.Family, d.Revision))
				}
				s.Inject(stub.Fault{Action: "RunTask", Code: "ClientException", Message: words})
				spec := specOf(podOf("b", "sleep", "600"), 0)
				wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Transient")
				must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
			})
		})
	}
}

// deregister makes a definition inactive, as somebody else might.
func deregister(t *testing.T, s *stub.Server, arn string) {
	t.Helper()
	c := awsecs.New(awsecs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(stub.Endpoint), HTTPClient: s.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", ""),
	})
	if _, err := c.DeregisterTaskDefinition(
		t.Context(), &awsecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn},
	); err != nil {
		t.Fatal(err)
	}
}

// A fault of the account, in words that nobody knows, hits every pod of the node: none
// fails, AWS is asked now and then, and all run once it is mended.
func TestARefusalOfEverythingIsAskedAboutNowAndThen(t *testing.T) {
	virtual(t, stub.Config{Reworded: true}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		const pods, refusals = 12, 14
		s.Inject(stub.Fault{Action: "RunTask", Code: "ClientException", Message: "x", Times: refusals})
		waiting := map[string]backend.LaunchSpec{}
		for i := range pods {
			name := fmt.Sprint("p", i)
			waiting[name] = specOf(podOf(name, "sleep", fmt.Sprint(90000+i%3)), 0)
		}
		begun, events := time.Now(), 0
		for len(waiting) > 0 {
			for name, spec := range waiting {
				switch err := b.Pods.Launch(t.Context(), t.Context(), spec); backend.Class(err) {
				case "":
					delete(waiting, name)
				case "Transient":
					events++
				case "Throttled":
				default:
					t.Fatalf("%s: %v", backend.Class(err), err)
				}
			}
			if time.Sleep(5 * time.Second); time.Since(begun) > 2*time.Hour {
				t.Fatalf("%d pods wait", len(waiting))
			}
		}
		if took := time.Since(begun); took < 6*time.Minute { // about once a minute in the end
			t.Errorf("%d refusals in %s", refusals, took)
		}
		if events != refusals || len(s.Tasks(true)) != pods {
			t.Errorf("%d Events, %d tasks", events, len(s.Tasks(true)))
		}
	})
}

// A pod whose own definition AWS refuses, again and again while others are started, ends;
// the others are hardly delayed.
func TestWhatIsProvedToBeThePodsOwnFault(t *testing.T) {
	virtual(t, stub.Config{Reworded: true}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		bad := specOf(podOf("bad", "sleep", "1"), 0)
		begun := time.Now()
		for n := 0; ; n++ {
			s.Inject(stub.Fault{Action: "RunTask", Code: "InvalidParameterException", Message: "x"})
			err := b.Pods.Launch(t.Context(), t.Context(), bad)
			took := time.Since(begun)
			if backend.Class(err) == "Invalid" {
				if n < 4 || took < 10*time.Minute {
					t.Errorf("proved after %d refusals in %s", n+1, took)
				}
				return
			}
			wantClass(t, err, "Transient")
			good := specOf(podOf(fmt.Sprint("good", n), "sleep", "600"), 0)
			wantClass(t, b.Pods.Launch(t.Context(), t.Context(), good), "Throttled")
			time.Sleep(time.Second)
			must(t, b.Pods.Launch(t.Context(), t.Context(), good))
			time.Sleep(2 * time.Minute)
			if took > time.Hour {
				t.Fatalf("it is never proved: %v", err)
			}
		}
	})
}

// A task that ECS does not describe now stays as it was, and hides no other.
func TestATaskThatIsNotDescribed(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		for _, name := range []string{"a", "b"} {
			must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf(name, "sleep", "30"), 0)))
		}
		time.Sleep(2 * time.Second)
		_, err := b.Pods.List(t.Context())
		must(t, err)
		s.Undescribed(s.Tasks(true)[0], "CANNOT BE TOLD NOW")
		describes, _ := watch(t, s, b, time.Minute)
		facts, err := b.Pods.List(t.Context())
		must(t, err)
		if len(facts) != 2 || !facts[0].Live || facts[1].Live || describes > 60 {
			t.Errorf("%d reads: %+v", describes, facts)
		}
		again := open(t, configOf(s)) // who knows nothing of it must not say that it is gone
		if _, err := again.Pods.List(t.Context()); backend.Class(err) != "Unavailable" {
			t.Errorf("a new process: %v", err)
		}
		s.Undescribed(s.Tasks(false)[0], "")
		time.Sleep(30 * time.Second)
		facts, err = b.Pods.List(t.Context())
		must(t, err)
		if facts[0].Live || facts[1].Live {
			t.Errorf("%+v", facts)
		}
	})
}

// A task of which a process learns while ECS does not describe it keeps it from reading no
// other, and is read once it is described.
func TestAStrangeTaskThatIsNotDescribed(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "sleep", "30"), 0)))
		_, err := b.Pods.List(t.Context())
		must(t, err)
		must(t, open(t, configOf(s)).Pods.Launch(t.Context(), t.Context(), specOf(podOf("b", "sleep", "6000"), 0)))
		s.Undescribed(s.Tasks(true)[1], "CANNOT BE TOLD NOW")
		describes, lists := watch(t, s, b, 10*time.Minute)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); f.Live || lists > 200 || describes > 400 {
			t.Errorf("%d DescribeTasks and %d ListTasks: %+v", describes, lists, f)
		}
		s.Undescribed(s.Tasks(false)[1], "")
		watch(t, s, b, 10*time.Second)
		if facts, err = b.Pods.List(t.Context()); err != nil || len(facts) != 2 {
			t.Errorf("%+v, %v", facts, err)
		}
	})
}

// A task that ECS does not know is asked to stop once, whatever the words for it, and then
// looked for now and then.
func TestStopOfATaskThatDoesNotShow(t *testing.T) {
	for _, reworded := range []bool{false, true} {
		virtual(t, stub.Config{
			Reworded: reworded, Delays: stub.Delays{Visible: 90 * time.Second},
		}, func(t *testing.T, s *stub.Server, b backend.Backend) {
			spec := specOf(podOf("a", "sleep", "600"), 0)
			must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
			s.Inject(stub.Fault{
				Action: "StopTask", Code: "InvalidParameterException", Message: "The referenced task was not found.",
			})
			words := map[string]bool{}
			for range 80 {
				time.Sleep(time.Second)
				err := b.Pods.Stop(t.Context(), spec.Ref(), 0)
				wantClass(t, err, "Transient")
				words[err.Error()] = true
			}
			if n := s.Calls()["StopTask"]; n != 1 || len(words) > 2 {
				t.Errorf("%d calls, %v", n, words)
			}
			time.Sleep(30 * time.Second)
			_, err := b.Pods.List(t.Context())
			must(t, err)
			must(t, b.Pods.Stop(t.Context(), spec.Ref(), 30*time.Second))
			if n := s.Calls()["StopTask"]; n != 2 {
				t.Errorf("once it shows: %d calls", n)
			}
		})
	}
}
