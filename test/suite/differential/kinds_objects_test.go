package differential

import (
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mounts gives the app a volume at /data.
func mounts(source corev1.VolumeSource) func(*rand.Rand, *corev1.Pod) {
	return spec(func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	})
}

// env gives the app a variable.
func env(source corev1.EnvVarSource) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "VALUE", ValueFrom: &source}} })
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func pulls(ref string, p corev1.PullPolicy) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Image, c.ImagePullPolicy = ref, p })
}

func command(argv ...string) func(*rand.Rand, *corev1.Pod) {
	return app(func(_ *rand.Rand, c *corev1.Container) { c.Command = argv })
}

// login gives the pod the Secret that opens the private part of the registry.
func login(_ *rand.Rand, pod *corev1.Pod) {
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{named("login")}
}

var imageKinds = []kind{
	{
		name: "no such image", make: pulls("registry.burstlet.test/missing:1", corev1.PullIfNotPresent),
		until: waiting("app", "ImagePullBackOff", 0),
	},
	{name: "pulled", make: pulls(pulledImage, corev1.PullAlways), until: ready},
	{
		name: "private", make: and(pulls(privateImage, corev1.PullIfNotPresent), login), until: ready,
	},
	{
		name: "private without a login", before: pulledByAnother, make: pulls(privateImage, corev1.PullIfNotPresent),
		until: waiting("app", "ImagePullBackOff", 0),
	},
	{
		name: "private and never pulled", before: pulledByAnother, make: pulls(privateImage, corev1.PullNever),
		until: waiting("app", "ErrImageNeverPull", 0),
	},
	{
		name: "bad name of an image", make: pulls("registry.burstlet.test/Bad:1", corev1.PullIfNotPresent),
		until: waiting("app", "InvalidImageName", 0),
	},
	{name: "never pulled", make: pulls("registry.burstlet.test/missing:1", corev1.PullNever), until: waiting(
		"app", "ErrImageNeverPull", 0,
	)},
	{name: "never pulled, and there", make: pulls(image, corev1.PullNever), until: ready},
	{name: "no such command", make: command("/no/such/command"), until: waiting("app", "CrashLoopBackOff", 1)},
	{
		name:  "no such working directory",
		make:  and(command("sleep", "1000"), app(func(_ *rand.Rand, c *corev1.Container) { c.WorkingDir = "/made" })),
		until: ready,
	},
}

var objectKinds = []kind{
	{
		name: "no such ConfigMap", make: env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: named("missing"), Key: "key",
		}}),
		until: waiting("app", "CreateContainerConfigError", 0),
	},
	{
		name: "no such key", make: env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: named("there"), Key: "missing",
		}}),
		until: waiting("app", "CreateContainerConfigError", 0),
	},
	{name: "no such envFrom", make: app(func(_ *rand.Rand, c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("missing")}}}
	}), until: waiting("app", "CreateContainerConfigError", 0)},
	{name: "optional key", make: env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: named("there"), Key: "missing", Optional: new(true),
	}}), until: ready},
	{
		name:  "no such Secret to mount",
		make:  mounts(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing"}}),
		until: waiting("app", "ContainerCreating", 0),
	},
	{
		name:  "no such ConfigMap to mount",
		make:  mounts(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("missing")}}),
		until: waiting("app", "ContainerCreating", 0),
	},
	{name: "no such key to mount", make: mounts(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: named("there"), Items: []corev1.KeyToPath{{Key: "missing", Path: "file"}},
	}}), until: waiting("app", "ContainerCreating", 0)},
	{
		name: "no such claim", make: mounts(
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}},
		),
		until: waiting("app", "ContainerCreating", 0),
	},
	{
		name: "hostPath of another type", make: mounts(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: "/etc/passwd", Type: new(corev1.HostPathDirectory),
		}}),
		until: waiting("app", "ContainerCreating", 0),
	},
	{
		name: "projected",
		make: mounts(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("there")}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
			}}}},
		}}}),
		until: ready,
	},
	{name: "mounted read-only", make: and(mounts(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), app(func(
		_ *rand.Rand, c *corev1.Container,
	) {
		c.VolumeMounts[0].ReadOnly, c.VolumeMounts[0].RecursiveReadOnly = true, new(corev1.RecursiveReadOnlyIfPossible)
	})), until: ready},
	{
		name: "runAsNonRoot", make: app(func(_ *rand.Rand, c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)}
		}),
		until: waiting("app", "CreateContainerConfigError", 0),
	},
	{name: "subPath out of a file", make: and(mounts(
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("there")}},
	),
		app(func(_ *rand.Rand, c *corev1.Container) { c.VolumeMounts[0].SubPath = "key/below" })), until: waiting(
		"app", "CreateContainerConfigError", 0,
	)},
	{name: "subPath of a bad variable", make: and(mounts(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		app(func(_ *rand.Rand, c *corev1.Container) { c.VolumeMounts[0].SubPathExpr = "$(MISSING)" })), until: waiting(
		"app", "CreateContainerConfigError", 0,
	)},
}

