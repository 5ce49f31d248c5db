package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// scenario is one pod's life.
type scenario struct {
	name   string
	policy corev1.RestartPolicy
	init   []string
	argv   []string
	image  string
	// token leaves the pod the volume of its service account's token.
	token bool
	// want is checked until it holds; nil for scenarios that end at once.
	want func(*corev1.Pod) error
	// end does something to the pod, after which it must go from the API and
	// from the remote; nil deletes it with a grace of 5 s.
	end func(t *testing.T, c *cluster, pod *corev1.Pod)
}

// forever runs until it hears TERM. It starts no process on its way, as a loop would that
// sleeps: a hundred pods of that kind start a thousand a second.
var forever = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"}

// scenarios is the table that every remote passes.
var scenarios = []scenario{
	{name: "success", policy: "Never", argv: []string{"true"}, want: phaseIs("Succeeded", exited(0, "Completed"))},
	{
		name: "failure-never", policy: "Never", argv: []string{"sh", "-c", "exit 3"},
		want: phaseIs("Failed", exited(3, "Error")),
	},
	{
		name: "failure-onfailure", policy: "OnFailure", argv: []string{"sh", "-c", "exit 1"},
		want: phaseIs("Running", crashLoops),
	},
	{name: "failure-always", policy: "Always", argv: []string{"sh", "-c", "exit 1"}, want: phaseIs("Running", crashLoops)},
	{
		name: "success-onfailure", policy: "OnFailure", argv: []string{"true"},
		want: phaseIs("Succeeded", exited(0, "Completed")),
	},
	{name: "init-then-run", policy: "Always", init: []string{"true"}, argv: forever, want: phaseIs("Running", ready)},
	{
		name: "init-failure-never", policy: "Never", init: []string{"sh", "-c", "exit 2"}, argv: forever,
		want: phaseIs("Failed", initFailed),
	},
	{
		name: "init-failure-always", policy: "Always", init: []string{"sh", "-c", "exit 2"}, argv: forever,
		want: phaseIs("Pending", initRestarts),
	},
	{name: "image-missing", policy: "Never", argv: forever, image: missingImage, want: phaseIs("Pending", pullFails)},
	{name: "delete-while-starting", policy: "Always", init: []string{"sleep", "2"}, argv: forever},
	{name: "delete-while-running", policy: "Always", argv: forever, want: phaseIs("Running", ready)},
	{name: "vanished", policy: "Always", argv: forever, want: phaseIs("Running", ready), end: force},
}

