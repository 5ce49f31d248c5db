package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// Kinds of remote that rows of the table run on.
const (
	onSim     = "sim-process"
	onPodUnit = "sim-process-pod" // as on ECS
	onCRI     = "cri"
)

// behaviour is one thing that users rely on.
type behaviour struct {
	name string
	// on are the remotes that can do it.
	on  []string
	run func(*life)
}

// life is one row being run: its pods have a namespace of their own.
type life struct {
	*testing.T
	c         *cluster
	n         *node
	remote    remote
	namespace string
	// slow is how many times longer than elsewhere things may take on the remote.
	slow int
}

// behaviours is the table: what is in a pod, how it lives, and what is refused.
func behaviours() []behaviour {
	return slices.Concat(objectBehaviours, lifeBehaviours, admissionBehaviours)
}

// TestBehaviours runs each row on the remotes that it names, all on one node.
func TestBehaviours(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 65*time.Second)
	for _, kind := range allRemotes {
		rows := slices.DeleteFunc(behaviours(), func(b behaviour) bool { return !slices.Contains(b.on, kind.name) })
		if len(rows) == 0 {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			c := theCluster(t)
			name := "behaves-" + kind.name
			remote := kind.make(t, c, name)
			n := newNode(t, c, name, remote.backend, remote.env...)
			n.edit("logging:", "pods: {hostNetwork: false}\nlogging:")
			n.run()
			together(t, rows, func(b behaviour) string { return b.name }, func(t *testing.T, b behaviour) {
				b.run(&life{T: t, c: c, n: n, remote: remote, namespace: c.namespace(t, kind.name+"-"+b.name)})
			})
			t.Run("restarted", func(t *testing.T) { adopts(t, c, n) })
		})
	}
}

// adopts restarts burstlet, which leaves every pod of the rows as it is, but for
// those that ended before: they may end again at any moment.
func adopts(t *testing.T, c *cluster, n *node) {
	before := running(t, c, n, neverRestarted)
	if len(before) == 0 {
		t.Fatal("no row left a pod that is Ready")
	}
	n.kill()
	n.start()
	witness := &life{T: t, c: c, n: n, namespace: c.namespace(t, n.name+"-witness")}
	witness.create(witness.pod(forever))
	witness.until("the restarted node takes a pod", isReady)
	// A node that was away for long may have had its pods called not Ready.
	wait.For(t, patience, "the pods are what they were", func() error {
		after := running(t, c, n, neverRestarted)
		var changed []error
		for pod, was := range before {
			if is := after[pod]; is != was {
				changed = append(
					changed, fmt.Errorf("pod %s: before the restart %s, after it %s", pod, was, cmp.Or(is, witness.now(pod))),
				)
			}
		}
		return errors.Join(changed...)
	})
}

// now describes a pod that is not Ready any more.
func (l *life) now(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	pod, err := l.c.client.CoreV1().Pods(namespace).Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("deletion %v, conditions %v, %s", pod.DeletionTimestamp, pod.Status.Conditions, states(&pod.Status))
}

// ending are the namespaces that are being deleted. Their pods follow, some time later.
func ending(t *testing.T, c *cluster) map[string]bool {
	t.Helper()
	list, err := c.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ending := map[string]bool{}
	for i := range list.Items {
		ending[list.Items[i].Name] = list.Items[i].DeletionTimestamp != nil
	}
	return ending
}

// running describes the containers of the node's Ready pods that are wanted.
func running(t *testing.T, c *cluster, n *node, wanted func(*corev1.Pod) error) map[string]string {
	t.Helper()
	list, err := c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ending := ending(t, c)
	ready := map[string]string{}
	for i := range list.Items {
		pod := &list.Items[i]
		if ending[pod.Namespace] || pod.DeletionTimestamp != nil || isReady(pod) != nil || wanted(pod) != nil {
			continue
		}
		var b strings.Builder
		for _, s := range pod.Status.ContainerStatuses {
			fmt.Fprintf(&b, "%s restarted %d times, since %s; ", s.ContainerID, s.RestartCount, s.State.Running.StartedAt)
		}
		ready[pod.Namespace+"/"+pod.Name] = b.String()
	}
	return ready
}

// pod is one that the scheduler binds to the node.
func (l *life) pod(argv []string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := scenario{
		name: "subject", policy: corev1.RestartPolicyAlways, argv: argv, token: l.remote.mounts,
	}.pod(l.namespace, l.n.name)
	grace := int64(1) // nobody waits for a shell that does not hear TERM
	pod.Spec.TerminationGracePeriodSeconds = &grace
	for _, f := range change {
		f(pod)
	}
	return pod
}

func (l *life) pods() corev1client.PodInterface { return l.c.client.CoreV1().Pods(l.namespace) }

