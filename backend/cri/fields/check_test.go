package fields

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Who deals with a field.
const (
	honoured  = "honoured"  // by this backend
	engine    = "engine"    // by the engine: restarts, probes, hooks, environment
	cluster   = "cluster"   // by scheduler, admission and controllers
	refused   = "refused"   // here, by Check, in part or whole
	walked    = "walked"    // its own fields are classified
	elsewhere = "elsewhere" // on nodes of another kind
)

func TestEveryFieldIsClassified(t *testing.T) {
	podSpec := map[string]string{
		"volumes": honoured, "initContainers": walked, "containers": walked, "ephemeralContainers": walked,
		"restartPolicy": engine, "terminationGracePeriodSeconds": engine, "activeDeadlineSeconds": engine,
		"dnsPolicy": honoured, "nodeSelector": cluster, "serviceAccountName": cluster, "serviceAccount": cluster,
		"automountServiceAccountToken": cluster, "nodeName": cluster, "hostNetwork": honoured, "hostPID": honoured,
		"hostIPC": honoured, "shareProcessNamespace": honoured, "securityContext": walked, "imagePullSecrets": engine,
		"hostname": honoured, "subdomain": honoured, "affinity": cluster, "schedulerName": cluster, "tolerations": cluster,
		"hostAliases": honoured, "priorityClassName": honoured, "priority": cluster, "dnsConfig": honoured,
		"readinessGates": engine, "runtimeClassName": honoured, "enableServiceLinks": engine, "preemptionPolicy": cluster,
		"overhead": honoured, "topologySpreadConstraints": cluster, "setHostnameAsFQDN": honoured, "os": refused,
		"hostUsers": honoured, "schedulingGates": cluster, "resourceClaims": refused, "resources": honoured,
		"hostnameOverride": honoured, "schedulingGroup": cluster,
	}
	podSecurity := map[string]string{
		"seLinuxOptions": honoured, "windowsOptions": elsewhere, "runAsUser": honoured, "runAsGroup": honoured,
		"runAsNonRoot": honoured, "supplementalGroups": honoured, "supplementalGroupsPolicy": honoured,
		"fsGroup": honoured, "sysctls": honoured,
		"fsGroupChangePolicy": honoured, "seccompProfile": honoured, "appArmorProfile": honoured,
		"seLinuxChangePolicy": honoured,
	}
	container := map[string]string{
		"name": honoured, "image": honoured, "command": honoured, "args": honoured, "workingDir": honoured,
		"ports": honoured, "envFrom": engine, "env": honoured, "resources": refused, "resizePolicy": engine,
		"restartPolicy": engine, "restartPolicyRules": engine, "volumeMounts": honoured, "volumeDevices": refused,
		"livenessProbe": engine, "readinessProbe": engine, "startupProbe": engine, "lifecycle": refused,
		"terminationMessagePath": honoured, "terminationMessagePolicy": honoured, "imagePullPolicy": engine,
		"securityContext": walked, "stdin": honoured, "stdinOnce": honoured, "tty": honoured,
	}
	security := map[string]string{
		"capabilities": honoured, "privileged": honoured, "seLinuxOptions": honoured, "windowsOptions": elsewhere,
		"runAsUser": honoured, "runAsGroup": honoured, "runAsNonRoot": honoured, "readOnlyRootFilesystem": honoured,
		"allowPrivilegeEscalation": honoured, "procMount": honoured, "seccompProfile": honoured, "appArmorProfile": honoured,
	}
	classified(t, reflect.TypeFor[corev1.PodSpec](), podSpec, fieldsOf(podRules()))
	classified(t, reflect.TypeFor[corev1.PodSecurityContext](), podSecurity, nil)
	classified(t, reflect.TypeFor[corev1.Container](), container, fieldsOf(containerRules()))
	classified(t, reflect.TypeFor[corev1.SecurityContext](), security, nil)
}

func fieldsOf[T any](rules []rule[T]) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.field)
	}
	return out
}

