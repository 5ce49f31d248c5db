package ecs

import (
	"context"
	"crypto/rand"
	"encoding/json"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// What may stand nowhere in the clear.
const (
	canaryToken    = "canary-token"
	canaryPassword = "canary-password"
)

// richConfig is that of a node that has all that payloads need.
func richConfig(s *stub.Server) Config {
	cfg := configOf(s)
	cfg.TaskImage, cfg.Images = "burstlet/burstlet:1", anyImages{}
	cfg.ExecutionRoleARN = "arn:aws:iam::123456789012:role/execution"
	cfg.TaskRoleARN = "arn:aws:iam::123456789012:role/task"
	return cfg
}

// richSpec is a pod with a variable from a Secret, files of a ConfigMap and a token.
func richSpec(name string, attempt int) backend.LaunchSpec {
	pod := podOf(name, "sh", "-c", "trap 'exit 0' TERM; sleep 100000000")
	config := corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "app"}},
	}
	token := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
	}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: config}, {Name: "token", VolumeSource: token}}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {
		Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true,
	}}
	c.Env = []corev1.EnvVar{{
		Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "password"}},
	}}
	spec := specOf(pod, attempt)
	spec.Containers[0].Container.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: canaryPassword}}
	spec.Containers[0].Origins.Env = map[string]backend.Origin{"PASSWORD": backend.OriginSecret}
	spec.Volumes = []backend.VolumeSpec{
		{Pod: pod, Name: "config", Source: config, Files: []backend.File{{
			Path: "app.conf", Data: []byte("x=1"), Mode: 0o644,
		}}},
		{Pod: pod, Name: "token", Source: token, Files: []backend.File{{
			Path: "token", Data: []byte(canaryToken + "-of-" + name), Mode: 0o600,
		}}},
	}
	return spec
}

// rich runs f in virtual time with a server and a backend that keeps payloads.
func rich(t *testing.T, cfg stub.Config, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(cfg)
		f(t, s, open(t, richConfig(s)))
	})
}

// kinds counts the secrets that are there by their kind.
func kinds(s *stub.Server) string {
	n := map[string]int{}
	for _, secret := range s.Secrets() {
		if parts := strings.Split(secret.Name, "/"); !secret.Deleted && len(parts) > 2 {
			n[parts[2]]++
		}
	}
	return fmt.Sprintf("%d salt, %d shared, %d pod", n["salt"], n["shared"], n["pod"])
}

// gone removes a pod until nothing is left of it.
func gone(t *testing.T, b backend.Backend, ref backend.Ref) {
	t.Helper()
	for range 200 {
		err := b.Pods.Remove(t.Context(), ref)
		if backend.Class(err) == "NotFound" {
			return
		}
		must(t, err)
		time.Sleep(time.Second)
	}
	t.Fatal("it is never gone")
}

func TestPodsOfOneShapeShareTheirSecrets(t *testing.T) {
	rich(t, stub.Config{Throttles: true, Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		const pods = 30
		errs := make(chan error, pods)
		for i := range pods {
			go func() { errs <- b.Pods.Launch(t.Context(), t.Context(), richSpec(fmt.Sprint("p", i), 0)) }()
		}
		for range pods {
			must(t, <-errs)
		}
		if got, want := kinds(s), "1 salt, 2 shared, 30 pod"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if n := s.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Errorf("%d definitions were registered", n)
		}
		if n := s.Calls()["CreateSecret"]; n != pods+3 {
			t.Errorf("%d calls made secrets", n)
		}
		time.Sleep(time.Minute)
		for i := range pods {
			f, err := b.Pods.Inspect(t.Context(), uids(fmt.Sprint("p", i)))
			if p := only(t, f, err); len(p.Containers) != 1 || p.Containers[0].State() != backend.Running {
				t.Fatalf("%+v", p)
			}
			gone(t, b, richSpec(fmt.Sprint("p", i), 0).Ref())
		}
		if got, want := kinds(s), "1 salt, 2 shared, 0 pod"; got != want {
			t.Errorf("with the pods gone: %s, want %s", got, want)
		}
		for what, n := range s.Throttled() {
			t.Errorf("%s was throttled %d times", what, n)
		}
	})
}

func TestNothingSecretStandsInTheClear(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("web", 0)))
		tasks := tasksOf(t, s)
		c := sdkOf(t, s)
		defs, err := c.ECS.DescribeTaskDefinition(
			t.Context(), &awsecs.DescribeTaskDefinitionInput{TaskDefinition: tasks.Tasks[0].TaskDefinitionArn},
		)
		must(t, err)
		report, err := json.Marshal(s.Report())
		must(t, err)
		for what, v := range map[string]any{
			"tasks": tasks, "definitions": defs.TaskDefinition, "names and tags": json.RawMessage(report),
		} {
			text, err := json.Marshal(v)
			must(t, err)
			if strings.Contains(string(text), "canary") {
				t.Errorf("in the %s: %s", what, text)
			}
		}
		for _, secret := range s.Secrets() {
			if !strings.Contains(secret.Name, "/pod/") {
				continue
			}
			out, err := c.Secrets.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &secret.Name})
			must(t, err)
			packed, err := podfiles.Join(func(int) (string, error) { return *out.SecretString, nil })
			must(t, err)
			if _, err := podfiles.Unpack(packed); err == nil {
				t.Error("the store alone gives the token away")
			}
		}
	})
}

