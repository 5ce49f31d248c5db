package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// taskPods are about what is in a pod, and how it lives.
var taskPods = slices.Concat([]row[*taskLife]{
	{"init containers and sidecar", initAndSidecar},
	{"files", files},
	{"subPath", subPath},
	{"probes of all kinds", allProbes},
	{"startup probe fails", startupFails},
	{"liveness http", livenessOfTask},
	{"poststart", postStartOfTask},
	{"poststart fails", postStartFailsOnTask},
	{"hooks and signals", hooksOfTask},
	{"grace of a deletion", graceOfDeletion},
	{"termination messages", terminationMessages},
	{"several containers", severalContainers},
	{"hostAliases", hostAliasesOfTask},
	{"private image", privateImage},
	{"resize", resizeOfTask},
	{"runAsNonRoot", func(l *taskLife) {
		pod := l.create(l.pod(shell(":"), podSecured(corev1.PodSecurityContext{RunAsNonRoot: new(true)})))
		const words = "container has runAsNonRoot and image will run as root"
		l.until("held back", waits("CreateContainerConfigError", words))
		l.event(pod, "Failed", words)
	}},
}, honouredByTasks())

// honouredByTasks are the security contexts and settings of [honouredRows] that a
// task has too.
func honouredByTasks() []row[*taskLife] {
	names := []string{
		"users and groups", "a container's own user", "capabilities of every container", "no privilege escalation",
		"privilege escalation by default", "dnsPolicy None with dnsConfig",
	}
	var rows []row[*taskLife]
	for _, h := range slices.Concat(honouredPods, honouredSecurity) {
		if !slices.Contains(names, h.name) {
			continue
		}
		rows = append(
			rows, row[*taskLife]{strings.ReplaceAll(strings.ToLower(h.name), "'", ""), func(l *taskLife) { h.run(l.life) }},
		)
	}
	return rows
}

// tells waits until this is all that a container wrote: logs come a moment late.
func (l *taskLife) tells(container, want string) {
	l.Helper()
	wait.For(l.T, patience, "the log of "+container, func() error {
		out, err := l.log(container)
		if err == nil && out != want {
			err = fmt.Errorf("it is %q, want %q", out, want)
		}
		return err
	})
}

// shared is a volume of all containers at /shared.
func shared(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
		}
	}
}

// initAndSidecar: init containers run one after another, a sidecar is up before
// those after it, and runs beside the app.
func initAndSidecar(l *taskLife) {
	always := corev1.ContainerRestartPolicyAlways
	tells := func(name string) []string { return []string{"sh", "-c", "echo " + name + " >>/shared/order"} }
	l.create(l.pod(shell("echo app >>/shared/order; cat /shared/order"), func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "one", Image: imageOf, Command: tells("one")},
			{
				Name: "sidecar", Image: imageOf, RestartPolicy: &always,
				Command:      shell("sleep 2; echo sidecar >>/shared/order; touch /tmp/up"),
				StartupProbe: every(1, 300, corev1.ProbeHandler{Exec: run("test -e /tmp/up")}),
			},
			{Name: "two", Image: imageOf, Command: tells("two")},
		}
	}, shared))
	pod := l.until("Ready", isReady)
	l.must(neverRestarted(pod))
	l.tells("app", "one\nsidecar\ntwo\napp\n")
	for i, s := range pod.Status.InitContainerStatuses {
		if sidecar := i == 1; sidecar != (s.State.Running != nil) || !sidecar && (s.State.Terminated == nil ||
			s.State.Terminated.ExitCode != 0) {
			l.Errorf("init containers: %s", states(&pod.Status))
		}
	}
}

