package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// daemonAway is how long a daemon is away before it is started again.
const daemonAway = 3 * time.Second

// TestSSHRestarts kills sshd and containerd in the middle of rollouts and starts
// them again: pods do not notice. Then the host is rebooted, which ends everything
// but what is on its disk: pods come back.
func TestSSHRestarts(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 175*time.Second)
	daemonsRestart(t, "ssh-restarts")
}

// daemonsRestart is what TestSSHRestarts shows, on a host and node of its own.
func daemonsRestart(t *testing.T, name string, options ...func(*remotehost.Config)) {
	c := theCluster(t)
	s := newSSHNode(t, c, name, options...)
	r := rollout{c: c, n: s.node, namespace: c.namespace(t, name), replicas: 10, token: true}
	r.killed(t, 0)
	kept := s.keep(t, name+"-kept")
	for i, row := range []struct {
		name        string
		kill, start func() error
	}{
		{
			"sshd", func() error { return s.h.KillSSHD(t.Context()) },
			func() error { return s.h.StartSSHD(t.Context()) },
		},
		{
			"containerd", func() error { return s.h.KillContainerd(t.Context()) },
			func() error { return s.h.StartContainerd(t.Context()) },
		},
		{
			"both", func() error { return errors.Join(s.h.KillContainerd(t.Context()), s.h.KillSSHD(t.Context())) },
			func() error { return errors.Join(s.h.StartSSHD(t.Context()), s.h.StartContainerd(t.Context())) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r.roll(t, 10*i)
			wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
			if err := row.kill(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(daemonAway)
			if err := row.start(); err != nil {
				t.Fatal(err)
			}
			back := time.Now()
			s.right(t, back)
			s.ready()
			r.complete(t, patience)
			s.wellKept(t)
			kept.same(t)
		})
	}
	t.Run("the host", func(t *testing.T) { s.reboots(t, r) })
}

// reboots reboots the host twice, the second time in the middle of a rollout.
func (s *sshNode) reboots(t *testing.T, r rollout) {
	t.Helper()
	l := &life{T: t, c: s.c, n: s.node, remote: remote{mounts: true}, namespace: s.c.namespace(t, s.name+"-reboot")}
	l.secret("hidden", map[string]string{"word": "sesame"})
	l.create(l.pod(diary, onDiskAndInMemory))
	for name, argv := range map[string][]string{"fails": shell("true"), "done": {"true"}} {
		l.create(l.pod(argv, func(pod *corev1.Pod) { pod.Name, pod.Spec.RestartPolicy = name, corev1.RestartPolicyNever }))
	}
	l.until("the pod is Ready", isReady)
	l.reads("first\n", 1)
	l.phase("fails", corev1.PodRunning)
	l.phase("done", corev1.PodSucceeded)
	for i, entries := range []string{"first\nagain\n", "first\nagain\nagain\n"} {
		before := s.mustBound(t)
		if i == 1 {
			r.roll(t, 200)
			wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
		}
		if err := s.h.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		s.right(t, back)
		s.ready()
		s.restartedOnce(t, before)
		l.until("the pod is Ready again", isReady)
		l.reads(entries, i+2)
		l.phase("fails", corev1.PodFailed)
		l.phase("done", corev1.PodSucceeded)
		r.complete(t, patience)
		s.wellKept(t)
	}
}

// diary is written on the disk; what is in memory is new after a reboot.
var diary = shell(`[ ! -e /memory/there ] || exit 3; touch /memory/there
if [ -e /data/diary ]; then echo again >>/data/diary; else echo first >/data/diary; fi`)

// onDiskAndInMemory gives a pod volumes of both kinds. It is Ready when what
// Kubernetes puts there is there: a Secret and a token.
func onDiskAndInMemory(pod *corev1.Pod) {
	mount("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})(pod)
	mount("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})(pod)
	mount("hidden", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hidden"}})(pod)
	readyWhen(
		`[ "$(cat /hidden/word)" = sesame ] && test -s ` + serviceAccountDir + "token && test -s " + serviceAccountDir +
			"ca.crt",
	)(pod)
	data := pod.Spec.Containers[0].VolumeMounts[:1]
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "init", Image: imageOf, ImagePullPolicy: corev1.PullIfNotPresent, VolumeMounts: data,
		Command: []string{"sh", "-c", "echo ran >>/data/init"},
	}}
}

// reads wants the diary to say this, and the init container to have run so often.
func (l *life) reads(want string, inits int) {
	l.Helper()
	l.prints(want, "exec", "subject", "--", "cat", "/data/diary")
	l.prints(strings.Repeat("ran\n", inits), "exec", "subject", "--", "cat", "/data/init")
}

// phase waits until a pod is in a phase.
func (l *life) phase(name string, want corev1.PodPhase) {
	l.Helper()
	wait.Pod(l, l.c.client, l.namespace, name, patience, string(want),
		phaseIs(want))
}

// restartedOnce waits until pods are what they were before a reboot, with one restart
// more, which says how the container before ended. Those that crashed not long ago
// wait for their backoff; those of the Deployment may have been replaced.
func (s *sshNode) restartedOnce(t *testing.T, before map[types.UID]*corev1.Pod) {
	t.Helper()
	compared := 0
	wait.For(t, patience, "pods came back", func() error {
		now, err := s.bound(t.Context())
		if err != nil {
			return err
		}
		compared = 0
		for uid, was := range before {
			pod := now[uid]
			if pod == nil || pod.DeletionTimestamp != nil || isReady(was) != nil ||
				was.Spec.RestartPolicy == corev1.RestartPolicyNever {
				continue
			}
			if err := isRestarted(was, pod); err != nil {
				return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			compared++
		}
		return nil
	})
	t.Logf("%d pods came back", compared)
	if compared < 4 {
		t.Errorf("only %d pods came back", compared)
	}
}

// isRestarted is nil for a pod that runs with one restart more than before.
func isRestarted(was, now *corev1.Pod) error {
	if err := isReady(now); err != nil {
		return err
	}
	before, status := was.Status.ContainerStatuses[0], now.Status.ContainerStatuses[0]
	last := status.LastTerminationState.Terminated
	if status.RestartCount != before.RestartCount+1 || last == nil || last.ContainerID != before.ContainerID ||
		last.ExitCode == 0 {
		return fmt.Errorf("it was %s, is %s, and says of the end: %v", states(&was.Status), states(&now.Status), last)
	}
	return nil
}
