package ecs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	fakes3 "github.com/burstlet/burstlet/test/fakeaws/s3"
	"github.com/burstlet/burstlet/test/kit/lane"
)

const testBucket = "payloads"

// bucketConfig is richConfig with a bucket for payloads.
func bucketConfig(s *stub.Server) Config {
	cfg := richConfig(s)
	cfg.PayloadBucket, cfg.PayloadPrefix = testBucket, "clusters/one"
	return cfg
}

// bucketed runs f in virtual time with a server that has a bucket.
func bucketed(t *testing.T, f func(*testing.T, *stub.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, stub.New(stub.Config{
			Throttles: true, Kindness: stub.Kindness{Interfaces: true}, Buckets: []fakes3.Bucket{{Name: testBucket}},
		}))
	})
}

// objectIn is what stands under a key.
func objectIn(t *testing.T, s *stub.Server, bucket, key string) []byte {
	t.Helper()
	out, err := sdkOf(t, s).Objects.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	must(t, err)
	body, err := io.ReadAll(out.Body)
	must(t, err)
	return body
}

// putInto writes an object.
func putInto(t *testing.T, s *stub.Server, key string, body []byte) {
	t.Helper()
	bucket := testBucket
	_, err := sdkOf(t, s).Objects.PutObject(
		t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)},
	)
	must(t, err)
}

func keysIn(s *stub.Server) []string {
	var out []string
	for _, o := range s.Objects() {
		out = append(out, o.Key)
	}
	return out
}

// A pod's own files are in the bucket alone, encrypted, below its node's prefix; what pods
// share is in Secrets Manager. The object goes with the pod.
func TestOwnFilesAreInTheBucket(t *testing.T) {
	bucketed(t, func(t *testing.T, s *stub.Server) {
		b, spec := open(t, bucketConfig(s)), richSpec("web", 0)
		own := bytes.Repeat([]byte(canaryToken), 10)
		spec.Volumes[1].Files[0].Data = append(own, noise(2_000_000)...) // more than secrets take
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
		prefix := "clusters/one/" + payload.Prefix(bucketConfig(s).NodeIdentity) + "pod/" + string(spec.Pod.UID) + "/0."
		keys := keysIn(s)
		if len(keys) != 1 || !strings.HasPrefix(keys[0], prefix) || bytes.Contains(objectIn(t, s, testBucket, keys[0]), own) {
			t.Fatalf("%v, below %s", keys, prefix)
		}
		if text := fmt.Sprintf("%+v%+v", s.Definitions(), s.TaskInfos()); strings.Contains(text, canaryToken) {
			t.Error("contents are in a definition or an override")
		}
		dir := materialized(t, s)["/var/run/secrets/kubernetes.io/serviceaccount"]
		if got, err := os.ReadFile(filepath.Join(dir, "token")); err != nil ||
			!bytes.Equal(got, spec.Volumes[1].Files[0].Data) {
			t.Errorf("in the task: %d bytes, %v", len(got), err)
		}
		time.Sleep(time.Minute)
		facts, err := b.Pods.List(t.Context())
		if f := only(t, facts, err); len(f.Containers) != 1 || f.Containers[0].State() != backend.Running {
			t.Errorf("it does not run: %+v", f)
		}
		gone(t, b, spec.Ref())
		if keys := keysIn(s); len(keys) != 0 {
			t.Errorf("with the pod gone: %v", keys)
		}
	})
}

func TestMoreThanAnObjectTakesIsRefusedBeforeAnythingIsSpent(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	bucketed(t, func(t *testing.T, s *stub.Server) {
		spec := richSpec("web", 0)
		spec.Volumes[1].Files[0].Data = noise(intask.MaxObject)
		wantClass(t, open(t, bucketConfig(s)).Pods.Launch(t.Context(), t.Context(), spec), "Invalid")
		if calls := s.Calls(); len(calls) != 0 {
			t.Errorf("calls were made: %v", calls)
		}
	})
}

