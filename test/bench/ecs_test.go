package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// What a task takes on the server, and the bars of design.md section 10.
const (
	ecsProvision, ecsPull = 20 * time.Second, 5 * time.Second
	// ecsTaskPull is the pull of burstlet's own image, of 6 MB, which comes before the
	// pod's: the agent pulls that once burstlet-init has ended.
	ecsTaskPull = "burstlet-task:1=1s"
	// ecsStarts is how long RunTask takes for manyPods: 20 a second, burst 20.
	ecsStarts    = 49 * time.Second
	barECSUp     = 1.1
	barDescribes = 30
	ecsLimit     = 5 * time.Minute
	// ecsRest is how long the node is left alone before its calls of a minute count.
	ecsRest = 90 * time.Second
)

// newECS starts the ECS server as a process, with AWS's rates.
func newECS(b *testing.B) ecs.Remote {
	b.Helper()
	path := filepath.Join(built.dir, "ecs")
	if _, err := goCommand("build", "-o", path, "../cmd/ecs"); err != nil {
		b.Fatal(err)
	}
	var said logs.Buffer
	c := child.ForTest(b, child.Config{Name: "the ECS server", Program: path, Stdout: &said, Args: []string{
		"--throttles", "--interfaces", "--provision", ecsProvision.String(), "--pull", ecsPull.String(),
		"--pull-of", ecsTaskPull, "--visible", "2s",
		"--deprovision", "3s",
	}})
	var server ecs.Remote
	wait.For(b, readyWait, "the ECS server's address", func() error {
		line, _, whole := strings.Cut(said.String(), "\n")
		url, ok := strings.CutPrefix(line, "ECS_URL=")
		if !whole || !ok {
			return errors.Join(fmt.Errorf("it says %q", line), c.Err())
		}
		server.URL = url
		return nil
	})
	return server
}

// newECSNode starts a burstlet node on the ECS server.
func newECSNode(b *testing.B, c *cluster, name string, server ecs.Remote) *node {
	b.Helper()
	// The server takes any credentials; nothing of this machine's is for it.
	b.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	b.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
	image, err := ecsprocess.Unpacked(v1.Config{Cmd: []string{"sh"}})
	if err != nil {
		b.Fatal(err)
	}
	registry, err := ecsprocess.ServeImages("127.0.0.1", map[string]v1.Image{"example.test/bench:1": image})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := registry.Close(); err != nil {
			b.Error(err)
		}
	})
	return newBurstletOn(b, c, name, fmt.Sprintf(`  type: ecs
  ecs:
    region: us-east-1
    cluster: default
    subnets: [subnet-a, subnet-b]
    securityGroups: [sg-a]
    executionRoleARN: arn:aws:iam::123456789012:role/execution
    taskRoleARN: arn:aws:iam::123456789012:role/task
    taskImage: burstlet-task:1
    endpoint: %s
    %s
`, server.URL, registry.Mirrors()), 2*manyPods)
}

// BenchmarkECSThousandPods is a Deployment of 1,000 pods with token volumes on
// ECS within AWS's rates: until all run, at rest, and scaled to 0.
func BenchmarkECSThousandPods(b *testing.B) {
	c := theCluster(b)
	server := newECS(b)
	n := contend(b, newECSNode(b, c, "bench-ecs", server))
	b.ResetTimer()
	start := time.Now()
	n.profiled(b, "ecs-up", func() {
		deploy(b, c, n.namespace, n.name, manyPods)
		n.watch.until(ecsLimit, manyPods)
	})
	results.bar(b, "ECS: 1,000 pods with tokens until all run", time.Since(start).Seconds(), "ecs-up-s", atMost,
		barECSUp*ecsStarts.Seconds()+(ecsProvision+ecsPull).Seconds())
	up := reportOf(b, server)
	results.bar(
		b, "ECS: definitions registered", float64(up.Calls["RegisterTaskDefinition"]), "ecs-registrations", atMost, 1,
	)
	results.bar(
		b, "ECS: throttling that reached a pod", float64(throttlings(b, c, n.namespace)), "ecs-throttled-pods", atMost, 0,
	)
	for _, action := range []string{"RunTask", "DescribeTasks", "ListTasks", "CreateSecret"} {
		results.tell(b, "ECS: "+action+" calls until all run, of them throttled "+fmt.Sprint(up.Throttled[action]),
			float64(up.Calls[action]), "ecs-up-"+action)
	}
	used, began := n.cpu(), time.Now()
	pause(b, ecsRest)
	rest := reportOf(b, server)
	results.bar(
		b, "ECS: DescribeTasks calls a minute at rest", float64(rest.LastMinute["DescribeTasks"]), "ecs-rest-describes",
		atMost, barDescribes,
	)
	results.tell(b, "ECS: ListTasks calls a minute at rest", float64(rest.LastMinute["ListTasks"]), "ecs-rest-lists")
	results.tell(
		b, "ECS: share of a core at rest", 100*(n.cpu()-used).Seconds()/time.Since(began).Seconds(), "ecs-rest-cpu-%",
	)

	start = time.Now()
	n.profiled(b, "ecs-down", func() {
		scale(b, c, n.namespace, 0)
		n.watch.until(ecsLimit, 0)
	})
	results.tell(b, "ECS: 1,000 pods scaled to 0", time.Since(start).Seconds(), "ecs-down-s")
	down := reportOf(b, server)
	live, secrets := 0, 0
	for _, t := range down.Tasks {
		if t.LastStatus != "STOPPED" {
			live++
		}
	}
	for _, s := range down.Secrets {
		if strings.Contains(s.Name, "/pod/") && !s.Deleted {
			secrets++
		}
	}
	results.bar(b, "ECS: tasks left after that", float64(live), "ecs-left-tasks", atMost, 0)
	results.bar(b, "ECS: secrets of pods left after that", float64(secrets), "ecs-left-secrets", atMost, 0)
	results.tell(
		b, "ECS: secrets shared by pods, kept until they were not used for a day",
		float64(len(down.Secrets)-deleted(down)-secrets), "ecs-shared-secrets",
	)
	n.running()
}

func deleted(r ecs.Report) int {
	count := 0
	for _, s := range r.Secrets {
		if s.Deleted {
			count++
		}
	}
	return count
}

func reportOf(b *testing.B, server ecs.Remote) ecs.Report {
	b.Helper()
	r, err := server.Report(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// deploy makes a Deployment whose pods are bound to a node from the start, so that
// no scheduler is measured.
func deploy(b *testing.B, c *cluster, namespace, node string, replicas int32) {
	b.Helper()
	template := pod(namespace, "", node, true)
	template.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{"app": "bench"}}
	template.Spec.Containers[0].Command = []string{"sleep", "1000000"}
	grace := int64(2)
	template.Spec.TerminationGracePeriodSeconds = &grace
	_, err := c.client.AppsV1().Deployments(namespace).Create(b.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

func scale(b *testing.B, c *cluster, namespace string, replicas int32) {
	b.Helper()
	_, err := c.client.AppsV1().Deployments(namespace).UpdateScale(b.Context(), "bench", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "bench", Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// throttlings counts the pods and Events that tell of throttling.
func throttlings(b *testing.B, c *cluster, namespace string) int {
	b.Helper()
	count := 0
	tells := func(text string) {
		if strings.Contains(text, "Throttling") || strings.Contains(text, "Rate exceeded") {
			count++
		}
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	events, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range events.Items {
		tells(e.Message)
	}
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range pods.Items {
		tells(p.Status.Message)
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil {
				tells(w.Message)
			}
		}
	}
	return count
}

// pause waits in real time.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	case <-time.After(d):
	}
}
