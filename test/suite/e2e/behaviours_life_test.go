package e2e

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
)

// lifeBehaviours are about how containers live: probes, hooks, order, changes.
var lifeBehaviours = []behaviour{
	{"readiness-http", []string{onSim, onPodUnit}, readinessHTTP},
	{"readiness-falls", []string{onSim, onPodUnit, onCRI}, readinessFalls},
	{"startup-tcp", []string{onSim, onPodUnit}, startupTCP},
	{"liveness-http", []string{onSim, onPodUnit}, livenessHTTP},
	{"liveness-exec", []string{onSim, onPodUnit, onCRI}, livenessExec},
	{"poststart", []string{onSim, onCRI}, postStart},
	{"poststart-fails", []string{onSim, onCRI}, postStartFails},
	{"prestop", []string{onSim, onPodUnit, onCRI}, preStop},
	{"sidecar-job", []string{onSim, onCRI}, sidecarJob},
	{"ephemeral", []string{onSim, onCRI}, ephemeral},
	{"image-change", []string{onSim, onCRI}, imageChange},
	{"restart-rule", []string{onSim}, restartRule},
	{"resize", []string{onSim, onPodUnit, onCRI}, resize},
}

func httpGet(port int32) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}}
}

func every(second int32, failures int32, handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: second, FailureThreshold: failures, TimeoutSeconds: answered,
	}
}

func since(pod *corev1.Pod, kind corev1.PodConditionType) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// listensAfter is when a server begins to: what is to be seen before has its time.
const listensAfter = 30 * time.Second

// startsLate is that server, at port 8080, in the simulation.
func startsLate() []string { return []string{"serve", "8080", "ready-after=" + listensAfter.String()} }

// readinessHTTP: a pod is Ready when its server answers, not before.
func readinessHTTP(l *life) {
	pod := l.create(l.pod(startsLate(), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = every(1, 1, httpGet(8080))
	}))
	ip := l.until("running", isUnready).Status.PodIP
	l.event(
		pod, "Unhealthy",
		fmt.Sprintf("Readiness probe failed: Get \"http://%s:8080/\": dial tcp %[1]s:8080: connect: connection refused", ip),
	)
	pod = l.until("Ready", isReady)
	started := pod.Status.ContainerStatuses[0].State.Running.StartedAt
	if after := since(pod, corev1.PodReady).Sub(started.Time); after < listensAfter {
		l.Errorf("it was Ready %s after its start, and answers after %s", after, listensAfter)
	}
	l.must(neverRestarted(pod))
}

// readinessFalls: a probe that fails again takes the pod out of service, and no
// more.
func readinessFalls(l *life) {
	l.create(l.pod(shell("touch /tmp/up"), readyWhen("test -e /tmp/up")))
	l.until("Ready", isReady)
	l.prints("", "exec", "subject", "--", "rm", "/tmp/up")
	l.until("out of service", isUnready)
}

// startupTCP: until the startup probe succeeds the other probes rest.
func startupTCP(l *life) {
	l.create(l.pod(startsLate(), readyWhen("true"), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.StartupProbe = every(1, 300, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}})
		c.LivenessProbe = every(1, 1, httpGet(8080))
	}))
	pod := l.until("running", isUnready)
	if started := pod.Status.ContainerStatuses[0].Started; started == nil || *started {
		l.Errorf("started is %v before the startup probe succeeded", started)
	}
	l.event(pod, "Unhealthy", "Startup probe failed: dial tcp "+pod.Status.PodIP+":8080: connect: connection refused")
	pod = l.until("Ready", isReady)
	if started := pod.Status.ContainerStatuses[0].Started; started == nil || !*started {
		l.Errorf("started is %v after the startup probe succeeded", started)
	}
	l.must(neverRestarted(pod))
}

// restartedBy waits for a restart by a failed liveness probe with its Events.
func (l *life) restartedBy(pod *corev1.Pod, failure string) {
	l.Helper()
	l.until("restarted", func(pod *corev1.Pod) error {
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		if c.RestartCount < 1 || c.LastTerminationState.Terminated == nil {
			return fmt.Errorf("%s", states(&pod.Status))
		}
		return nil
	})
	l.event(pod, "Unhealthy", "Liveness probe failed: "+failure)
	l.event(pod, "Killing", "Container app failed liveness probe, will be restarted")
	graceful(l.T, l.c, pod) // it goes on failing
	l.untilGone(pod.Name)
}

func livenessHTTP(l *life) {
	l.restartedBy(l.create(l.pod([]string{"serve", "8080", "fail-after=2s"}, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].LivenessProbe = every(1, 2, httpGet(8080))
	})), "HTTP probe failed with statuscode: 500")
}

