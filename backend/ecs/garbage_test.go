package ecs

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

// running is a backend whose Run goes on until stop is called.
func running(t *testing.T, cfg Config) (b backend.Backend, stop func()) {
	t.Helper()
	b = open(t, cfg)
	return b, background.Run(t, b.RunFreely)
}

// collecting runs f in virtual time with a server and a backend that collects.
func collecting(t *testing.T, cfg stub.Config, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(cfg)
		b, stop := running(t, richConfig(s))
		defer stop()
		f(t, s, b)
	})
}

// statuses counts definitions by their status.
func statuses(s *stub.Server) map[string]int {
	n := map[string]int{}
	for _, d := range s.Definitions() {
		n[d.Status]++
	}
	return n
}

func TestScaledToZeroNothingIsLeftAfterTheCacheTime(t *testing.T) {
	collecting(t, stub.Config{Throttles: true}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		for _, name := range []string{"a", "b"} {
			must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec(name, 0)))
			gone(t, b, richSpec(name, 0).Ref())
		}
		time.Sleep(23 * time.Hour)
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" || statuses(s)["ACTIVE"] != 1 {
			t.Errorf("within the time they are kept: %s, definitions %v", got, statuses(s))
		}
		time.Sleep(3 * time.Hour)
		if got := kinds(s); got != "0 salt, 0 shared, 0 pod" || statuses(s)["ACTIVE"]+statuses(s)["INACTIVE"] != 0 {
			t.Errorf("afterwards: %s, definitions %v", got, statuses(s))
		}
		// And all is made anew for the next pod.
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("c", 0)))
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" {
			t.Error(got)
		}
	})
}

// TestGarbageStaysWhereNothingMayBeChanged: each thing is asked for, and goes once it may.
func TestGarbageStaysWhereNothingMayBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		b := open(t, richConfig(s))
		var permitted atomic.Bool
		defer background.Run(t, func(ctx context.Context) error {
			return b.Run(ctx, func(change string) error {
				if permitted.Load() {
					return nil
				}
				return backend.Errorf(backend.ErrThrottled, "%s: not now", change)
			})
		})()
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		gone(t, b, richSpec("a", 0).Ref())
		before := kinds(s)
		time.Sleep(3 * 24 * time.Hour)
		if got := kinds(s); got != before || statuses(s)["ACTIVE"] != 1 {
			t.Errorf("deleted though nothing may be: %s (before: %s), definitions %v", got, before, statuses(s))
		}
		permitted.Store(true)
		time.Sleep(time.Hour)
		if got := kinds(s); got != "0 salt, 0 shared, 0 pod" || statuses(s)["ACTIVE"]+statuses(s)["INACTIVE"] != 0 {
			t.Errorf("left though it may be deleted: %s, definitions %v", got, statuses(s))
		}
	})
}

func TestWhatATaskUsesStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{Throttles: true})
		b, stop := running(t, richConfig(s))
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		time.Sleep(time.Hour)
		stop()
		b, stop = running(t, richConfig(s)) // a process that knows only what AWS shows
		defer stop()
		time.Sleep(3 * 24 * time.Hour)
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" || statuses(s)["ACTIVE"] != 1 {
			t.Fatalf("%s, definitions %v", got, statuses(s))
		}
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("b", 0)))
		if n := s.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Errorf("%d registrations", n)
		}
	})
}

func TestWhatIsUsedNowAndThenStays(t *testing.T) {
	collecting(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		for i := range 10 { // a CronJob of twice a day
			spec := richSpec("job", i)
			must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
			gone(t, b, spec.Ref())
			time.Sleep(12 * time.Hour)
		}
		if n := s.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Errorf("%d registrations", n)
		}
		if n := s.Calls()["CreateSecret"]; n != 10+3 {
			t.Errorf("%d secrets made", n)
		}
	})
}

func TestSecretsOfLaunchesThatNeverWereGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		b, stop := running(t, richConfig(s))
		s.Shortage("", "", true)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)), "Capacity")
		stop() // it dies, and the pod is deleted meanwhile
		_, stop = running(t, richConfig(s))
		defer stop()
		time.Sleep(orphanAge + garbageInterval/2)
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" {
			t.Errorf("it was garbage at one look: %s", got)
		}
		time.Sleep(2*garbageInterval + time.Minute)
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestSecretsOfLaunchesThatWaitForRoomStay(t *testing.T) {
	collecting(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Shortage("", "", true)
		for try := range 60 { // five hours of backoff
			spec := richSpec("a", 0)
			spec.Try = try
			wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Capacity")
			time.Sleep(5 * time.Minute)
		}
		if n := s.Calls()["CreateSecret"]; n != 4 {
			t.Errorf("secrets were made %d times", n)
		}
		if n := s.Calls()["DeleteSecret"]; n != 0 {
			t.Errorf("secrets were deleted %d times", n)
		}
	})
}

func TestNothingOfOthersIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		other := richConfig(s)
		other.NodeIdentity = "cluster-uid/another"
		theirs := open(t, other)
		must(t, theirs.Pods.Launch(t.Context(), t.Context(), richSpec("theirs", 0)))
		must(t, theirs.Pods.Launch(t.Context(), t.Context(), richSpec("ended", 0)))
		gone(t, theirs, richSpec("ended", 0).Ref())
		c := sdkOf(t, s)
		_, err := c.ECS.RegisterTaskDefinition(t.Context(), &awsecs.RegisterTaskDefinitionInput{
			Family:                  aws.String("burstlet-by-hand"),
			ContainerDefinitions:    []types.ContainerDefinition{{Name: aws.String("a"), Image: aws.String("b")}},
			RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate}, NetworkMode: types.NetworkModeAwsvpc,
			Cpu: aws.String("256"), Memory: aws.String("512"),
		})
		must(t, err)
		ours := payload.Prefix(richConfig(s).NodeIdentity)
		// without our tag
		for _, name := range []string{"database", "burstlet/x", ours + "pod/u/0.a.1", ours + "shared/env.x"} {
			_, err := c.Secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
				Name: &name, SecretString: aws.String("x"),
				Tags: []smtypes.Tag{{Key: aws.String("owner"), Value: aws.String("dba")}},
			})
			must(t, err)
		}
		_, err = c.Secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
			Name: aws.String(ours + "pod/u/1.a.1"), SecretString: aws.String("x"),
			Tags: []smtypes.Tag{{Key: aws.String("burstlet/node"), Value: aws.String("another")}},
		})
		must(t, err)
		before := s.Calls()
		_, stop := running(t, richConfig(s))
		defer stop()
		time.Sleep(3 * 24 * time.Hour)
		for _, action := range []string{"DeregisterTaskDefinition", "DeleteTaskDefinitions", "DeleteSecret", "StopTask"} {
			if n := s.Calls()[action] - before[action]; n != 0 {
				t.Errorf("%s was called %d times", action, n)
			}
		}
		if n := len(s.Secrets()); n != 4+5 {
			t.Errorf("%d secrets are left", n)
		}
	})
}

func TestNothingIsCollectedWithoutACompleteListing(t *testing.T) {
	for _, action := range []string{
		"ListTasks", "DescribeTasks", "ListSecrets", "ListTaskDefinitionFamilies", "DescribeTaskDefinition",
	} {
		t.Run(action, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{})
				b := open(t, richConfig(s))
				must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
				spec := richSpec("b", 0)
				spec.Containers[0].Container.WorkingDir = "/"
				must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
				gone(t, b, spec.Ref())
				s.Inject(stub.Fault{Action: action, Code: "ServerException", Message: "down", Status: 500, Times: 1 << 30})
				_, stop := running(t, richConfig(s))
				defer stop()
				time.Sleep(30 * time.Hour)
				if got := kinds(s); got != "1 salt, 2 shared, 1 pod" || statuses(s)["ACTIVE"] != 2 {
					t.Errorf("%s, definitions %v", got, statuses(s))
				}
			})
		})
	}
}

func TestRegistrationsComeBeforeGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{Throttles: true})
		b, stop := running(t, richConfig(s))
		defer stop()
		for i := range 60 {
			spec := specOf(podOf("p", "sleep", "1"), i)
			spec.Containers[0].Container.WorkingDir = "/" + strings.Repeat("d", i)
			must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
			gone(t, b, spec.Ref())
		}
		time.Sleep(24*time.Hour + 25*time.Minute)
		left := statuses(s)["ACTIVE"]
		if left == 0 || left == 60 {
			t.Errorf("%d definitions are active: some are collected at each look, not all at once", left)
		}
		time.Sleep(4 * time.Hour)
		if n := statuses(s)["ACTIVE"] + statuses(s)["INACTIVE"]; n != 0 {
			t.Errorf("%v", statuses(s))
		}
		for what, n := range s.Throttled() {
			t.Errorf("%s was throttled %d times", what, n)
		}
	})
}

func TestReferencesLeadToTheirSecret(t *testing.T) {
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:burstlet/n/shared/env.x-AbCdEf"
	for _, from := range []string{arn, arn + ":app.PASSWORD::", arn + ":k:AWSCURRENT:"} {
		if got := secretARN(from); got != arn {
			t.Errorf("%s leads to %s", from, got)
		}
	}
	if got := identity.FamilyOf(
		"arn:aws:ecs:us-east-1:123456789012:task-definition/burstlet-a-b:3",
	); got != "burstlet-a-b" {
		t.Error(got)
	}
}