// files: of every source, with their modes, for a user who is not root.
func files(l *taskLife) {
	l.configMap("settings", map[string]string{"color": "blue"})
	l.secret("login", map[string]string{"user": "ann"})
	seconds := int64(3600)
	l.create(l.pod(shell(`stat -Lc '%n %a %u:%g' /mixed/color /mixed/deep/user; cat /mixed/color; echo; cat /mixed/deep/user; echo
		cat /mixed/labels; echo; grep -q '^ey' /mixed/token && echo token; touch /scratch/mine && echo scratch $(stat -c %g /scratch/mine)`),
		podSecured(corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000))}),
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		mount("mixed", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(0o440)),
			Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: object("settings")}},
				{
					Secret: &corev1.SecretProjection{
						LocalObjectReference: object("login"),
						Items:                []corev1.KeyToPath{{Key: "user", Path: "deep/user", Mode: new(int32(0o400))}},
					},
				},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
				}}},
				{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
						Path: "token", Audience: "vault", ExpirationSeconds: &seconds,
					},
				},
			},
		}}),
		func(pod *corev1.Pod) { pod.Labels = map[string]string{"tier": "back"} }))
	l.until("Ready", isReady)
	// A file for its owner alone is one for the group that owns the volume (fsGroup).
	l.says(
		"app", "/mixed/color 440 0:2000", "/mixed/deep/user 440 0:2000", "blue", "ann", `tier="back"`, "token",
		"scratch 2000",
	)
}

// subPath: a part of a volume, a directory and a file.
func subPath(l *taskLife) {
	l.configMap("settings", map[string]string{"color": "blue", "shape": "round"})
	l.create(l.pod(shell(
		"cat /etc/color; echo; ls /etc/shape 2>/dev/null; echo kept >/part/file; ls /all/$(hostname >/dev/null; echo "+
			"subject)",
	),
		mount(
			"settings", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")}},
		),
		mount("all", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			c.Env = []corev1.EnvVar{{Name: "ME", ValueFrom: field("metadata.name")}}
			c.VolumeMounts = append(c.VolumeMounts,
				corev1.VolumeMount{Name: "settings", MountPath: "/etc/color", SubPath: "color"},
				corev1.VolumeMount{Name: "all", MountPath: "/part", SubPathExpr: "$(ME)"})
		}))
	l.until("Ready", isReady)
	l.says("app", "blue", "file")
	out, err := l.log("app")
	l.must(err)
	if strings.Contains(out, "/etc/shape") {
		l.Errorf("all of the volume is there: %q", out)
	}
}

// serving is agnhost's server of gRPC's health protocol, at port 5000, which HTTP at
// port 8080 makes say that it does not serve.
func serving(pod *corev1.Pod) {
	c := &pod.Spec.Containers[0]
	c.Image, c.Command = toolsRef, []string{"agnhost", "grpc-health-checking", "--port", "5000", "--http-port", "8080"}
}

// allProbes: startup by TCP, liveness by exec and readiness by gRPC, which turns.
func allProbes(l *taskLife) {
	l.create(l.pod(nil, serving, func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.StartupProbe = every(1, 300, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5000)}})
		c.LivenessProbe = every(1, 2, corev1.ProbeHandler{Exec: run("true")})
		c.ReadinessProbe = every(1, 1, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 5000}})
	}))
	pod := l.until("Ready", isReady)
	if started := pod.Status.ContainerStatuses[0].Started; started == nil || !*started {
		l.Errorf("started is %v", started)
	}
	tell := func(what string) {
		l.Helper()
		if got := l.kubectl("", "exec", "subject", "--", "wget", "-qO-", "http://localhost:8080/"+what); got.code != 0 {
			l.Errorf("%s: %+v", what, got)
		}
	}
	tell("make-not-serving")
	l.until("out of service", isUnready)
	tell("make-serving")
	l.must(neverRestarted(l.until("Ready again", isReady)))
}

// startupFails: a container that does not come up is ended, and started again.
func startupFails(l *taskLife) {
	pod := l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].StartupProbe = every(
			1, 2, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		)
	}))
	l.until("restarted", wasRestarted)
	l.event(pod, "Unhealthy", "Startup probe failed: dial tcp ", ":8080: connect: connection refused")
	l.event(pod, "Killing", "Container app failed startup probe, will be restarted")
}

