package e2e

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// How often burstlet is killed, and beside how many pods.
var (
	ecsKills = flag.Int("ecskills", lane.Pick(6, 6, 50), "SIGKILLs of TestKillOnECS")
	ecsPods  = flag.Int("ecspods", lane.Pick(40, 40, 60), "pods of TestKillOnECS")
	ecsJob   = flag.Int("ecsjob", lane.Pick(10, 10, 60), "pods of the Job of TestKillOnECS")
)

// ecsServer is an ECS in the test's process, which outlives burstlet, with AWS's
// rates.
type ecsServer struct {
	*ecs.Server
	url    string
	images *ecsprocess.Registry
}

func newECSServer(t *testing.T) ecsServer {
	t.Helper()
	s := ecs.New(ecs.Config{Throttles: true, Delays: ecs.Delays{
		Provision: 2 * time.Second, Pull: time.Second, Deprovision: time.Second, Visible: time.Second,
	}})
	url, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return ecsServer{s, url, lookUps(t)}
}

// lookUps serves what an image runs by default, where no container runs.
func lookUps(t *testing.T) *ecsprocess.Registry {
	t.Helper()
	image, err := ecsprocess.Unpacked(v1.Config{Cmd: []string{"sh"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ecsprocess.ServeImages("127.0.0.1", map[string]v1.Image{imageOf: image})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (s ecsServer) section() string {
	return fmt.Sprintf(`  type: ecs
  ecs:
    region: us-east-1
    cluster: default
    subnets: [subnet-a, subnet-b]
    executionRoleARN: arn:aws:iam::123456789012:role/execution
    taskRoleARN: arn:aws:iam::123456789012:role/task
    taskImage: burstlet-task:1
    settle: 20s
    endpoint: %s
    %s
`, s.url, s.images.Mirrors())
}

// count is the tasks of each pod that are not STOPPED, and those of them that run.
func (s ecsServer) count(*testing.T) (live, running map[types.UID]int) {
	live, running = map[types.UID]int{}, map[types.UID]int{}
	for _, task := range s.TaskInfos() {
		uid := types.UID(task.Tags["burstlet/uid"])
		if task.LastStatus != "STOPPED" {
			live[uid]++
		}
		if task.LastStatus == "RUNNING" {
			running[uid]++
		}
	}
	return live, running
}

// watchTwins looks for pods with two live tasks until the returned function is
// called, which says how many it found.
func (s ecsServer) watchTwins(t *testing.T) (stop func() []string) {
	end, done := make(chan struct{}), make(chan []string, 1)
	go func() {
		var twins []string
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				done <- twins
				return
			case <-tick.C:
				live, _ := s.count(t)
				for uid, n := range live {
					if n > 1 {
						twins = append(twins, fmt.Sprintf("%d live tasks of pod %s", n, uid))
					}
				}
			}
		}
	}()
	return func() []string {
		close(end)
		return <-done
	}
}

// everRan are the tasks of each pod that started, those that have ended too.
func (s ecsServer) everRan() map[string]int {
	ran := map[string]int{}
	for _, task := range s.TaskInfos() {
		if task.StopCode != "TaskFailedToStart" { // such as without a network interface
			ran[task.Tags["burstlet/uid"]]++
		}
	}
	return ran
}

// job makes a Job none of whose pods may fail or be lost.
func (r rollout) job(t *testing.T, name string, pods int32, change ...func(*corev1.Pod)) {
	t.Helper()
	pod := scenario{
		name: name, policy: "Never", argv: []string{"sh", "-c", "echo works; sleep 3"}, token: true,
	}.pod(r.namespace, r.n.name)
	for _, f := range change {
		f(pod)
	}
	_, err := r.c.client.BatchV1().Jobs(r.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &pods, Parallelism: new(int32(10)), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// jobSucceeds waits until each pod of the Job has run, once.
func (r rollout) jobSucceeds(t *testing.T, name string, pods int32) {
	t.Helper()
	wait.For(t, 3*patience, "the Job succeeds", func() error {
		job, err := r.c.client.BatchV1().Jobs(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := job.Status; s.Failed > 0 {
			t.Fatalf("pods of the Job failed: %+v", s)
		} else if s.Succeeded != pods || s.CompletionTime == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// TestKillOnECS kills burstlet with SIGKILL at random moments of a Deployment's
// rollout, of its replacement and of its end, beside a Job, pods with tokens, within
// AWS's rates: no pod ever has two tasks that started, each of the Job succeeds, in the
// end each of the Deployment has one, and with both all goes that is billed.
func TestKillOnECS(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 30*time.Second)
	c := theCluster(t)
	s := newECSServer(t)
	n := newNode(t, c, "kill-ecs", s.section(), ecsprocess.Access()...)
	n.run()
	r := rollout{c: c, n: n, namespace: c.namespace(t, "kill-ecs"), replicas: int32(*ecsPods), token: true}
	stop := s.watchTwins(t)
	r.begin(t)
	r.job(t, "job", int32(*ecsJob))
	random := randomness(t)
	kill := func(times int) {
		t.Helper()
		for range times {
			select {
			case <-time.After(time.Duration(100+random.Intn(1800)) * time.Millisecond):
			case <-n.ran.Done():
				t.Fatal(n.ran.Err())
			}
			n.kill()
			n.start()
		}
	}
	kill(*ecsKills / 2)
	r.roll(t, 2)
	kill(*ecsKills / 3)
	r.complete(t, 2*patience)
	r.jobSucceeds(t, "job", int32(*ecsJob))
	wait.For(
		t, patience, "ECS has what the API has, once", func() error { return r.sameAsAPI(t, s.count, neverRestarted) },
	)
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := errors.Join(
		c.client.AppsV1().Deployments(r.namespace).Delete(t.Context(), "web", background),
		r.c.client.BatchV1().Jobs(r.namespace).Delete(t.Context(), "job", background),
	); err != nil {
		t.Fatal(err)
	}
	kill(*ecsKills - *ecsKills/2 - *ecsKills/3)
	wait.For(t, patience, "all is gone", func() error {
		pods, err := c.client.CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d pods in the API", len(pods.Items)))
		}
		if live, _ := s.count(t); len(live) > 0 {
			return fmt.Errorf("live tasks of %d pods", len(live))
		}
		return nil
	})
	for _, twin := range stop() {
		t.Error(twin)
	}
	for uid, n := range s.everRan() {
		if n > 1 {
			t.Errorf("pod %s ran in %d tasks", uid, n)
		}
	}
	if cost := s.Cost(); cost.PerHour > 0 {
		t.Errorf("$%f an hour is billed still", cost.PerHour)
	}
	calls := s.Calls()
	t.Logf("%d RunTask, %d StopTask, %d RegisterTaskDefinition, %d DescribeTasks, %d ListTasks calls; throttled %v",
		calls["RunTask"], calls["StopTask"], calls["RegisterTaskDefinition"], calls["DescribeTasks"], calls["ListTasks"],
		s.Throttled())
}