func (l *life) create(pod *corev1.Pod) *corev1.Pod {
	l.Helper()
	made, err := l.pods().Create(l.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	l.needFields(pod, made)
	return made
}

// must ends the test when something went wrong.
func (l *life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

const (
	// pace is how often a row looks; there are many rows.
	pace = 200 * time.Millisecond
	// patience is how long a test waits for what it holds to no bound, on a machine with
	// other work.
	patience = 3 * time.Minute
)

// patience is what it takes on the row's remote.
func (l *life) patience() time.Duration { return patience * time.Duration(max(l.slow, 1)) }

// until waits until the row's pod is so, and returns it.
func (l *life) until(what string, want func(*corev1.Pod) error) *corev1.Pod {
	l.Helper()
	return wait.Pod(l, l.c.client, l.namespace, "subject", l.patience(), what, want)
}

// untilGone waits until the API has no pod of this name.
func (l *life) untilGone(name string) {
	l.Helper()
	wait.PodGone(l, l.c.client, l.namespace, name, l.patience())
}

// stays checks for a while that the row's pod is so.
func (l *life) stays(during time.Duration, what string, want func(*corev1.Pod) error) {
	l.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(pace) {
		pod, err := l.pods().Get(l.Context(), "subject", metav1.GetOptions{})
		if err == nil {
			err = want(pod)
		}
		if err != nil {
			l.Fatalf("%s: %v", what, err)
		}
	}
}

// event waits for an Event about the pod with the reason and words of the
// message, and returns the message.
func (l *life) event(pod *corev1.Pod, reason string, words ...string) string {
	l.Helper()
	var message string
	wait.For(l.T, l.patience(), "an Event "+reason+" with "+strings.Join(words, ", "), func() error {
		events, err := l.c.client.CoreV1().Events(l.namespace).List(l.Context(), metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
		})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.Reason == reason && has(e.Message, words) {
				message = e.Message
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are %q", seen)
	})
	return message
}

func has(s string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
}

// events lists those about an object.
func (c *cluster) events(ctx context.Context, namespace string, uid types.UID) string {
	events, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String(),
	})
	if err != nil {
		return fmt.Sprintf("events: %v", err)
	}
	var b strings.Builder
	for _, e := range events.Items {
		fmt.Fprintf(&b, "event: %s %s (%d): %s\n", e.ReportingController, e.Reason, e.Count, e.Message)
	}
	return b.String()
}

// log is what a container wrote so far.
func (l *life) log(container string) (string, error) {
	b, err := l.pods().GetLogs("subject", &corev1.PodLogOptions{Container: container}).DoRaw(l.Context())
	out := string(b)
	if strings.HasPrefix(out, "simulated container ") { // the simulation says what it is
		_, out, _ = strings.Cut(out, "\n")
	}
	return out, err
}

// says waits until the container has written all of these lines.
func (l *life) says(container string, lines ...string) {
	l.Helper()
	wait.For(l.T, l.patience(), "the log of "+container, func() error {
		out, err := l.log(container)
		if err != nil {
			return err
		}
		have := strings.Split(out, "\n")
		for _, line := range lines {
			if !slices.Contains(have, line) {
				return fmt.Errorf("no line %q in %q", line, out)
			}
		}
		return nil
	})
}

// isReady is nil for a Ready pod, all of whose containers run.
func isReady(pod *corev1.Pod) error {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			return fmt.Errorf("%s", states(&pod.Status))
		}
	}
	if err := condition(&pod.Status, corev1.PodReady, corev1.ConditionTrue); err != nil {
		return fmt.Errorf("%s %s: %w (%s)", pod.Status.Phase, pod.Status.Message, err, states(&pod.Status))
	}
	return nil
}

// isUnready is nil for a pod that runs and is not Ready.
func isUnready(pod *corev1.Pod) error {
	if err := phaseIs(corev1.PodRunning, func(s *corev1.PodStatus) error {
		return condition(s, corev1.PodReady, corev1.ConditionFalse)
	})(pod); err != nil {
		return err
	}
	return neverRestarted(pod)
}

func neverRestarted(pod *corev1.Pod) error {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil || s.RestartCount != 0 {
			return fmt.Errorf("%s, want it running and never restarted", states(&pod.Status))
		}
	}
	return nil
}

// waits is for a container that cannot start, with these words about why.
func waits(reason string, words ...string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		if w := c.State.Waiting; w == nil || w.Reason != reason || !has(w.Message, words) ||
			pod.Status.Phase != corev1.PodPending {
			return fmt.Errorf("%s: %s, want Pending and %s with %q", pod.Status.Phase, states(&pod.Status), reason, words)
		}
		return nil
	}
}

// shell is a container's command that does these things and then runs on, longer
// than any test.
func shell(script string) []string { return []string{"sh", "-c", script + "; sleep 1000000"} }

// run is the handler of a probe or a hook.
func run(script string) *corev1.ExecAction {
	return &corev1.ExecAction{Command: []string{"sh", "-c", script}}
}

// answered is a timeout of probes, in seconds, that is no matter of the test.
const answered = 30

// readyWhen gives the pod's first container a readiness probe: it is what tells
// from outside what the container sees.
func readyWhen(script string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: run(script)}, PeriodSeconds: 1, FailureThreshold: 1,
			TimeoutSeconds: answered,
		}
	}
}

// mount gives the pod a volume, at /name in its first container.
func mount(name string, source corev1.VolumeSource) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}