// Changed files reach the object that the pod's agent reads, whichever process launched it
// and whatever that was configured with, and go with the pod.
func TestFilesInTheBucketAreRefreshed(t *testing.T) {
	bucketed(t, func(t *testing.T, s *stub.Server) {
		b, spec := open(t, bucketConfig(s)), richSpec("a", 0)
		spec.Volumes = spec.Volumes[:1] // nothing of its own
		spec.Pod.Spec.Volumes = spec.Pod.Spec.Volumes[:1]
		spec.Containers[0].Container.VolumeMounts = spec.Containers[0].Container.VolumeMounts[:1]
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second)
		if got := fmt.Sprint(storedFiles(t, s)); got != "map[]" {
			t.Errorf("at the launch the pod's own files are %s", got)
		}
		before := s.Calls()["PutObject"]
		must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes))
		if n := s.Calls()["PutObject"] - before; n != 0 {
			t.Errorf("%d writes of nothing new", n)
		}
		for i, cfg := range []Config{bucketConfig(s), richConfig(s)} { // with the bucket, and taken out
			again := open(t, cfg)
			_, err := again.Pods.List(t.Context())
			must(t, err)
			text := fmt.Sprint("x=", i)
			spec.Volumes[0].Files = []backend.File{{Path: "app.conf", Data: []byte(text), Mode: 0o644}}
			must(t, again.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes))
			if got := fmt.Sprint(storedFiles(t, s)); got != "map[v0/app.conf:"+text+"]" {
				t.Errorf("%s in the task", got)
			}
			b = again
		}
		gone(t, b, spec.Ref())
		if keys, got := keysIn(s), kinds(s); len(keys) != 0 || !strings.HasSuffix(got, " 0 pod") {
			t.Errorf("with the pod gone: %v, %s", keys, got)
		}
	})
}

// A pod whose secret was made before there was a bucket goes on with it.
func TestSecretsOfBeforeTheBucketGoOn(t *testing.T) {
	bucketed(t, func(t *testing.T, s *stub.Server) {
		spec := richSpec("a", 0)
		must(t, open(t, richConfig(s)).Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second)
		b := open(t, bucketConfig(s))
		_, err := b.Pods.List(t.Context())
		must(t, err)
		spec.Volumes[1].Files[0].Data = []byte("renewed")
		must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes))
		if got := storedFiles(t, s)["v1/token"]; got != "renewed" {
			t.Errorf("%q in the task", got)
		}
		gone(t, b, spec.Ref())
		if keys, got := keysIn(s), kinds(s); len(keys) != 0 || !strings.HasSuffix(got, " 0 pod") {
			t.Errorf("with the pod gone: %v, %s", keys, got)
		}
	})
}

// An object that somebody deleted is written anew, though S3 tells who may list a prefix
// alone only that reading it is denied.
func TestAnObjectThatWasDeletedByHandIsWrittenAnew(t *testing.T) {
	bucketed(t, func(t *testing.T, s *stub.Server) {
		b, spec, bucket := open(t, bucketConfig(s)), richSpec("a", 0), testBucket
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second)
		_, err := b.Pods.List(t.Context())
		must(t, err)
		key := keysIn(s)[0]
		_, err = sdkOf(t, s).Objects.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
		must(t, err)
		spec.Volumes[1].Files[0].Data = []byte("renewed")
		must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes))
		if got := storedFiles(t, s)["v1/token"]; got != "renewed" {
			t.Errorf("%q in the task", got)
		}
	})
}

// What deploy/aws sets on the bucket admits this account alone, and deletes nothing that is
// current: only burstlet knows what pods still need.
func TestTheBucketsFilesInDeploy(t *testing.T) {
	var rules struct {
		Rules []struct {
			Status     string
			Filter     struct{ Prefix string }
			Expiration map[string]any
			Noncurrent struct{ NoncurrentDays int } `json:"NoncurrentVersionExpiration"`
		}
	}
	text, err := os.ReadFile("../../deploy/aws/payload-bucket-lifecycle.json")
	must(t, err)
	must(t, json.Unmarshal(text, &rules))
	if r := rules.Rules; len(r) != 1 || r[0].Status != "Enabled" || r[0].Noncurrent.NoncurrentDays != 1 ||
		r[0].Filter.Prefix != "burstlet/" ||
		r[0].Expiration["Days"] != nil || r[0].Expiration["Date"] != nil {
		t.Errorf("%s", text)
	}
	policy, err := ecstest.ReadPolicy("../../deploy/aws/payload-bucket-policy.json", testGroup)
	must(t, err)
	for _, s := range policy.Statement {
		if s.Effect != "Deny" ||
			!slices.Equal(s.Resource, []string{"arn:aws:s3:::" + testBucket, "arn:aws:s3:::" + testBucket + "/*"}) {
			t.Errorf("%s: %s on %s", s.Sid, s.Effect, s.Resource)
		}
	}
	if len(policy.Statement) != 2 ||
		policy.Statement[1].Condition["StringNotEquals"]["aws:PrincipalAccount"] != "123456789012" {
		t.Errorf("%+v", policy.Statement)
	}
}

// No quota holds up the shortest token in a bucket, nor any other change.
func TestTheShortestTokenLivesOnInTheBucket(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	bucketed(t, func(t *testing.T, s *stub.Server) {
		if late := shortestToken(t, s, bucketConfig(s)); late != 0 {
			t.Errorf("the ConfigMap was not the newest at %d of 390 looks", late)
		}
		t.Logf("%d PutObject calls in 26 h", s.Calls()["PutObject"])
		gone(t, open(t, bucketConfig(s)), richSpec("a", 0).Ref())
		if keys := keysIn(s); len(keys) != 0 {
			t.Errorf("after the pod: %v", keys)
		}
	})
}