func livenessExec(l *life) {
	l.restartedBy(l.create(l.pod(shell("touch /tmp/alive; sleep 3; rm /tmp/alive"), func(pod *corev1.Pod) {
		probe := every(1, 2, corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/tmp/alive"}}})
		probe.InitialDelaySeconds = 1
		pod.Spec.Containers[0].LivenessProbe = probe
	})), "cat: can't open '/tmp/alive'")
}

// postStart: the hook runs in the container, and a later container waits for it.
func postStart(l *life) {
	l.create(l.pod(shell(":"), readyWhen("test -e /tmp/hooked"), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: run("sleep 2; touch /tmp/hooked")}}
		later := *c.DeepCopy()
		later.Name, later.Lifecycle, later.ReadinessProbe = "later", nil, nil
		pod.Spec.Containers = append(pod.Spec.Containers, later)
	}))
	pod := l.until("Ready", isReady)
	l.must(neverRestarted(pod))
	started := map[string]time.Time{}
	for _, s := range pod.Status.ContainerStatuses {
		started[s.Name] = s.State.Running.StartedAt.Time
	}
	if after := started["later"].Sub(started["app"]); after < 2*time.Second {
		l.Errorf("the second container was started %s after the first, whose hook takes 2s", after)
	}
}

// postStartFails: the container is ended, and its policy decides.
func postStartFails(l *life) {
	pod := l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: run("exit 3")}}
	}))
	l.event(pod, "FailedPostStartHook", "PostStartHook failed")
	l.event(pod, "Killing", "FailedPostStartHook")
	l.until("failed", phaseIs(corev1.PodFailed))
}

// preStop: a deleted pod runs until its hook is done.
func preStop(l *life) {
	const hook = 15 * time.Second
	pod := l.create(l.pod(forever, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: run(fmt.Sprint("sleep ", hook.Seconds())),
		}}
	}))
	l.until("Ready", isReady)
	deleted := time.Now()
	l.must(l.pods().Delete(l.Context(), pod.Name, deleteOptions(100)))
	l.stays(2*time.Second, "it runs while its hook does", func(pod *corev1.Pod) error {
		if c := pod.Status.ContainerStatuses[0]; c.State.Running == nil {
			return fmt.Errorf("%s", states(&pod.Status))
		}
		return nil
	})
	l.event(pod, "Killing", "Stopping container app")
	l.untilGone("subject")
	if took := time.Since(deleted); took < hook {
		l.Errorf("it was gone after %s, and its hook takes %s", took, hook)
	}
}

// sidecarJob: the sidecar is up before the Job's container is started, and does
// not keep the Job from completing.
func sidecarJob(l *life) {
	always := corev1.ContainerRestartPolicyAlways
	pod := l.pod([]string{"sleep", "2"}, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.InitContainers = []corev1.Container{{
			Name: "sidecar", Image: imageOf, RestartPolicy: &always, Command: shell("sleep 2; touch /tmp/up"),
			StartupProbe: every(1, 300, corev1.ProbeHandler{Exec: run("test -e /tmp/up")}),
		}}
	})
	_, err := l.c.client.BatchV1().Jobs(l.namespace).Create(l.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod.Spec}},
	}, metav1.CreateOptions{})
	l.must(err)
	wait.For(l.T, patience, "the Job completes", func() error {
		job, err := l.c.client.BatchV1().Jobs(l.namespace).Get(l.Context(), "job", metav1.GetOptions{})
		if err == nil && (job.Status.CompletionTime == nil || job.Status.Succeeded != 1 || job.Status.Failed != 0) {
			err = fmt.Errorf("%+v", job.Status)
		}
		return err
	})
	list, err := l.pods().List(l.Context(), metav1.ListOptions{})
	l.must(err)
	if len(list.Items) != 1 {
		l.Fatalf("the Job has %d pods", len(list.Items))
	}
	l.must(phaseIs(corev1.PodSucceeded, exited(0, "Completed"))(&list.Items[0]))
	s := list.Items[0].Status
	sidecar, main := s.InitContainerStatuses[0], s.ContainerStatuses[0].State.Terminated
	if sidecar.State.Terminated == nil || sidecar.RestartCount != 0 {
		l.Fatalf("sidecar: %s", states(&s))
	}
	if t := sidecar.State.Terminated; main.StartedAt.Sub(t.StartedAt.Time) < 2*time.Second ||
		t.FinishedAt.Before(&main.FinishedAt) {
		l.Errorf("sidecar from %s to %s, container from %s to %s", t.StartedAt, t.FinishedAt, main.StartedAt, main.FinishedAt)
	}
}

