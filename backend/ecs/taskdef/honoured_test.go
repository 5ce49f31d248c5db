package taskdef

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Every field that the table says is translated changes what is sent.
func TestEveryHonouredFieldChangesTheRequest(t *testing.T) {
	base := func() *corev1.Pod {
		pod := podOf("a", "run")
		pod.Spec.Volumes = []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
		}}
		return pod
	}
	request := func(t *testing.T, pod *corev1.Pod) string {
		if refused := Checker(fullConfig).Check(pod); len(refused) > 0 {
			t.Fatalf("refused: %v", refused)
		}
		def, run := translated(t, pod, 0)
		run.TaskDefinition = nil
		// The identity names containers whether they are honoured or not.
		return string(
			pretty(t, def.ContainerDefinitions),
		) + string(pretty(t, def.Volumes)) + *def.Cpu + "/" + *def.Memory + string(def.PidMode) +
			fmt.Sprint(def.EphemeralStorage) + string(pretty(
			t, run.Overrides.ContainerOverrides[0].Command,
		)) + fmt.Sprint(len(run.Overrides.ContainerOverrides)) +
			string(def.RuntimePlatform.CpuArchitecture) + string(pretty(t, run.Overrides.ContainerOverrides))
	}
	app := func(f func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { f(&p.Spec.Containers[0]) }
	}
	podContext := func(c corev1.PodSecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &c }
	}
	context := func(c corev1.SecurityContext) func(*corev1.Pod) {
		return app(func(a *corev1.Container) { a.SecurityContext = &c })
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}}}
	always := corev1.ContainerRestartPolicyAlways
	big := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}
	samples := map[string]func(*corev1.Pod){
		"pod.volumes": func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		},
		"pod.initContainers": func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i"}} },
		"pod.containers": func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		},
		"pod.terminationGracePeriodSeconds": func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(90)) },
		"pod.shareProcessNamespace":         func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) },
		"pod.nodeSelector": func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{
				"kubernetes.io/arch": "amd64",
			}
		},
		"pod.hostname":          func(p *corev1.Pod) { p.Spec.Hostname = "h" },
		"pod.overhead":          func(p *corev1.Pod) { p.Spec.Overhead = big.Limits },
		"pod.resources":         func(p *corev1.Pod) { p.Spec.Resources = &big },
		"podSecurity.runAsUser": podContext(corev1.PodSecurityContext{RunAsUser: new(int64(5))}),
		"podSecurity.runAsGroup": podContext(corev1.PodSecurityContext{
			RunAsUser: new(int64(5)), RunAsGroup: new(int64(6)),
		}),
		"podSecurity.runAsNonRoot": podContext(corev1.PodSecurityContext{
			RunAsUser: new(int64(5)), RunAsNonRoot: new(true),
		}),
		"podSecurity.fsGroup":            podContext(corev1.PodSecurityContext{FSGroup: new(int64(5))}),
		"podSecurity.supplementalGroups": podContext(corev1.PodSecurityContext{SupplementalGroups: []int64{5}}),
		"podSecurity.sysctls": podContext(
			corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.a", Value: "1"}}},
		),
		"container.name":       app(func(c *corev1.Container) { c.Name = "other" }),
		"container.image":      app(func(c *corev1.Container) { c.Image = "other" }),
		"container.command":    app(func(c *corev1.Container) { c.Command = []string{"other"} }),
		"container.args":       app(func(c *corev1.Container) { c.Args = []string{"other"} }),
		"container.workingDir": app(func(c *corev1.Container) { c.WorkingDir = "/x" }),
		"container.env":        app(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }),
		"container.envFrom": app(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
		}),
		"container.resources": app(func(c *corev1.Container) { c.Resources = big }),
		"container.restartPolicy": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", RestartPolicy: &always}}
		},
		"container.volumeMounts": func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		},
		"container.livenessProbe":  app(func(c *corev1.Container) { c.LivenessProbe = probe }),
		"container.readinessProbe": app(func(c *corev1.Container) { c.ReadinessProbe = probe }),
		"container.startupProbe":   app(func(c *corev1.Container) { c.LivenessProbe, c.StartupProbe = probe, probe }),
		"container.stdin":          app(func(c *corev1.Container) { c.Stdin = true }),
		"container.tty":            app(func(c *corev1.Container) { c.TTY = true }),
		"security.runAsUser":       context(corev1.SecurityContext{RunAsUser: new(int64(5))}),
		"security.runAsGroup": context(corev1.SecurityContext{
			RunAsUser: new(int64(5)), RunAsGroup: new(int64(6)),
		}),
		"security.runAsNonRoot":           context(corev1.SecurityContext{RunAsUser: new(int64(5)), RunAsNonRoot: new(true)}),
		"security.readOnlyRootFilesystem": context(corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}),
		"security.capabilities": context(
			corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		),
	}
	want := request(t, base())
	for name, set := range samples {
		pod := base()
		set(pod)
		if request(t, pod) == want {
			t.Errorf("%s changes nothing", name)
		}
	}
	for prefix, rules := range map[string]map[string]rule{
		"pod.": podRules, "podSecurity.": podSecurityRules, "container.": containerRules, "security.": securityRules,
	} {
		for name, r := range rules {
			if r.who == honoured && samples[prefix+name] == nil {
				t.Errorf("%s%s is honoured, and nobody shows how", prefix, name)
			}
		}
	}
}