// What of S3 fails a launch fails no pod for good, and names what to look at.
func TestRefusalsOfTheBucketAreTheNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*Config)
		fault       stub.Fault
		class, says string
	}{
		"no bucket": {change: func(c *Config) { c.PayloadBucket = "another" }, says: "look at payloadBucket and region"},
		"no right": {
			fault: stub.Fault{Code: "AccessDenied", Message: "Access Denied", Status: 403}, class: "Denied",
			says: "grants s3:PutObject",
		},
		"a redirect": {
			fault: stub.Fault{Code: "PermanentRedirect", Message: "elsewhere", Status: 301},
			says:  "look at payloadBucket and region",
		},
		"too fast": {
			fault: stub.Fault{Code: "SlowDown", Message: "Please reduce your request rate.", Status: 503}, class: "Throttled",
		},
		"down": {
			fault: stub.Fault{Code: "InternalError", Message: "We encountered an internal error.", Status: 500},
			class: "Unavailable",
		},
		"unknown": {fault: stub.Fault{Code: "InvalidRequest", Message: "canned", Status: 400}},
	} {
		t.Run(name, func(t *testing.T) {
			bucketed(t, func(t *testing.T, s *stub.Server) {
				cfg := bucketConfig(s)
				if tc.change != nil {
					tc.change(&cfg)
				}
				if tc.fault.Code != "" {
					tc.fault.Service, tc.fault.Action, tc.fault.Times = "s3", "PutObject", 100
					s.Inject(tc.fault)
				}
				err := open(t, cfg).Pods.Launch(t.Context(), t.Context(), richSpec("a", 0))
				if err == nil || backend.Class(err) != tc.class && tc.class != "" || errors.Is(err, backend.ErrInvalid) ||
					errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), tc.says) || len(s.TaskInfos()) != 0 {
					t.Errorf("%s: %v, %d tasks", backend.Class(err), err, len(s.TaskInfos()))
				}
			})
		})
	}
}

// Burstlet dies before or after each call that changes the bucket, and the pod is deleted
// meanwhile or lives on: whatever it was, nothing is left in the end.
func TestNothingIsLeftInTheBucketWhereverBurstletDies(t *testing.T) {
	for _, action := range []string{"PutObject", "RunTask", "StopTask", "DeleteObject"} {
		for _, done := range []bool{false, true} {
			for _, lives := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, done %v, pod lives %v", action, done, lives), func(t *testing.T) {
					bucketed(t, func(t *testing.T, s *stub.Server) {
						dies(t, s, action, done, lives)
					})
				})
			}
		}
	}
}

// dies lets a process launch, refresh and remove a pod until it dies at a call, and another
// go on.
func dies(t *testing.T, s *stub.Server, action string, done, lives bool) {
	t.Helper()
	spec := richSpec("a", 0)
	livesUntil(t, s, spec, action, done)
	before := keysIn(s)
	b, stop := running(t, bucketConfig(s))
	defer stop()
	if lives && (action == "PutObject" || action == "RunTask") {
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
	}
	facts, err := b.Pods.List(t.Context())
	must(t, err)
	if lives || len(facts) > 0 {
		gone(t, b, spec.Ref())
	}
	if len(before) > 0 && !lives { // a write that was on its way arrives now
		putInto(t, s, before[0], []byte("late"))
	}
	time.Sleep(2 * time.Hour)
	if keys := keysIn(s); len(keys) != 0 || len(s.Tasks(true)) != 0 {
		t.Errorf("left: %v, %d tasks", keys, len(s.Tasks(true)))
	}
}

// livesUntil lets a process launch and remove a pod until it dies at a call: with it not
// done, or done and its answer lost.
func livesUntil(t *testing.T, s *stub.Server, spec backend.LaunchSpec, action string, done bool) {
	t.Helper()
	dead, died := false, errors.New("the process is dead")
	at := func(deadly bool) func(stub.Call) error {
		return func(c stub.Call) error {
			if dead = dead || c.Action == action && deadly; dead {
				return died
			}
			return nil
		}
	}
	s.Hook(at(!done), at(true))
	defer s.Hook(nil, nil)
	b := open(t, bucketConfig(s))
	err := b.Pods.Launch(t.Context(), t.Context(), spec)
	for !dead && err == nil { // not at the launch
		err = b.Pods.Remove(t.Context(), spec.Ref())
		time.Sleep(time.Second)
	}
	if !dead {
		t.Fatalf("it never called %s: %v", action, err)
	}
}

