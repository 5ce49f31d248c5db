package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/test/parts/images"
)

// kind is a kind of pod.
type kind struct {
	name string
	make func(*rand.Rand, *corev1.Pod)
	// before is done before the pod is made; nil for nothing.
	before func(context.Context, *subject) error
	// until is the state at which the pod is compared, unless then changes it first;
	// after is the one for afterwards, or gone says that the pod goes: its last version is
	// compared.
	until, after func(*corev1.Pod) error
	then         func(context.Context, *subject) error
	gone         bool
}

const (
	image      = images.BusyboxRef
	deafScript = "trap '' TERM; sleep 100000 & wait"
)

var (
	// forever ends with 0 when it is told to.
	forever = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}
	// deaf does not hear that.
	deaf = shell(deafScript)
)

func kinds() []kind {
	return slices.Concat(
		lifeKinds, initKinds, probeKinds, hookKinds, imageKinds, objectKinds, endKinds, resourceKinds, admissionKinds,
		featureKinds,
	)
}

func shell(script string, args ...any) []string {
	return []string{"sh", "-c", fmt.Sprintf(script, args...)}
}

func container(name string, command []string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Command: command}
}

func sidecar(name string, command []string) corev1.Container {
	c, always := container(name, command), corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// app changes the container app.
func app(change func(*rand.Rand, *corev1.Container)) func(*rand.Rand, *corev1.Pod) {
	return func(r *rand.Rand, pod *corev1.Pod) { change(r, &pod.Spec.Containers[0]) }
}

// spec changes a pod in a way without chance.
func spec(change func(*corev1.PodSpec)) func(*rand.Rand, *corev1.Pod) {
	return func(_ *rand.Rand, pod *corev1.Pod) { change(&pod.Spec) }
}

// runs makes the app run a command under a policy.
func runs(policy corev1.RestartPolicy, command func(*rand.Rand) []string) func(*rand.Rand, *corev1.Pod) {
	return func(r *rand.Rand, pod *corev1.Pod) {
		pod.Spec.RestartPolicy, pod.Spec.Containers[0].Command = policy, command(r)
	}
}

func exits(codes ...int) func(*rand.Rand) []string {
	return func(r *rand.Rand) []string { return shell("exit %d", codes[r.IntN(len(codes))]) }
}

func inits(containers ...corev1.Container) func(*rand.Rand, *corev1.Pod) {
	return spec(func(s *corev1.PodSpec) { s.InitContainers = containers })
}

// and makes a pod of several changes.
func and(changes ...func(*rand.Rand, *corev1.Pod)) func(*rand.Rand, *corev1.Pod) {
	return func(r *rand.Rand, pod *corev1.Pod) {
		for _, change := range changes {
			change(r, pod)
		}
	}
}

func policy(p corev1.RestartPolicy) func(*rand.Rand, *corev1.Pod) {
	return spec(func(s *corev1.PodSpec) { s.RestartPolicy = p })
}

var lifeKinds = []kind{
	{name: "runs", make: and(), until: ready},
	{name: "succeeds", make: runs(corev1.RestartPolicyNever, exits(0)), until: phase(corev1.PodSucceeded)},
	{
		name: "fails", make: runs(corev1.RestartPolicyNever, exits(1, 2, 77, 255)),
		until: phase(corev1.PodFailed),
	},
	{
		name: "crash loop", make: runs(corev1.RestartPolicyAlways, exits(0, 1, 3)),
		until: waiting("app", "CrashLoopBackOff", 1),
	},
	{
		name: "on failure", make: runs(corev1.RestartPolicyOnFailure, exits(1, 9)),
		until: waiting("app", "CrashLoopBackOff", 1),
	},
	{name: "on failure succeeds", make: runs(corev1.RestartPolicyOnFailure, exits(0)), until: phase(corev1.PodSucceeded)},
	{name: "killed by itself", make: runs(corev1.RestartPolicyNever, func(r *rand.Rand) []string {
		return shell("sh -c 'kill -%d $PPID'; exec sleep 1000", []int{9, 6, 11}[r.IntN(3)])
	}), until: func(pod *corev1.Pod) error { return when(pod.Status.Phase == corev1.PodFailed || ready(pod) == nil) }},
	{name: "one of two failed", make: and(runs(corev1.RestartPolicyNever, exits(4)), spec(func(s *corev1.PodSpec) {
		s.Containers = append(s.Containers, container("another", forever))
	})), until: both(ended("app"), running("another", 0))},
	{name: "two fail and succeed", make: and(runs(corev1.RestartPolicyNever, exits(0, 4)), spec(func(s *corev1.PodSpec) {
		s.Containers = append(s.Containers, container("another", shell("exit 0")))
	})), until: func(pod *corev1.Pod) error { return when(ended("app")(pod) == nil && ended("another")(pod) == nil) }},
	{name: "crashes beside one", make: and(runs(corev1.RestartPolicyAlways, exits(4)), spec(func(s *corev1.PodSpec) {
		s.Containers = append(s.Containers, container("another", forever))
	})), until: both(waiting("app", "CrashLoopBackOff", 1), running("another", 0))},
	{name: "message file", make: runs(corev1.RestartPolicyNever, func(r *rand.Rand) []string {
		return shell("echo ended as %d >/dev/termination-log; exit %d", r.IntN(100), r.IntN(3))
	}), until: ended("app")},
	{name: "message of the log", make: and(runs(corev1.RestartPolicyNever, func(*rand.Rand) []string {
		return shell("for i in $(seq 100); do echo line $i; done; exit 1")
	}), app(func(_ *rand.Rand, c *corev1.Container) {
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	})), until: ended("app")},
	{name: "readiness gate", make: spec(func(s *corev1.PodSpec) {
		s.ReadinessGates = []corev1.PodReadinessGate{
			{ConditionType: "example.org/gate"}, {ConditionType: "example.org/other"},
		}
	}), until: running("app", 0)},
	{
		name: "changed image", make: and(), until: ready,
		then:  patched("", `{"spec":{"containers":[{"name":"app","image":"registry.burstlet.test/gone:1"}]}}`),
		after: waiting("app", "ImagePullBackOff", 0),
	},
}

var initKinds = []kind{
	{
		name: "init", make: inits(container("first", shell("exit 0")), container("second", shell("exit 0"))),
		until: ready,
	},
	{
		name: "init fails",
		make: and(
			inits(container("first", shell("exit 5")), container("second", shell("exit 0"))), policy(corev1.RestartPolicyNever),
		),
		until: phase(corev1.PodFailed),
	},
	{
		name: "init crash loop", make: inits(container("first", shell("exit 5"))),
		until: waiting("first", "CrashLoopBackOff", 1),
	},
	{
		name: "init runs", make: inits(container("first", forever), container("second", shell("exit 0"))),
		until: running("first", 0),
	},
	{
		name: "init image", make: inits(corev1.Container{Name: "first", Image: "registry.burstlet.test/missing:1"}),
		until: waiting("first", "ImagePullBackOff", 0),
	},
	{
		name: "sidecar", make: inits(sidecar("side", forever), container("second", shell("exit 0"))),
		until: ready,
	},
	{
		name: "job with a sidecar", make: and(inits(sidecar("side", forever)), runs(corev1.RestartPolicyNever, exits(0, 6))),
		until: both(ended("app"), ended("side")),
	},
	{
		name: "sidecar crashes", make: inits(sidecar("side", shell("exit 7"))), until: waiting("side", "CrashLoopBackOff", 1),
	},
	{
		name:  "sidecar of a failed init",
		make:  and(inits(sidecar("side", forever), container("second", shell("exit 5"))), policy(corev1.RestartPolicyNever)),
		until: both(phase(corev1.PodFailed), ended("side")),
	},
	{name: "sidecar not started", make: and(inits(sidecar("side", forever)), spec(func(s *corev1.PodSpec) {
		s.InitContainers[0].StartupProbe = &corev1.Probe{
			ProbeHandler: execs("exit 1"), PeriodSeconds: 1, FailureThreshold: 1000,
		}
	})), until: running("side", 0)},
}

// resources are limits or requests.
func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func limits(pairs ...string) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Resources.Limits = resources(pairs...) })
}