// phaseIs wants a phase, and more of the status.
func phaseIs(phase corev1.PodPhase, more ...func(*corev1.PodStatus) error) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		s := &pod.Status
		if s.Phase != phase {
			return fmt.Errorf("phase %s, want %s (%s)", s.Phase, phase, states(s))
		}
		for _, want := range more {
			if err := want(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func states(s *corev1.PodStatus) string {
	var words []string
	for _, c := range append(append([]corev1.ContainerStatus{}, s.InitContainerStatuses...), s.ContainerStatuses...) {
		words = append(words, fmt.Sprintf("%s restarts=%d %s", c.Name, c.RestartCount, c.State.String()))
	}
	return strings.Join(words, "; ")
}

func app(s *corev1.PodStatus) (corev1.ContainerStatus, error) {
	if len(s.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}, fmt.Errorf("%d container statuses", len(s.ContainerStatuses))
	}
	return s.ContainerStatuses[0], nil
}

func exited(code int32, reason string) func(*corev1.PodStatus) error {
	return func(s *corev1.PodStatus) error {
		c, err := app(s)
		if err != nil {
			return err
		}
		t := c.State.Terminated
		if t == nil || t.ExitCode != code || t.Reason != reason || t.FinishedAt.IsZero() || c.RestartCount != 0 ||
			c.ContainerID == "" {
			return fmt.Errorf("%s, want exit %d %s", states(s), code, reason)
		}
		return condition(s, corev1.PodReady, corev1.ConditionFalse)
	}
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType, want corev1.ConditionStatus) error {
	for _, c := range s.Conditions {
		if c.Type == kind && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("condition %s is not %s: %v", kind, want, s.Conditions)
}

func crashLoops(s *corev1.PodStatus) error {
	c, err := app(s)
	if err != nil {
		return err
	}
	w, last := c.State.Waiting, c.LastTerminationState.Terminated
	if w == nil || w.Reason != "CrashLoopBackOff" || last == nil || last.ExitCode != 1 || c.RestartCount < 1 {
		return fmt.Errorf("%s, want CrashLoopBackOff after exit 1", states(s))
	}
	return nil
}

func ready(s *corev1.PodStatus) error {
	c, err := app(s)
	if err != nil {
		return err
	}
	if c.State.Running == nil || !c.Ready || s.PodIP == "" || s.HostIP == "" || s.StartTime == nil {
		return fmt.Errorf("%s podIP %q hostIP %q", states(s), s.PodIP, s.HostIP)
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		if err := condition(s, kind, corev1.ConditionTrue); err != nil {
			return err
		}
	}
	return nil
}

func initFailed(s *corev1.PodStatus) error {
	if len(s.InitContainerStatuses) != 1 {
		return fmt.Errorf("%d init container statuses", len(s.InitContainerStatuses))
	}
	if t := s.InitContainerStatuses[0].State.Terminated; t == nil || t.ExitCode != 2 {
		return fmt.Errorf("%s, want init exit 2", states(s))
	}
	return condition(s, corev1.PodInitialized, corev1.ConditionFalse)
}

func initRestarts(s *corev1.PodStatus) error {
	if len(s.InitContainerStatuses) != 1 || s.InitContainerStatuses[0].RestartCount < 1 {
		return fmt.Errorf("%s, want restarts of the init container", states(s))
	}
	return nil
}

func pullFails(s *corev1.PodStatus) error {
	c, err := app(s)
	if err != nil {
		return err
	}
	if w := c.State.Waiting; w == nil || w.Reason != "ErrImagePull" && w.Reason != "ImagePullBackOff" ||
		c.RestartCount != 0 {
		return fmt.Errorf("%s, want ErrImagePull or ImagePullBackOff and no restart", states(s))
	}
	return nil
}

func force(t *testing.T, c *cluster, pod *corev1.Pod) {
	t.Helper()
	zero := int64(0)
	if err := c.client.CoreV1().Pods(pod.Namespace).Delete(
		t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero},
	); err != nil {
		t.Error(err)
	}
}

func graceful(t *testing.T, c *cluster, pod *corev1.Pod) {
	t.Helper()
	grace := int64(5)
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil {
		t.Error(err)
	}
}

// pod makes the scenario's pod for the scheduler to bind to a node.
func (s scenario) pod(namespace, node string) *corev1.Pod {
	image := imageOf
	if s.image != "" {
		image = s.image
	}
	grace := int64(30)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name},
		Spec: corev1.PodSpec{
			RestartPolicy: s.policy, AutomountServiceAccountToken: &s.token, TerminationGracePeriodSeconds: &grace,
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Tolerations:  []corev1.Toleration{{Key: "virtual-kubelet.io/provider", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{
				{Name: "app", Image: image, Command: s.argv, ImagePullPolicy: corev1.PullIfNotPresent},
			},
		},
	}
	if s.init != nil {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "init", Image: image, Command: s.init, ImagePullPolicy: corev1.PullIfNotPresent},
		}
	}
	return pod
}