// What others keep in the bucket stays, and so does all of it while a listing fails; a node
// that is removed leaves nothing.
func TestTheBucketIsSweptOfThisNodesObjectsAlone(t *testing.T) {
	bucketed(t, func(t *testing.T, s *stub.Server) {
		ours := "clusters/one/" + payload.Prefix(bucketConfig(s).NodeIdentity)
		orphan, foreign := ours+"pod/u/0.abcdefghijkl.1", []string{
			"clusters/one/burstlet/other/pod/u/0.a.1", "data/x", ours + "notes",
		}
		for _, key := range append(foreign, orphan) {
			putInto(t, s, key, []byte("x"))
		}
		s.Inject(stub.Fault{
			Service: "s3", Action: "ListObjectsV2", Code: "InternalError", Message: "down", Status: 500, Times: 30,
		})
		_, stop := running(t, bucketConfig(s))
		time.Sleep(orphanAge + 3*garbageInterval)
		if n := len(s.Objects()); n != 4 {
			t.Errorf("while listings fail %d objects are left", n)
		}
		time.Sleep(6 * time.Hour)
		stop()
		if keys := keysIn(s); len(keys) != 3 || slices.Contains(keys, orphan) {
			t.Errorf("left: %v", keys)
		}
		b := open(t, bucketConfig(s))
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		if _, err := b.Sweep(t.Context()); err == nil {
			t.Error("it was swept under a task that lives")
		}
		gone(t, b, richSpec("a", 0).Ref())
		removed := swept(t, open(t, bucketConfig(s)))
		if keys := keysIn(s); len(keys) != 2 || !slices.ContainsFunc(
			removed, func(name string) bool { return strings.Contains(name, "s3://"+testBucket+"/"+ours) },
		) {
			t.Errorf("left: %v, swept %v", keys, removed)
		}
	})
}

// agentsOf are what burstlet-agent of each task does when it looks for changed files.
func agentsOf(t *testing.T, s *stub.Server) []func() error {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "v1"), 0o755))
	client, said := &http.Client{Transport: inside{s.Client().Transport}}, log.New(t.Output(), "", 0)
	var out []func() error
	for _, task := range s.TaskInfos() {
		env := map[string]string{
			"AWS_REGION": "us-east-1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x", intask.EnvEndpoint: stub.Endpoint,
			intask.EnvPayload: task.Environment[intask.EnvPayload], intask.EnvPayloadKey: task.Environment[intask.EnvPayloadKey],
		}
		program := intask.Task{
			Env: func(name string) string { return env[name] }, Volumes: dir, HTTPClient: client, Log: said,
		}
		out = append(out, func() error { return program.Materialize(t.Context()) })
	}
	return out
}

// atRest has pods with tokens for an hour, in which each token is renewed once, and returns
// what keeping their files costs in that time.
func atRest(t *testing.T, s *stub.Server, cfg Config, pods int) stub.Bill {
	t.Helper()
	b := open(t, cfg)
	specs := make([]backend.LaunchSpec, pods)
	for i := range specs {
		specs[i] = richSpec(fmt.Sprint("p", i), 0)
		specs[i].Volumes[1].Files[0].Data = []byte(tokenOf(time.Hour))
		must(t, b.Pods.Launch(t.Context(), t.Context(), specs[i]))
	}
	time.Sleep(10 * time.Second)
	_, err := b.Pods.List(t.Context())
	must(t, err)
	agents := agentsOf(t, s)
	before := s.Bill()
	for look := range 12 { // burstlet-agent looks every 5 minutes
		time.Sleep(5 * time.Minute)
		for _, look := range agents {
			must(t, look())
		}
		if look != 8 { // a kubelet renews a token of an hour after 48 minutes
			continue
		}
		for i := range specs {
			specs[i].Volumes[1].Files = []backend.File{{Path: "token", Data: []byte(tokenOf(time.Hour)), Mode: 0o600}}
			must(t, b.Refresh.Refresh(t.Context(), specs[i].Ref(), specs[i].Volumes))
		}
	}
	return s.Bill().Minus(before)
}

// The files of pods with tokens cost a twentieth in a bucket, at most. With 1,000 of them
// the test takes minutes: make test-all.
func TestTokensCostATwentiethInTheBucket(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	const month = 730
	pods := lane.Pick(100, 100, 1000)
	cost := map[string]float64{}
	for name, configure := range map[string]func(*stub.Server) Config{
		"Secrets Manager": richConfig, "a bucket": bucketConfig,
	} {
		bucketed(t, func(t *testing.T, s *stub.Server) {
			bill := atRest(t, s, configure(s), pods)
			cost[name] = bill.Dollars() * month
			t.Logf("%d pods with tokens of an hour in %s: $%.2f a month: %+v an hour", pods, name, cost[name], bill)
		})
	}
	if cost["a bucket"] <= 0 || cost["a bucket"]*20 > cost["Secrets Manager"] {
		t.Errorf("dollars a month: %v", cost)
	}
}