func requests(pairs ...string) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Resources.Requests = resources(pairs...) })
}

var resourceKinds = []kind{
	{name: "guaranteed", make: limits("cpu", "100m", "memory", "64Mi"), until: ready},
	{name: "burstable", make: and(limits("memory", "64Mi"), requests("cpu", "10m", "memory", "32Mi")), until: ready},
	{name: "OOM", make: and(limits("memory", "32Mi"), runs(corev1.RestartPolicyNever, func(*rand.Rand) []string {
		// Not at once: containerd tells nothing of an OOM that comes before it has begun to look.
		return []string{"sh", "-c", "sleep 5; exec tail /dev/zero"}
	})), until: phase(corev1.PodFailed)},
	{
		name: "resize cpu", make: and(limits("cpu", "200m", "memory", "64Mi"), requests("cpu", "100m", "memory", "64Mi")),
		until: ready,
		then: patched(
			"resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"150m"},"limits":{"cpu":"300m"}}}]}}`,
		),
		after: func(pod *corev1.Pod) error {
			r := status(pod, "app").Resources
			return when(r != nil && r.Limits.Cpu().String() == "300m")
		},
	},
	{
		name: "resize by restart", make: and(limits("memory", "64Mi"), app(func(_ *rand.Rand, c *corev1.Container) {
			c.ResizePolicy = []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
			}
		})), until: ready, then: patched(
			"resize",
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"memory":"80Mi"},"limits":{"memory":"80Mi"}}}]}}`,
		),
		after: both(running("app", 1), ready),
	},
	{name: "ephemeral storage", make: limits("ephemeral-storage", "100Mi"), until: ready},
	{name: "pod-level resources", make: spec(func(s *corev1.PodSpec) {
		s.Resources = &corev1.ResourceRequirements{Limits: resources("cpu", "200m", "memory", "64Mi")}
	}), until: ready},
	{
		name: "resize of a whole pod",
		make: spec(func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{
				Limits: resources("cpu", "200m", "memory", "64Mi"), Requests: resources("cpu", "100m", "memory", "64Mi"),
			}
		}),
		until: ready, then: patched("resize", `{"spec":{"resources":{"requests":{"cpu":"150m"},"limits":{"cpu":"300m"}}}}`),
		after: func(pod *corev1.Pod) error {
			r := pod.Status.Resources
			return when(r != nil && r.Limits.Cpu().String() == "300m" && r.Requests.Cpu().String() == "150m")
		},
	},
}
