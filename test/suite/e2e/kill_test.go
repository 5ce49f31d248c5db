package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// rollout is a Deployment that is rolled out while burstlet is killed.
type rollout struct {
	c         *cluster
	n         *node
	namespace string
	replicas  int32
	token     bool
	// change is made to the pods' template, if it is not nil.
	change func(*corev1.Pod)
}

// counts are the attempts and the running containers that a remote has, by pod.
type counts func(*testing.T) (attempts, running map[types.UID]int)

// TestKill kills burstlet with SIGKILL at many random moments while a Deployment,
// with tokens, is rolled out again and again on a host over SSH. Nothing
// is ever doubled. In the end all of it run, each once, none restarted, and nothing
// else is left; a pod that crashed before keeps its count.
func TestKill(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 60*time.Second)
	burstletKilled(t, "kill")
}

// burstletKilled is what TestKill shows, on a host and node of its own.
func burstletKilled(t *testing.T, name string, options ...func(*remotehost.Config)) {
	c := theCluster(t)
	s := newSSHNode(t, c, name, options...)
	r := rollout{c: c, n: s.node, namespace: c.namespace(t, name), replicas: lane.Pick[int32](20, 20, 30), token: true}
	restarts := crash(t, c, s.node, r.namespace)
	r.killed(t, lane.Pick(15, 15, 50))
	wait.For(t, patience, "the remote has what the API has, once", func() error {
		return r.sameAsAPI(t, s.h.count, neverRestarted)
	})
	s.wellKept(t)
	pod, err := c.client.CoreV1().Pods(r.namespace).Get(t.Context(), "crashed", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now := pod.Status.ContainerStatuses[0].RestartCount; now < restarts {
		t.Errorf("the restart count of the crashed pod went from %d to %d", restarts, now)
	}
}

// TestKillOnSim does the same more often to a larger Deployment, with a simulated
// remote in a process of its own, whose pods have tokens: no pod is restarted, none
// that was adopted asks for a token again, and with the Deployment all goes, volumes
// too.
func TestKillOnSim(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 35*time.Second)
	c := theCluster(t)
	p := newSimProcess(t)
	view := p.as(c, "kill-sim")
	n := newNode(t, c, "kill-sim", p.section())
	n.run()
	r := rollout{c: c, n: n, namespace: c.namespace(t, "kill-sim"), replicas: lane.Pick[int32](60, 60, 100), token: true}
	r.killed(t, lane.Pick(20, 20, 50))
	same := func() error { return r.sameAsAPI(t, view.count, neverRestarted) }
	wait.For(t, patience, "the remote has what the API has, once", same)

	before := tokenRequests(t, n.name)
	for range 2 {
		n.kill()
		n.start()
	}
	witness := &life{T: t, c: c, n: n, remote: remote{mounts: true}, namespace: c.namespace(t, "kill-sim-witness")}
	pod := witness.create(witness.pod(forever))
	witness.until("the restarted node takes a pod", isReady)
	wait.For(t, patience, "the remote has what the API has, once", same)
	after := tokenRequests(t, n.name)
	for _, uid := range r.uids(t) {
		if before[uid] == 0 || after[uid] != before[uid] {
			t.Errorf("pod %s asked for %d tokens before the restarts and %d in all", uid, before[uid], after[uid])
		}
	}
	if after[pod.UID] != 1 {
		t.Errorf("the new pod asked for %d tokens", after[pod.UID])
	}

	force(t, c, pod)
	if err := c.client.AppsV1().Deployments(r.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "all is gone", func() error {
		if uids := r.uids(t); len(uids) > 0 {
			return fmt.Errorf("%d pods in the API", len(uids))
		}
		if left := view.left(t, ""); len(left) > 0 {
			return fmt.Errorf("on the remote: %v", left)
		}
		return nil
	})
}

// killed rolls the Deployment out while burstlet is killed so many times, and
// waits until that is done.
func (r rollout) killed(t *testing.T, kills int) {
	t.Helper()
	r.begin(t)
	r.n.disturbed(t, kills, 1, func(i int) {
		if i%4 == 2 {
			r.roll(t, i)
		}
	}, r.n.dies)
	r.complete(t, 2*patience)
}