// TestScenarios runs the one table on every kind of remote.
func TestScenarios(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 15*time.Second)
	for _, kind := range allRemotes {
		t.Run(kind.name, func(t *testing.T) {
			c := theCluster(t)
			name := "scenarios-" + kind.name
			remote := kind.make(t, c, name)
			n := newNode(t, c, name, remote.backend, remote.env...)
			n.run()
			namespace := c.namespace(t, name)
			var (
				mu          sync.Mutex
				there, gone []time.Duration
			)
			together(t, scenarios, func(s scenario) string { return s.name }, func(t *testing.T, s scenario) {
				s.token = remote.mounts
				came, went := s.run(t, c, n, remote, namespace)
				mu.Lock()
				defer mu.Unlock()
				if came > 0 {
					there = append(there, came)
				}
				if went > 0 {
					gone = append(gone, went)
				}
			})
			t.Logf("scenarios came to be so after %s, and went after %s", there, gone)
			if remote.prompt && !t.Failed() && max(slices.Min(there), slices.Min(gone)) > soon {
				t.Errorf("none came or none went within %s", soon)
			}
			if remote.prompt && !t.Failed() && max(median(there), median(gone)) > halfway {
				t.Errorf("half of them came or went later than after %s", halfway)
			}
			if remote.all != nil {
				wait.For(t, patience, "nothing left on the remote", func() error {
					if ids := remote.all(t); len(ids) > 0 {
						return fmt.Errorf("still there: %v", ids)
					}
					return nil
				})
			}
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// row is one of a table whose rows are run on what is of type L.
type row[L any] struct {
	name string
	run  func(L)
}

func (r row[L]) title() string { return r.name }

// allStay is true where all that rows made stays until the last has passed, on every kind of
// remote. Elsewhere the machine is spared what keeps it busy.
var allStay = lane.Pick(false, false, true)

// areRows ends the test unless each name is a row's.
func areRows[L any](t *testing.T, names []string, rows []row[L]) {
	t.Helper()
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r row[L]) bool { return r.name == name }) {
			t.Fatalf("no row is called %q", name)
		}
	}
}

// together runs a table's rows all at once: they wait for time and for the
// cluster, not for a core, so that -parallel is no measure for them.
func together[T any](t *testing.T, rows []T, name func(T) string, run func(*testing.T, T)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, row := range rows {
		wg.Go(func() { t.Run(name(row), func(t *testing.T) { run(t, row) }) })
	}
	wg.Wait()
}

// run returns how long the pod took to be what the scenario wants, and to go from
// the API when it ran; 0 where that says nothing of the remote.
func (s scenario) run(t *testing.T, c *cluster, n *node, r remote, namespace string) (came, went time.Duration) {
	ctx, began := t.Context(), time.Now()
	pods := c.client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, s.pod(namespace, n.name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var now *corev1.Pod
	if s.want != nil {
		now = wait.Pod(t, c.client, namespace, s.name, patience, "gets there", s.want)
	} else { // on its way, but not there yet
		now = wait.Pod(t, c.client, namespace, s.name, patience, "is taken by the node", isTaken)
	}
	if s.end == nil {
		s.end = graceful
	}
	if s.want != nil {
		came = time.Since(began)
	}
	began = time.Now()
	s.end(t, c, pod)
	wait.PodGone(t, c.client, namespace, s.name, patience)
	// Gone from the API only after the remote, unless the API server lets the pod
	// go at once: by force, or because it had ended (pod strategy,
	// CheckGracefulDelete).
	after := now.DeletionTimestamp == nil && s.name != "vanished" && !ended(&now.Status)
	if after {
		went = time.Since(began)
	}
	if r.live == nil {
		return came, went
	}
	left := func() error {
		if ids := r.live(t, pod); len(ids) > 0 {
			return fmt.Errorf("still on the remote: %v", ids)
		}
		return nil
	}
	if after {
		if err := left(); err != nil {
			t.Error(err)
		}
	}
	wait.For(t, patience, s.name+" gone from the remote", left)
	return came, went
}

// isTaken is nil for a pod that its node has taken.
func isTaken(pod *corev1.Pod) error {
	if pod.Status.StartTime == nil {
		return errors.New("the node has not taken it")
	}
	return nil
}

func ended(s *corev1.PodStatus) bool {
	return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
}