// sdkOf are clients of the server.
func sdkOf(t *testing.T, s *stub.Server) clients.Clients {
	t.Helper()
	c, err := clients.New(t.Context(), configOf(s).clients())
	must(t, err)
	return c
}

func tasksOf(t *testing.T, s *stub.Server) *awsecs.DescribeTasksOutput {
	t.Helper()
	out, err := sdkOf(t, s).ECS.DescribeTasks(
		t.Context(), &awsecs.DescribeTasksInput{Cluster: aws.String("default"), Tasks: s.Tasks(true)},
	)
	must(t, err)
	if len(out.Tasks) == 0 {
		t.Fatal("there is no task")
	}
	return out
}

// inside answers what a container of a task asks: ECS's credentials by itself, all
// else by the server.
type inside struct{ server http.RoundTripper }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "169.254.170.2" {
		return i.server.RoundTrip(r)
	}
	body := `{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"not-a-secret","Token":""}`
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{},
	}, nil
}

// materialized runs the real in-task program as burstlet-init of a task would, and
// returns the directories that the app container then sees, by where it mounts them.
func materialized(t *testing.T, s *stub.Server) map[string]string {
	t.Helper()
	c := sdkOf(t, s)
	task := tasksOf(t, s).Tasks[0]
	defs, err := c.ECS.DescribeTaskDefinition(
		t.Context(), &awsecs.DescribeTaskDefinitionInput{TaskDefinition: task.TaskDefinitionArn},
	)
	must(t, err)
	env := map[string]string{
		"AWS_REGION": "us-east-1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x", intask.EnvEndpoint: stub.Endpoint,
	}
	dir := t.TempDir()
	mounts, volumes := map[string]string{}, map[string]string{}
	for _, def := range defs.TaskDefinition.ContainerDefinitions {
		if !strings.HasPrefix(*def.Name, "burstlet-") {
			for _, m := range def.MountPoints {
				mounts[*m.ContainerPath] = *m.SourceVolume
			}
			continue
		}
		for _, e := range def.Environment {
			env[*e.Name] = *e.Value
		}
		for _, from := range def.Secrets {
			out, err := c.Secrets.GetSecretValue(
				t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(secretARN(*from.ValueFrom))},
			)
			must(t, err)
			env[*from.Name] = *out.SecretString
		}
		for _, m := range def.MountPoints {
			volumes[*m.SourceVolume] = filepath.Join(dir, strings.TrimPrefix(*m.ContainerPath, intask.VolumesDir))
			must(t, os.MkdirAll(volumes[*m.SourceVolume], 0o755))
		}
	}
	for _, o := range task.Overrides.ContainerOverrides {
		for _, e := range o.Environment {
			env[*e.Name] = *e.Value
		}
	}
	_, err = intask.Task{
		Env: func(name string) string { return env[name] }, Volumes: dir, RunDir: filepath.Join(dir, "run"), Bin: t.TempDir(),
		HTTPClient: &http.Client{Transport: inside{s.Client().Transport}}, Log: log.New(t.Output(), "", 0),
	}.Run(t.Context(), []string{intask.CommandMaterialize})
	must(t, err)
	for path, volume := range mounts {
		mounts[path] = volumes[volume]
	}
	return mounts
}

func TestFilesArriveInTheTask(t *testing.T) {
	random := make([]byte, 150_000)
	_, _ = rand.Read(random)
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("web", 0)
		for i := range spec.Volumes { // several parts of each kind
			spec.Volumes[i].Files = append(spec.Volumes[i].Files, backend.File{Path: "big", Data: random, Mode: 0o444})
		}
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		dirs := materialized(t, s)
		for i, v := range spec.Volumes {
			dir := dirs[spec.Pod.Spec.Containers[0].VolumeMounts[i].MountPath]
			for _, f := range v.Files {
				got, err := os.ReadFile(filepath.Join(dir, f.Path))
				if err != nil || !slices.Equal(got, f.Data) {
					t.Errorf("%s/%s: %d bytes, %v", v.Name, f.Path, len(got), err)
				}
			}
		}
		if got, want := kinds(s), "1 salt, 5 shared, 4 pod"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		gone(t, b, spec.Ref())
		if got, want := kinds(s), "1 salt, 5 shared, 0 pod"; got != want {
			t.Errorf("with the pod gone: %s, want %s", got, want)
		}
	})
}