// classified holds a table against the API type and the rules of Check.
func classified(t *testing.T, typ reflect.Type, table map[string]string, rules []string) {
	t.Helper()
	var known []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		known = append(known, name)
		if table[name] == "" {
			t.Errorf("%s.%s is not classified: does this backend honour it?", typ.Name(), name)
		}
		if has := slices.Contains(rules, name); has != (table[name] == refused) {
			t.Errorf("%s.%s is %s, but has a rule: %v", typ.Name(), name, table[name], has)
		}
	}
	for name := range table {
		if !slices.Contains(known, name) {
			t.Errorf("%s has no field %s", typ.Name(), name)
		}
	}
}

func TestCheck(t *testing.T) {
	local := "p.json"
	for _, tt := range []struct {
		name string
		set  func(*corev1.Pod)
		want []string
	}{
		{"plain", func(*corev1.Pod) {}, nil},
		{"windows", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, []string{"spec.os"}},
		{"linux", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, nil},
		{"user namespace", func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }, nil},
		{"host users", func(p *corev1.Pod) { p.Spec.HostUsers = new(true) }, nil},
		{
			"claims", func(p *corev1.Pod) { p.Spec.ResourceClaims = make([]corev1.PodResourceClaim, 1) },
			[]string{"spec.resourceClaims[0]"},
		},
		{"pod security", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{
				WindowsOptions: &corev1.WindowsSecurityContextOptions{}, // a kubelet on Linux does not look at them
				RunAsUser:      new(int64(1)), FSGroup: new(int64(2)), Sysctls: make([]corev1.Sysctl, 1),
				SELinuxOptions: &corev1.SELinuxOptions{}, SELinuxChangePolicy: new(corev1.SELinuxChangePolicyRecursive),
				SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict),
				SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &local,
				},
				AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local},
			}
			p.Spec.Volumes, p.Spec.HostAliases = make([]corev1.Volume, 2), make([]corev1.HostAlias, 1)
			p.Spec.RuntimeClassName, p.Spec.SetHostnameAsFQDN = new("kata"), new(true)
			p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
			p.Spec.Resources = &corev1.ResourceRequirements{}
			p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.ShareProcessNamespace = true, true, new(true)
		}, nil},
		{"container", func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts, c.VolumeDevices = make([]corev1.VolumeMount, 2), make([]corev1.VolumeDevice, 1)
			c.Resources.Limits = corev1.ResourceList{
				"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1"),
				"hugepages-2Mi": resource.MustParse("2Mi"), "ephemeral-storage": resource.MustParse("1Gi"),
			}
			c.Resources.Requests = corev1.ResourceList{
				"memory": resource.MustParse("1Mi"), "ephemeral-storage": resource.MustParse("1Gi"),
			}
			c.Resources.Claims = make([]corev1.ResourceClaim, 1)
			c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGHUP)}
		}, []string{
			"spec.containers[0].volumeDevices[0]", "spec.containers[0].resources.claims[0]",
			"spec.containers[0].resources.limits[nvidia.com/gpu]",
			"spec.containers[0].lifecycle.stopSignal",
		}},
		{"ephemeral container", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{}, {EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeDevices: make([]corev1.VolumeDevice, 1)}},
			}
		}, []string{"spec.ephemeralContainers[1].volumeDevices[0]"}},
		{"what the engine does", func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.LivenessProbe, c.RestartPolicy = &corev1.Probe{}, new(corev1.ContainerRestartPolicyNever)
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}, PreStop: &corev1.LifecycleHandler{}}
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			p.Spec.InitContainers = []corev1.Container{{RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
			p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, 1)
			p.Spec.ImagePullSecrets = make([]corev1.LocalObjectReference, 1)
		}, nil},
		{"container security", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{
				SELinuxOptions: &corev1.SELinuxOptions{}, WindowsOptions: &corev1.WindowsSecurityContextOptions{},
				ProcMount:       new(corev1.UnmaskedProcMount),
				SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost},
				AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost},
			}}}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}
			tt.set(pod)
			var got []string
			for _, r := range Check(pod) {
				got = append(got, r.Field)
				if r.Why == "" {
					t.Errorf("%s is refused without a reason", r.Field)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}
