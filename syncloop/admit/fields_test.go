package admit

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// everything is a pod with all that a backend may lack, in its second container.
func everything() *corev1.Pod {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	exec := func() *corev1.ExecAction { return &corev1.ExecAction{Command: []string{"true"}} }
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name: "sidecar", RestartPolicy: &always,
			StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}},
		}, {Name: "init", RestartPolicy: &never}},
		Containers: []corev1.Container{{Name: "plain"}, {
			Name: "a", RestartPolicy: &always,
			LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: exec()}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}},
			StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}},
			Lifecycle: &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: exec()},
				PreStop:   &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}},
			},
			RestartPolicyRules:       []corev1.ContainerRestartRule{{}},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			EnvFrom:                  []corev1.EnvFromSource{{}},
			Env: []corev1.EnvVar{{
				Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}},
			}},
		}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}},
	}}
}

// TestFields: the engine refuses what a backend does not lend, by name, and
// nothing else.
func TestFields(t *testing.T) {
	const (
		liveness  = "spec.containers[1].livenessProbe.exec"
		readiness = "spec.containers[1].readinessProbe.httpGet"
		startup   = "spec.containers[1].startupProbe.tcpSocket"
		grpc      = "spec.initContainers[0].startupProbe.grpc"
		postStart = "spec.containers[1].lifecycle.postStart"
		preStop   = "spec.containers[1].lifecycle.preStop.httpGet"
	)
	sleeps := everything()
	sleeps.Spec.InitContainers, sleeps.Spec.Containers = nil, []corev1.Container{{Lifecycle: &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}},
		PreStop:   &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}},
	}}}
	never := everything()
	never.Spec = corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{}, {}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{}, {ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}},
		}}},
	}
	fromFile := never.DeepCopy()
	fromFile.Spec.ResourceClaims = nil
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		can  Abilities
		want []string
	}{
		{"variables from files", fromFile, can(backend.Traits{Containers: true, Places: true}), nil},
		{"and none where a pod is launched whole", fromFile, can(backend.Traits{Places: true}), []string{
			"spec.containers[0].env[1].valueFrom.fileKeyRef",
		}},
		{"a backend that can everything", everything(), can(backend.Traits{Containers: true, Exec: true, Dial: true}), nil},
		{"no exec", everything(), can(backend.Traits{Containers: true, Dial: true}), []string{liveness, postStart + ".exec"}},
		{"no dial", everything(), can(backend.Traits{Containers: true, Exec: true}), []string{
			grpc, startup, readiness, preStop,
		}},
		{"the remote runs probes and hooks by itself", everything(), can(backend.Traits{
			Containers: true, Limits: backend.Limits{Supervised: true},
		}), nil},
		{"the pod is the unit", everything(), can(backend.Traits{Exec: true, Dial: true}), []string{
			"spec.initContainers[0].startupProbe",
			"spec.initContainers[1].restartPolicy", postStart, "spec.containers[1].restartPolicy",
			"spec.containers[1].restartPolicyRules",
		}},
		{"sleeping needs nothing", sleeps, can(backend.Traits{Containers: true}), nil},
		{"but a moment after the start", sleeps, can(backend.Traits{}), []string{"spec.containers[0].lifecycle.postStart"}},
		{"what no backend helps with", never, can(backend.Traits{Containers: true, Exec: true, Dial: true}), []string{
			"spec.containers[0].env[1].valueFrom.fileKeyRef", "spec.resourceClaims[0]", "spec.resourceClaims[1]",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(t, Fields(tt.pod, tt.can)); !slices.Equal(got, tt.want) {
				t.Errorf("refuses %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestHostFields: what a pod asks of its host is for the configuration to allow.
func TestHostFields(t *testing.T) {
	pod := aPod("p", takes("", 80))
	pod.Spec.HostPID, pod.Spec.HostIPC = true, true
	inHost := aPod("p", takes("", 80))
	inHost.Spec.HostNetwork = true
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		node Node
		want []string
	}{
		{"nothing allowed", pod, Node{}, []string{"spec.hostPID", "spec.hostIPC", "spec.containers[0].ports[0].hostPort"}},
		{"the network alone", inHost, Node{}, []string{"spec.hostNetwork"}},
		{"ports alone", pod, Node{HostPorts: true}, []string{"spec.hostPID", "spec.hostIPC"}},
		{"all allowed", pod, Node{HostPID: true, HostIPC: true, HostPorts: true}, nil},
		{"the network allowed, with the ports that it implies", inHost, Node{HostNetwork: true}, nil},
		{"nothing asked", aPod("p"), Node{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(t, hostFields(tt.pod, &tt.node)); !slices.Equal(got, tt.want) {
				t.Errorf("refuses %q\nwant %q", got, tt.want)
			}
		})
	}
}

// can are the abilities with a backend of these traits.
func can(t backend.Traits) Abilities { return Abilities{Traits: t} }

func TestAbilitiesOf(t *testing.T) {
	got := AbilitiesOf(backend.Backend{Limits: backend.Limits{Supervised: true}})
	if want := can(backend.Traits{Limits: backend.Limits{Supervised: true}}); got != want {
		t.Errorf("%+v", got)
	}
}

func names(t *testing.T, refusals []backend.Refusal) []string {
	t.Helper()
	var out []string
	for _, r := range refusals {
		if out = append(out, r.Field); r.Why == "" {
			t.Errorf("%s does not say why", r.Field)
		}
	}
	return out
}