func TestTooMuchIsRefusedBeforeAnythingIsSpent(t *testing.T) {
	random := make([]byte, 1_000_000)
	_, _ = rand.Read(random)
	for name, change := range map[string]func(*backend.LaunchSpec){
		"files of the shape":         func(s *backend.LaunchSpec) { s.Volumes[0].Files[0].Data = random },
		"files of the pod":           func(s *backend.LaunchSpec) { s.Volumes[1].Files[0].Data = random },
		"a variable that is no text": func(s *backend.LaunchSpec) { s.Containers[0].Container.Env[0].Value = "canary\xff" },
		"variables": func(s *backend.LaunchSpec) {
			s.Containers[0].Container.Env[0].Value = strings.Repeat("canary", 20_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
				spec := richSpec("web", 0)
				change(&spec)
				err := b.Pods.Launch(t.Context(), t.Context(), spec)
				wantClass(t, err, "Invalid")
				if strings.Contains(err.Error(), "canary") {
					t.Error("the error tells the secret")
				}
				if calls := s.Calls(); len(calls) != 0 {
					t.Errorf("calls were made: %v", calls)
				}
			})
		})
	}
}

func TestALaunchWhoseAnswerWasLostKeepsItsSecret(t *testing.T) {
	rich(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("web", 0)
		lost := true
		s.Hook(nil, func(c stub.Call) error {
			if c.Action == "RunTask" && lost {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Unavailable")
		lost = false
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		if n, got := len(s.Tasks(true)), kinds(s); n != 1 || got != "1 salt, 2 shared, 1 pod" {
			t.Errorf("%d tasks; %s", n, got)
		}
		gone(t, b, spec.Ref())
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestANewProcessAdoptsTheTaskAndBothSecretsGoWithIt(t *testing.T) {
	rich(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("web", 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		b = open(t, richConfig(s))
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec)) // its outcome was not known
		if n, got := len(s.Tasks(true)), kinds(s); n != 1 || got != "1 salt, 2 shared, 2 pod" {
			t.Errorf("%d tasks; %s", n, got)
		}
		if n := s.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Errorf("%d definitions: the names of shared secrets are not the same in each process", n)
		}
		gone(t, b, spec.Ref())
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestANewProcessReleasesWhatItOnlySaw(t *testing.T) {
	rich(t, stub.Config{Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("web", 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		b = open(t, richConfig(s))
		facts, err := b.Pods.List(t.Context())
		only(t, facts, err)
		gone(t, b, spec.Ref())
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestASecretThatCannotBeDeletedKeepsThePod(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("web", 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		s.Deny(stub.Denial{Principal: stub.Caller, Action: "secretsmanager:DeleteSecret"})
		for range 5 {
			if err := b.Pods.Remove(t.Context(), spec.Ref()); backend.Class(err) == "NotFound" {
				t.Fatal("it is said to be gone, and its secret is still paid for")
			}
			time.Sleep(time.Minute)
		}
		s.AllowAll()
		gone(t, b, spec.Ref())
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestARefusedLaunchLeavesNoSecretBehind(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Shortage("", "", true)
		spec := richSpec("web", 0)
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Capacity")
		spec.Try = 1
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Capacity")
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" {
			t.Errorf("%s: one secret serves all tries", got)
		}
		time.Sleep(time.Hour)
		gone(t, b, spec.Ref())
		if got := kinds(s); got != "1 salt, 2 shared, 0 pod" {
			t.Error(got)
		}
	})
}

func TestASharedSecretThatWasDeletedByHandIsMadeAnew(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		c := sdkOf(t, s)
		for _, secret := range s.Secrets() {
			if strings.Contains(secret.Name, "/shared/env.") {
				_, err := c.Secrets.DeleteSecret(
					t.Context(), &secretsmanager.DeleteSecretInput{SecretId: &secret.Name, ForceDeleteWithoutRecovery: aws.Bool(true)},
				)
				must(t, err)
			}
		}
		time.Sleep(10 * time.Minute) // what was seen is verified again
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("b", 0)))
		if got := kinds(s); got != "1 salt, 2 shared, 2 pod" {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		facts, err := b.Pods.Inspect(t.Context(), uids("b"))
		if p := only(t, facts, err); !p.Live || p.Containers[0].State() != backend.Running {
			t.Errorf("%+v", p)
		}
	})
}

func TestPayloadsWaitForTheirContext(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Inject(stub.Fault{
			Action: "CreateSecret", Code: "InternalServiceError", Status: http.StatusInternalServerError, Times: 100,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantClass(t, b.Pods.Launch(ctx, ctx, richSpec("web", 0)), "Unavailable")
		if n := len(s.Tasks(false)); n != 0 {
			t.Errorf("%d tasks without their payload", n)
		}
	})
}

// uids are those of pods made by podOf.
func uids(names ...string) []types.UID {
	var out []types.UID
	for _, name := range names {
		out = append(out, podOf(name).UID)
	}
	return out
}