func wasRestarted(pod *corev1.Pod) error {
	c, err := app(&pod.Status)
	if err == nil && (c.RestartCount < 1 || c.LastTerminationState.Terminated == nil) {
		err = fmt.Errorf("%s", states(&pod.Status))
	}
	return err
}

// livenessOfTask: a server that fails is ended, and started again.
func livenessOfTask(l *taskLife) {
	pod := l.create(l.pod(shell("mkdir /www; touch /www/index.html; httpd -p 8080 -h /www"), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.StartupProbe, c.LivenessProbe = every(1, 300, httpGet(8080)), every(1, 2, httpGet(8080))
	}))
	l.until("Ready", isReady)
	l.prints("", "exec", "subject", "--", "rm", "/www/index.html")
	l.restartedBy(pod, "HTTP probe failed with statuscode: 404")
}

// postStartOfTask: the pod is not Ready before its hook is done.
func postStartOfTask(l *taskLife) {
	l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: run("sleep 3; touch /tmp/hooked")}}
	}))
	l.must(neverRestarted(l.until("Ready", isReady)))
	l.prints("/tmp/hooked\n", "exec", "subject", "--", "ls", "/tmp/hooked")
}

func postStartFailsOnTask(l *taskLife) {
	pod := l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: run("exit 3")}}
	}))
	l.until("failed", phaseIs(corev1.PodFailed))
	l.event(pod, "FailedPostStartHook", "PostStartHook failed")
}

// hooksOfTask: at its end the container's hook runs, then it hears its signal, and
// is not killed.
func hooksOfTask(l *taskLife) {
	const grace = 120 // the longest that ECS has, in seconds
	pod := l.create(l.pod([]string{
		"sh", "-c", "trap 'echo heard TERM; exit 0' TERM; echo up; sleep 1000000 & wait",
	}, func(pod *corev1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(grace))
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: run("echo hook >/proc/1/fd/1; sleep 2")},
		}
	}))
	l.until("Ready", isReady)
	l.says("app", "up")
	deleted := time.Now()
	l.must(l.pods().Delete(l.Context(), pod.Name, deleteOptions(grace)))
	l.untilGone(pod.Name)
	if took := time.Since(deleted); took < 2*time.Second || took > 100*time.Second {
		l.Errorf("it took %s, with a hook of 2s and a grace of %ds", took, grace)
	}
	l.s.wrote(l.T, pod, "up", "hook", "heard TERM")
}

// graceOfDeletion: containers that hear no TERM, and a hook that takes long, are killed when
// the deletion says, long before their task would be.
func graceOfDeletion(l *taskLife) {
	const grace = 4
	pod := l.create(l.pod([]string{"sh", "-c", "trap 'echo heard TERM' TERM; echo up; while :; do sleep 1000000 & wait; done"},
		func(pod *corev1.Pod) {
			pod.Spec.TerminationGracePeriodSeconds = new(int64(110))
			hooked := *pod.Spec.Containers[0].DeepCopy()
			hooked.Name = "hooked"
			hooked.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}}
			pod.Spec.Containers = append(pod.Spec.Containers, hooked)
		}))
	l.until("Ready", isReady)
	l.says("app", "up")
	deleted := time.Now()
	l.must(l.pods().Delete(l.Context(), pod.Name, deleteOptions(grace)))
	l.untilGone(pod.Name)
	if took := time.Since(deleted); took < grace*time.Second || took > 80*time.Second {
		l.Errorf("it took %s, with a grace of %ds", took, grace)
	}
	l.s.wrote(l.T, pod, "up", "heard TERM")
}