var admissionKinds = []kind{
	{
		name:  "another node's selector",
		make:  spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"example.org/zone": "none"} }),
		until: phase(corev1.PodFailed),
	},
	{name: "more cpu than there is", make: requests("cpu", "5000"), until: phase(corev1.PodFailed)},
	{name: "a sysctl that is not allowed", make: spec(func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "100"}}}
	}), until: phase(corev1.PodFailed)},
	{
		name: "another system", make: spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }),
		until: phase(corev1.PodFailed),
	},
	{name: "strict groups", make: spec(func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{
			SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict),
		}
	}), until: phase(corev1.PodFailed)}, // the hosts have a containerd that cannot do that
	{name: "a host name that is too long", make: spec(func(s *corev1.PodSpec) {
		s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = strings.Repeat("h", 40), strings.Repeat("d", 40), new(true)
	}), until: waiting("app", "ContainerCreating", 0)},
	{name: "host network", make: spec(func(s *corev1.PodSpec) { s.HostNetwork = true }), until: ready},
}

// rule restarts a container by its exit code.
func rule(action corev1.ContainerRestartRuleAction, code int32) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
	}}}
}

var featureKinds = []kind{
	{name: "own policy", make: and(runs(corev1.RestartPolicyNever, exits(1)), app(func(_ *rand.Rand, c *corev1.Container) {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	})), until: waiting("app", "CrashLoopBackOff", 1)},
	{name: "restart rule", make: and(runs(
		corev1.RestartPolicyNever, exits(42),
	), app(func(_ *rand.Rand, c *corev1.Container) {
		c.RestartPolicy, c.RestartPolicyRules = new(corev1.ContainerRestartPolicyNever), rule(
			corev1.ContainerRestartRuleActionRestart, 42,
		)
	})), until: waiting("app", "CrashLoopBackOff", 1)},
	{name: "restart rule of another code", make: and(runs(
		corev1.RestartPolicyNever, exits(41),
	), app(func(_ *rand.Rand, c *corev1.Container) {
		c.RestartPolicy, c.RestartPolicyRules = new(corev1.ContainerRestartPolicyNever), rule(
			corev1.ContainerRestartRuleActionRestart, 42,
		)
	})), until: phase(corev1.PodFailed)},
	{
		name: "ephemeral container", make: and(), until: ready, then: ephemeral("exec sleep 100000"),
		after: running("debug", 0),
	},
	{
		name: "ephemeral container beside a sidecar",
		make: and(inits(sidecar("side", forever)), mounts(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
			runs(corev1.RestartPolicyNever, func(*rand.Rand) []string {
				return shell("until [ -e /data/end ]; do sleep 0.2; done")
			})),
		until: ready,
		then:  ephemeralWith("touch /data/end; "+deafScript, `,"volumeMounts":[{"name":"data","mountPath":"/data"}]`),
		after: both(phase(corev1.PodSucceeded), ended("side"), ended("debug")),
	},
	{
		name: "deleted with a sidecar and a deaf ephemeral container", make: inits(sidecar("side", forever)), until: ready,
		then: steps(ephemeral(deafScript), reaches(running("debug", 0)), deleted(5)), gone: true,
	},
	{name: "ephemeral container ends", make: and(), until: ready, then: ephemeral("exit 3"), after: ended("debug")},
	{name: "stopSignal", make: and(spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} }),
		hooks(corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)})), until: ready},
}
