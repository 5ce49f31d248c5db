package transition

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTerminatedContainerComesBackOnlyByItsPolicy(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	onFailure := corev1.ContainerRestartPolicyOnFailure
	rule := func(
		action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32,
	) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{
			Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
		}}
	}
	restart, all := corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	in, notIn := corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn

	cases := []struct {
		name string
		pod  corev1.RestartPolicy
		own  *corev1.ContainerRestartPolicy
		rule []corev1.ContainerRestartRule
		code int32
		want bool // may run again
	}{
		{name: "Always, success", pod: corev1.RestartPolicyAlways, want: true},
		{name: "Always, failure", pod: corev1.RestartPolicyAlways, code: 1, want: true},
		{name: "unset is Always", want: true},
		{name: "OnFailure, success", pod: corev1.RestartPolicyOnFailure},
		{name: "OnFailure, failure", pod: corev1.RestartPolicyOnFailure, code: 1, want: true},
		{name: "Never, success", pod: corev1.RestartPolicyNever},
		{name: "Never, failure", pod: corev1.RestartPolicyNever, code: 1},
		{name: "own Always (a sidecar) in Never", pod: corev1.RestartPolicyNever, own: &always, want: true},
		{name: "own OnFailure in Never, failure", pod: corev1.RestartPolicyNever, own: &onFailure, code: 2, want: true},
		{name: "own OnFailure in Never, success", pod: corev1.RestartPolicyNever, own: &onFailure},
		{name: "own Never in Always", pod: corev1.RestartPolicyAlways, own: &never, code: 1},
		{
			name: "own Never, rule matches", pod: corev1.RestartPolicyNever, own: &never, rule: rule(restart, in, 3, 4), code: 4,
			want: true,
		},
		{
			name: "own Never, rule does not match", pod: corev1.RestartPolicyNever, own: &never, rule: rule(restart, in, 3, 4),
			code: 5,
		},
		{
			name: "own Never, rule by exclusion", pod: corev1.RestartPolicyNever, own: &never, rule: rule(restart, notIn, 3),
			code: 5, want: true,
		},
		{
			name: "own Never, excluded by rule", pod: corev1.RestartPolicyNever, own: &never, rule: rule(restart, notIn, 3),
			code: 3,
		},
		{
			name: "own Never, rule without exit codes", pod: corev1.RestartPolicyNever, own: &never,
			rule: []corev1.ContainerRestartRule{{Action: restart}}, code: 5,
		},
		{
			name: "rule restarts the pod", pod: corev1.RestartPolicyNever, own: &never, rule: rule(all, in, 42), code: 0,
			want: true,
		},
	}
	up := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	for _, c := range cases {
		container := corev1.Container{Name: "c", RestartPolicy: c.own, RestartPolicyRules: c.rule}
		for kind, spec := range map[string]*corev1.PodSpec{
			"container":      {RestartPolicy: c.pod, Containers: []corev1.Container{container}},
			"init container": {RestartPolicy: c.pod, InitContainers: []corev1.Container{container}},
		} {
			for state, next := range map[string]corev1.ContainerState{"running": up, "waiting": waiting, "nothing": {}} {
				t.Run(kind+", "+c.name+", to "+state, func(t *testing.T) {
					status := func(s corev1.ContainerState) *corev1.PodStatus {
						list := []corev1.ContainerStatus{{Name: "c", State: s}}
						if kind == "container" {
							return &corev1.PodStatus{ContainerStatuses: list}
						}
						return &corev1.PodStatus{InitContainerStatuses: list}
					}
					err := Check(spec, status(exited(c.code)), status(next))
					if got := err == nil; got != c.want {
						t.Errorf("allowed %v, want %v (%v)", got, c.want, err)
					}
					if err := Check(spec, status(exited(c.code)), status(exited(9))); err != nil {
						t.Errorf("staying terminated is refused: %v", err)
					}
					if err := Check(spec, status(next), status(exited(c.code))); err != nil {
						t.Errorf("ending is refused: %v", err)
					}
				})
			}
		}
	}
}

func TestEphemeralContainerNeverComesBack(t *testing.T) {
	from := &corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", State: exited(1)}}}
	to := &corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug"}}}
	if Check(&corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}, from, to) == nil {
		t.Error("an ephemeral container was restarted")
	}
}

func TestUnknownContainerNeverComesBack(t *testing.T) {
	from := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "x", State: exited(1)}}}
	to := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "x"}}}
	if Check(&corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}, from, to) == nil {
		t.Error("a container that the spec does not know was restarted; the API refuses that")
	}
}

func exited(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}