// terminationMessages: from the container's file, and from its log.
func terminationMessages(l *taskLife) {
	for name, tt := range map[string]struct {
		script string
		policy corev1.TerminationMessagePolicy
		exit   int32
		want   string
	}{
		"file": {"echo all is well >/dev/termination-log; echo log", corev1.TerminationMessageReadFile, 0, "all is well\n"},
		"log": {
			"echo first; echo last words; exit 4", corev1.TerminationMessageFallbackToLogsOnError, 4, "first\nlast words\n",
		},
		"none": {"echo nothing went wrong", corev1.TerminationMessageFallbackToLogsOnError, 0, ""},
	} {
		l.create(l.pod([]string{"sh", "-c", tt.script}, func(pod *corev1.Pod) {
			pod.Name, pod.Spec.RestartPolicy = name, corev1.RestartPolicyNever
			pod.Spec.Containers[0].TerminationMessagePolicy = tt.policy
		}))
		wait.For(l.T, patience, "pod "+name+" has ended with its message", func() error {
			pod, err := l.pods().Get(l.Context(), name, getOptions)
			if err != nil {
				return err
			}
			c, err := app(&pod.Status)
			if err != nil {
				return err
			}
			if end := c.State.Terminated; end == nil || end.ExitCode != tt.exit || end.Message != tt.want {
				return fmt.Errorf("%s, want exit code %d and %q", states(&pod.Status), tt.exit, tt.want)
			}
			return nil
		})
	}
}

// severalContainers: they reach each other on localhost, and one that ends does not
// end the others.
func severalContainers(l *taskLife) {
	l.create(l.pod([]string{
		"sh", "-c", "mkdir /www; echo hello >/www/index.html; exec httpd -f -p 8080 -h /www",
	}, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "client", Image: imageOf,
			Command: []string{"sh", "-c", "until wget -qO- localhost:8080 2>/dev/null; do sleep 0.2; done; sleep 1"},
		})
	}))
	l.until("the client has ended, the server has not", func(pod *corev1.Pod) error {
		s := pod.Status.ContainerStatuses
		if len(s) != 2 {
			return fmt.Errorf("%d container statuses", len(s))
		}
		server, client := s[0], s[1]
		if server.State.Running == nil || client.State.Terminated == nil || client.State.Terminated.ExitCode != 0 {
			return fmt.Errorf("%s", states(&pod.Status))
		}
		return nil
	})
	l.tells("client", "hello\n")
	l.prints("hello\n", "exec", "subject", "-c", "app", "--", "wget", "-qO-", "localhost:8080")
}

func hostAliasesOfTask(l *taskLife) {
	l.create(l.pod(shell("cat /etc/hosts"), spec(func(s *corev1.PodSpec) {
		s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"seven", "7"}}}
	})))
	pod := l.until("Ready", isReady)
	l.says("app", "192.0.2.7\tseven\t7")
	// The name that Fargate gives the task is there, too; the log may come in two parts.
	wait.For(l.T, patience, "the pod is in its own hosts file", func() error {
		out, err := l.log("app")
		if err == nil && !strings.Contains(out, "\n"+pod.Status.PodIP+"\tsubject\t") {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
}

// resizeOfTask: it is answered, and changes nothing.
func resizeOfTask(l *taskLife) {
	l.create(l.pod(shell(":"), requests("100m", "64Mi")))
	l.until("Ready", isReady)
	_, err := l.pods().Patch(l.Context(), "subject", types.StrategicMergePatchType,
		[]byte(
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`,
		), metav1.PatchOptions{}, "resize")
	l.must(err)
	l.must(neverRestarted(l.until("answered", resizeRefused)))
}

// privateImage: it is pulled with the pod's own credentials, and not without.
func privateImage(l *taskLife) {
	l.create(l.pod(forever, func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = privateRef }))
	l.until("it cannot be pulled", func(pod *corev1.Pod) error { return pullFails(&pod.Status) })
	l.must(l.pods().Delete(l.Context(), "subject", deleteOptions(1)))
	l.untilGone("subject")
	l.pullSecret("registry")
	l.create(l.pod(forever, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = privateRef
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{object("registry")}
	}))
	l.until("Ready", isReady)
}
