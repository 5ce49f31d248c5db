package ecs

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/logs"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	"github.com/burstlet/burstlet/backend/ecs/session"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/backend/ecs/taskevents"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	fakes3 "github.com/burstlet/burstlet/test/fakeaws/s3"
)

func policyOf(t *testing.T, file string) ecstest.Policy {
	t.Helper()
	p, err := ecstest.ReadPolicy("../../deploy/aws/"+file, testGroup)
	must(t, err)
	if p.Version != "2012-10-17" || len(p.Statement) == 0 {
		t.Fatalf("%s is no policy", file)
	}
	for _, s := range p.Statement {
		if s.Effect != "Allow" || len(s.Action) == 0 || len(s.Resource) == 0 {
			t.Errorf("%s: statement %s allows nothing", file, s.Sid)
		}
		for _, a := range s.Action {
			if strings.Contains(a, "*") {
				t.Errorf("%s: %s grants more than is called", file, a)
			}
		}
	}
	return p
}

// life is all that a node does, with a pod that has all that there is.
func life(t *testing.T, s *stub.Server, cfg Config) {
	cfg.LogGroup, cfg.EventQueueURL, cfg.UnusedAfter = testGroup, s.QueueURL("events"), ecsconfig.MinUnused
	cfg.EBS = taskdef.EBS{RoleARN: infraRole}
	b, stop := running(t, cfg)
	defer stop()
	_, err := b.Node.Describe(t.Context())
	must(t, err)
	spec := richSpec("web", 0)
	must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
	time.Sleep(time.Minute)
	facts, err := b.Pods.List(t.Context())
	if f := only(t, facts, err); f.Containers[0].State() != backend.Running {
		t.Fatalf("it does not run: %+v", f)
	}
	readAll(t, b, backend.ContainerRef{Pod: spec.Ref(), Name: "app"}, backend.LogOptions{})
	hint(t, b, spec.Pod.UID)
	changed := richSpec("web", 0).Volumes
	for i := range changed {
		for j := range changed[i].Files {
			changed[i].Files[j].Data, changed[i].Hash = []byte("changed"), "changed"
		}
	}
	must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), changed))
	// A second process finds the shared secrets where they are.
	must(t, open(t, cfg).Pods.Launch(t.Context(), t.Context(), richSpec("other", 0)))
	gone(t, b, spec.Ref())
	probed := probedSpec("probed", 30*time.Second)
	must(t, b.Pods.Launch(t.Context(), t.Context(), probed))
	time.Sleep(time.Minute)
	gone(t, b, probed.Ref())
	disk := resolved(withVolume(podOf("disk", "sh", "-c", "sleep 100"), "v", "1Gi"), 0)
	must(t, b.Pods.Launch(t.Context(), t.Context(), disk))
	gone(t, b, disk.Ref())
	time.Sleep(10 * time.Minute) // what was seen is verified again
	must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("later", 0)))
	time.Sleep(time.Minute)
	gone(t, b, richSpec("later", 0).Ref())
	_, err = b.Pods.List(t.Context())
	must(t, err)
	gone(t, b, richSpec("other", 0).Ref())
	time.Sleep(4 * time.Hour) // garbage is collected
}

// hint reads events until one is about a pod.
func hint(t *testing.T, b backend.Backend, want types.UID) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	hints := make(chan types.UID, 100)
	go func() { done <- b.Events.Run(ctx, hints) }()
	if uid := <-hints; uid != want {
		t.Errorf("hint of %s", uid)
	}
	time.Sleep(time.Minute)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("events ended: %v", err)
	}
}

func TestPoliciesGrantWhatIsCalledAndNoMore(t *testing.T) {
	by := map[stub.Principal]ecstest.Policy{
		stub.Caller:        policyOf(t, "controller-policy.json"),
		stub.ExecutionRole: policyOf(t, "task-execution-role-policy.json"),
		stub.TaskRole:      policyOf(t, "task-role-policy.json"),
	}
	synctest.Test(t, func(t *testing.T) {
		asked := map[stub.Principal]map[string]bool{stub.Caller: {}, stub.ExecutionRole: {}, stub.TaskRole: {}}
		account := stub.Config{
			LogGroups: []string{testGroup}, Queues: []string{"events"}, Throttles: true, Delays: slow,
			Buckets: []fakes3.Bucket{{Name: testBucket}},
			Policy: func(p stub.Principal, action, resource string) bool {
				asked[p][action] = true
				ok := by[p].Allows(action, resource)
				if !ok {
					t.Errorf("%v may not %s on %s", p, action, resource)
				}
				return ok
			},
		}
		s := stub.New(account)
		life(t, s, richConfig(s))
		s = stub.New(account)
		cfg := richConfig(s)
		cfg.PayloadBucket = testBucket
		life(t, s, cfg)
		// The test server pulls no images.
		notSeen := []string{
			"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetAuthorizationToken", "ecr:GetDownloadUrlForLayer",
		}
		notSeen = append(notSeen, sessionActions...) // TestPoliciesLetSessionsBeOpened
		for p, policy := range by {
			for _, action := range policy.Actions() {
				if !asked[p][action] && !slices.Contains(notSeen, action) {
					t.Errorf("%v is granted %s, which nothing needed", p, action)
				}
			}
		}
	})
}

// TestTheControllersPolicyGrantsTheCallsInTheCode looks at the interfaces to the
// SDK, so that no call that a test misses is forgotten.
func TestTheControllersPolicyGrantsTheCallsInTheCode(t *testing.T) {
	// What calls need beside the action of their name.
	want := map[string]bool{
		"iam:PassRole": true, "ecs:TagResource": true, "secretsmanager:TagResource": true,
		"ecr:BatchGetImage": true, "ecr:GetDownloadUrlForLayer": true, // of the login's holder, over the registry's own API
	}
	for prefix, iface := range map[string][]reflect.Type{
		"ecs":            {reflect.TypeFor[api](), reflect.TypeFor[familiesAPI](), reflect.TypeFor[session.API]()},
		"secretsmanager": {reflect.TypeFor[payload.API]()},
		"logs":           {reflect.TypeFor[logs.API]()}, "ecr": {reflect.TypeFor[images.ECRAPI]()},
		"sqs": {reflect.TypeFor[taskevents.QueueAPI]()},
		"s3":  {reflect.TypeFor[payload.ObjectAPI]()},
	} {
		for _, calls := range iface {
			for i := range calls.NumMethod() {
				action := calls.Method(i).Name
				if prefix == "sqs" {
					action = strings.TrimSuffix(action, "Batch") // SQS: batches need the action of one
				}
				if action == "ListObjectsV2" {
					action = "ListBucket" // S3: required permissions
				}
				want[prefix+":"+action] = true
			}
		}
	}
	got := policyOf(t, "controller-policy.json").Actions()
	if want := slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("granted: %v\ncalled:  %v", got, want)
	}
}
