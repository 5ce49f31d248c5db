package differential

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func execs(script string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}

func gets(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}}
}

func dials() corev1.ProbeHandler {
	return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}
}

func asks() corev1.ProbeHandler { return corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 8080}} }

// serves answers HTTP on 8080 with a page at /.
var serves = []string{"sh", "-c", "mkdir /www; echo hello >/www/index.html; exec httpd -f -p 8080 -h /www"}

// readiness and the others give the app a probe that fails quickly.
func readiness(h corev1.ProbeHandler) func(*rand.Rand, *corev1.Pod) {
	return app(func(r *rand.Rand, c *corev1.Container) { c.ReadinessProbe = probe(r, h) })
}

func liveness(h corev1.ProbeHandler) func(*rand.Rand, *corev1.Pod) {
	return app(func(r *rand.Rand, c *corev1.Container) { c.LivenessProbe = probe(r, h) })
}

func startup(h corev1.ProbeHandler) func(*rand.Rand, *corev1.Pod) {
	return app(func(r *rand.Rand, c *corev1.Container) { c.StartupProbe = probe(r, h) })
}

func probe(r *rand.Rand, h corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: h, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1 + r.Int32N(2),
		InitialDelaySeconds: r.Int32N(2),
	}
}

func serving() func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Command = serves })
}

var probeKinds = []kind{
	{name: "readiness", make: readiness(execs("exit 0")), until: ready},
	{name: "not ready", make: readiness(execs("echo no; exit 1")), until: running("app", 0)},
	{name: "not ready in time", make: readiness(execs("sleep 5")), until: running("app", 0)},
	{
		name:  "no command to probe",
		make:  readiness(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/no/such"}}}),
		until: running("app", 0),
	},
	{name: "readiness over HTTP", make: and(serving(), readiness(gets("/"))), until: ready},
	{name: "not ready over HTTP", make: and(serving(), readiness(gets("/missing"))), until: running("app", 0)},
	{name: "HTTP refused", make: readiness(gets("/")), until: running("app", 0)},
	{name: "readiness over TCP", make: and(serving(), readiness(dials())), until: ready},
	{name: "TCP refused", make: readiness(dials()), until: running("app", 0)},
	{name: "gRPC refused", make: readiness(asks()), until: running("app", 0)},
	{name: "gRPC from another server", make: and(serving(), readiness(asks())), until: running("app", 0)},
	{name: "liveness", make: liveness(execs("exit 3")), until: both(running("app", 1))},
	{
		name: "liveness of a pod that ends", make: and(liveness(execs("exit 3")), policy(corev1.RestartPolicyNever)),
		until: phase(corev1.PodSucceeded),
	},
	{name: "liveness over HTTP", make: liveness(gets("/")), until: running("app", 1)},
	{name: "startup", make: and(startup(execs("exit 0")), readiness(execs("exit 0"))), until: ready},
	{name: "startup fails", make: startup(execs("echo no; exit 1")), until: running("app", 1)},
	{name: "startup never", make: app(func(_ *rand.Rand, c *corev1.Container) {
		c.StartupProbe = &corev1.Probe{ProbeHandler: execs("exit 1"), FailureThreshold: 1000}
	}), until: running("app", 0)},
}

func hooks(l corev1.Lifecycle) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Lifecycle = &l })
}

func does(script string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}

var hookKinds = []kind{
	{name: "postStart", make: hooks(corev1.Lifecycle{PostStart: does("exit 0")}), until: ready},
	{
		name: "postStart fails", make: hooks(corev1.Lifecycle{PostStart: does("echo no; exit 4")}),
		until: waiting("app", "PostStartHookError", 0),
	},
	{
		name: "postStart fails again", make: hooks(corev1.Lifecycle{PostStart: does("echo no; exit 4")}),
		until: waiting("app", "CrashLoopBackOff", 1),
	},
	{name: "postStart over HTTP fails", make: hooks(corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
		HTTPGet: gets("/").HTTPGet,
	}}), until: waiting("app", "CrashLoopBackOff", 1)},
	{
		name: "postStart takes long", make: hooks(corev1.Lifecycle{PostStart: does("sleep 1000")}),
		until: waiting("app", "ContainerCreating", 0),
	},
	{name: "preStop", make: hooks(corev1.Lifecycle{PreStop: does("exit 0")}), until: ready, then: deleted(5), gone: true},
	{
		name: "preStop fails", make: hooks(corev1.Lifecycle{PreStop: does("echo no; exit 4")}), until: ready,
		then: deleted(5), gone: true,
	},
	{
		name: "preStop over HTTP fails",
		make: hooks(corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: gets("/").HTTPGet}}), until: ready,
		then: deleted(5), gone: true,
	},
	{
		name: "preStop takes too long", make: hooks(corev1.Lifecycle{PreStop: does("sleep 1000")}), until: ready,
		then: deleted(3), gone: true,
	},
	{
		name:  "preStop sleeps",
		make:  hooks(corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}),
		until: ready, then: deleted(5), gone: true,
	},
}

var endKinds = []kind{
	{name: "deleted", make: and(), until: ready, then: deleted(5), gone: true},
	{
		name: "deleted and deaf", make: app(func(_ *rand.Rand, c *corev1.Container) { c.Command = deaf }), until: ready,
		then: deleted(2), gone: true,
	},
	{name: "deleted at once", make: and(), until: ready, then: deleted(0), gone: true},
	{
		name: "deleted in its init", make: inits(container("first", deaf)), until: running("first", 0), then: deleted(1),
		gone: true,
	},
	{
		name: "deleted with sidecars", make: inits(sidecar("side", forever), sidecar("other", deaf)), until: ready,
		then: deleted(3), gone: true,
	},
	{
		name:  "deleted without its image",
		make:  app(func(_ *rand.Rand, c *corev1.Container) { c.Image = "registry.burstlet.test/missing:1" }),
		until: waiting("app", "ImagePullBackOff", 0), then: deleted(5), gone: true,
	},
	{
		name:  "deleted without its volume",
		make:  mounts(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing"}}),
		until: waiting("app", "ContainerCreating", 0), then: deleted(5), gone: true,
	},
	{
		name: "deleted in its crash loop", make: runs(corev1.RestartPolicyAlways, exits(1)),
		until: waiting("app", "CrashLoopBackOff", 1), then: deleted(5), gone: true,
	},
	{
		name: "deleted when it has ended", make: runs(corev1.RestartPolicyNever, exits(0, 1)), until: ended("app"),
		then: deleted(5), gone: true,
	},
	{
		name: "deadline", make: spec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(4)) }),
		until: both(phase(corev1.PodFailed), ended("app")),
	},
	{name: "deadline of one that waits", make: and(spec(
		func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(4)) },
	),
		app(
			func(_ *rand.Rand, c *corev1.Container) { c.Image = "registry.burstlet.test/missing:1" },
		)), until: phase(corev1.PodFailed)},
	{
		name: "deadline in its init",
		make: and(
			inits(container("first", forever)), spec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(4)) }),
		),
		until: phase(corev1.PodFailed),
	},
}