// ephemeral: a container that is added to a running pod runs once, in it.
func ephemeral(l *life) {
	l.create(l.pod(shell(":")))
	pod := l.until("Ready", isReady)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: imageOf, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"sh", "-c", "echo I am in $WHERE"},
		Env:     []corev1.EnvVar{{Name: "WHERE", ValueFrom: field("metadata.name")}},
	}}}
	_, err := l.pods().UpdateEphemeralContainers(l.Context(), pod.Name, pod, metav1.UpdateOptions{})
	l.must(err)
	pod = l.until("the ephemeral container has run", func(pod *corev1.Pod) error {
		s := pod.Status.EphemeralContainerStatuses
		if len(s) != 1 || s[0].State.Terminated == nil || s[0].State.Terminated.ExitCode != 0 || s[0].RestartCount != 0 {
			return fmt.Errorf("ephemeral containers: %v", s)
		}
		return isReady(pod)
	})
	l.must(neverRestarted(pod))
	l.says("debug", "I am in subject")
}

// imageChange: a running container gets a new image, the one beside it goes on.
func imageChange(l *life) {
	l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		beside := *pod.Spec.Containers[0].DeepCopy()
		beside.Name = "beside"
		pod.Spec.Containers = append(pod.Spec.Containers, beside)
	}))
	before := l.until("Ready", isReady)
	const image = images.PauseRef // has a shell, too
	_, err := l.pods().Patch(l.Context(), "subject", types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"app","image":"`+image+`"}]}}`), metav1.PatchOptions{})
	l.must(err)
	after := l.until("the new image runs", func(pod *corev1.Pod) error {
		if c := pod.Status.ContainerStatuses[0]; c.Image != image || c.RestartCount != 1 {
			return fmt.Errorf("image %s, %s", c.Image, states(&pod.Status))
		}
		return isReady(pod)
	})
	l.event(after, "Killing", "Container app definition changed, will be restarted")
	was, is := before.Status.ContainerStatuses[1], after.Status.ContainerStatuses[1]
	if was.Name != "beside" || was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		l.Errorf("the container beside was %v and is %v", was, is)
	}
	if before.Status.PodIP != after.Status.PodIP {
		l.Errorf("the pod's address went from %s to %s", before.Status.PodIP, after.Status.PodIP)
	}
}

// restartRule: one exit code restarts the container in a pod that otherwise
// never restarts, the next ends it.
func restartRule(l *life) {
	never := corev1.ContainerRestartPolicyNever
	l.create(l.pod([]string{"sh", "-c", "test -e /scratch/again && exit 3; touch /scratch/again; exit 42"},
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			c := &pod.Spec.Containers[0]
			c.RestartPolicy = &never
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
				},
			}}
		}))
	l.until("ended", func(pod *corev1.Pod) error {
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		last, now := c.LastTerminationState.Terminated, c.State.Terminated
		if pod.Status.Phase != corev1.PodFailed || c.RestartCount != 1 || last == nil || last.ExitCode != 42 || now == nil ||
			now.ExitCode != 3 {
			return fmt.Errorf("%s: %s", pod.Status.Phase, states(&pod.Status))
		}
		return nil
	})
}

// resize: a change of resources is done in place; where the pod is the unit it is
// answered, and changes nothing.
func resize(l *life) {
	l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	}))
	l.until("Ready", isReady)
	_, err := l.pods().Patch(l.Context(), "subject", types.StrategicMergePatchType,
		[]byte(
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`,
		), metav1.PatchOptions{}, "resize")
	l.must(err)
	want, answered := "200m", resizeDone
	if strings.HasPrefix(l.namespace, onPodUnit+"-") {
		want, answered = "100m", resizeRefused
	}
	l.must(neverRestarted(l.until("answered", func(pod *corev1.Pod) error {
		if err := answered(pod); err != nil {
			return err
		}
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		if c.Resources == nil || c.Resources.Requests.Cpu().String() != want {
			return fmt.Errorf("the container's resources are %v", c.Resources)
		}
		return isReady(pod)
	})))
}

// resizeDone is nil when nothing of a resize is left to do.
func resizeDone(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			return fmt.Errorf("%s %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	if pod.Status.ObservedGeneration != pod.Generation {
		return fmt.Errorf("generation %d, observed %d", pod.Generation, pod.Status.ObservedGeneration)
	}
	return nil
}

func resizeRefused(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible &&
			strings.Contains(c.Message, "app") && c.ObservedGeneration == pod.Generation {
			return nil
		}
	}
	return fmt.Errorf("generation %d, conditions %v", pod.Generation, pod.Status.Conditions)
}