// begin makes the Deployment.
func (r rollout) begin(t *testing.T) {
	t.Helper()
	deployments := r.c.client.AppsV1().Deployments(r.namespace)
	if _, err := deployments.Create(t.Context(), r.deployment(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// disturbed has something happen to the node at so many random moments, the pauses between
// which are so many times longer than elsewhere. Before each pause change is called.
func (n *node) disturbed(t *testing.T, times, slow int, change func(i int), happens func(*rand.Rand)) {
	t.Helper()
	random := randomness(t)
	for i := range times {
		change(i)
		select {
		case <-time.After(time.Duration(slow*(50+random.Intn(1500))) * time.Millisecond):
		case <-n.ran.Done():
			t.Fatalf("before disturbance %d: %v", i, n.ran.Err())
		}
		happens(random)
	}
}

// dies kills the process with SIGKILL and starts it again.
func (n *node) dies(*rand.Rand) {
	n.t.Helper()
	n.kill()
	n.start()
}

// seedEnv names the environment variable with the seed of a run to be had again.
const seedEnv = "BURSTLET_SEED"

// randomness is that of the test, whose seed it tells.
func randomness(t *testing.T) *rand.Rand {
	t.Helper()
	seed := time.Now().UnixNano()
	if given := os.Getenv(seedEnv); given != "" {
		var err error
		if seed, err = strconv.ParseInt(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	t.Logf("%s=%d makes the same choices", seedEnv, seed)
	return rand.New(rand.NewSource(seed))
}

// complete waits until the rollout is.
func (r rollout) complete(t *testing.T, patience time.Duration) {
	t.Helper()
	wait.For(t, patience, "the rollout completes", func() error { return r.isComplete(t) })
}

func (r rollout) isComplete(t *testing.T) error {
	t.Helper()
	d, err := r.c.client.AppsV1().Deployments(r.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != r.replicas ||
		s.ReadyReplicas != r.replicas || s.Replicas != r.replicas {
		return fmt.Errorf("%d replicas, %d updated, %d ready", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
	}
	return nil
}

// crash makes a pod that crash-loops and returns its restart count.
func crash(t *testing.T, c *cluster, n *node, namespace string) int32 {
	t.Helper()
	ctx := t.Context()
	crashed := scenario{name: "crashed", policy: "Always", argv: []string{
		"sh", "-c", "exit 1",
	}}.pod(namespace, n.name)
	if _, err := c.client.CoreV1().Pods(namespace).Create(ctx, crashed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := wait.Pod(t, c.client, namespace, "crashed", patience, "crashes", phaseIs(corev1.PodRunning, crashLoops))
	return pod.Status.ContainerStatuses[0].RestartCount
}

func (r rollout) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	pod := scenario{name: "web", policy: "Always", argv: forever, token: r.token}.pod(r.namespace, r.n.name)
	if r.change != nil {
		r.change(pod)
	}
	most := intstr.FromInt32(10)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &r.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &most, MaxUnavailable: &most},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}

// roll changes the template, so that every pod is replaced.
func (r rollout) roll(t *testing.T, version int) {
	t.Helper()
	deployments := r.c.client.AppsV1().Deployments(r.namespace)
	wait.For(t, patience, "roll out", func() error {
		d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		setVersion(&d.Spec.Template, version)
		_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
		return err
	})
}

// setVersion changes a template.
func setVersion(template *corev1.PodTemplateSpec, version int) {
	container := &template.Spec.Containers[0]
	container.Env = append(
		slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "VERSION" }),
		corev1.EnvVar{Name: "VERSION", Value: fmt.Sprint(version)},
	)
}

func (r rollout) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := r.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// list is pods for those who look again after an error.
func (r rollout) list(ctx context.Context) ([]corev1.Pod, error) {
	list, err := r.c.client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (r rollout) uids(t *testing.T) []types.UID {
	t.Helper()
	var uids []types.UID
	for _, pod := range r.pods(t) {
		uids = append(uids, pod.UID)
	}
	return uids
}

// sameAsAPI compares what the remote has with the API's pods, each of which must
// be well.
func (r rollout) sameAsAPI(t *testing.T, count counts, well func(*corev1.Pod) error) error {
	t.Helper()
	wanted := map[types.UID]bool{}
	pods, err := r.list(t.Context())
	if err != nil {
		return err
	}
	others, err := r.others(t.Context())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		wanted[pod.UID] = true
		if err := phaseIs(corev1.PodRunning, ready)(&pod); err != nil {
			return fmt.Errorf(
				"pod %s, deleted at %v with finalizers %v: %w", pod.Name, pod.DeletionTimestamp, pod.Finalizers, err,
			)
		}
		if err := well(&pod); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	if len(wanted) != int(r.replicas) {
		return fmt.Errorf("%d pods", len(wanted))
	}
	attempts, running := count(t)
	for uid, n := range attempts {
		if wanted[uid] && n != 1 || !wanted[uid] && !others[uid] {
			return fmt.Errorf("%d attempts of pod %s, which the API has: %v", n, uid, wanted[uid])
		}
	}
	for uid := range wanted {
		if attempts[uid] != 1 || running[uid] != 1 {
			return fmt.Errorf("pod %s has %d attempts and %d running containers", uid, attempts[uid], running[uid])
		}
	}
	return nil
}

// others are the node's pods in the API that are not of the Deployment.
func (r rollout) others(ctx context.Context) (map[types.UID]bool, error) {
	list, err := r.c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		LabelSelector: "app!=web", FieldSelector: fields.OneTermEqualSelector("spec.nodeName", r.n.name).String(),
	})
	if err != nil {
		return nil, err
	}
	uids := map[types.UID]bool{}
	for i := range list.Items {
		uids[list.Items[i].UID] = true
	}
	return uids, nil
}
