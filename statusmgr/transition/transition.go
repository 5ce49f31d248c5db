package transition

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Check refuses a status in which a terminated container runs or
// waits again although its restart policy does not allow that. The API server
// applies the same rules (ValidateContainerStateTransition and its siblings in
// pkg/apis/core/validation), container by container; the kubelet's own check
// lets everything pass under restartPolicy Always, and the write then fails.
func Check(spec *corev1.PodSpec, from, to *corev1.PodStatus) error {
	// Ephemeral containers are never restarted.
	never := func(string, int32) bool { return false }
	if err := checkList(
		"ephemeral container", from.EphemeralContainerStatuses, to.EphemeralContainerStatuses, never,
	); err != nil {
		return err
	}
	if anyRestartsAll(spec) {
		return nil
	}
	main := func(name string, code int32) bool { return mayRestart(spec, spec.Containers, name, code) }
	if err := checkList("container", from.ContainerStatuses, to.ContainerStatuses, main); err != nil {
		return err
	}
	initial := func(name string, code int32) bool { return mayRestart(spec, spec.InitContainers, name, code) }
	return checkList("init container", from.InitContainerStatuses, to.InitContainerStatuses, initial)
}

func checkList(kind string, from, to []corev1.ContainerStatus, may func(name string, code int32) bool) error {
	for i := range from {
		end := from[i].State.Terminated
		if end == nil {
			continue
		}
		now := Of(to, from[i].Name)
		if now == nil || now.State.Terminated != nil || may(from[i].Name, end.ExitCode) {
			continue
		}
		return fmt.Errorf("refuse status: terminated %s %q (exit code %d) cannot leave the terminated state under its "+
			"restart policy",
			kind, from[i].Name, end.ExitCode)
	}
	return nil
}

// KeepTerminated adds to each list of to the terminated containers of from that
// it lacks. A container that was left out once could otherwise come back.
func KeepTerminated(from, to *corev1.PodStatus) {
	keep := func(from []corev1.ContainerStatus, to *[]corev1.ContainerStatus) {
		for i := range from {
			if from[i].State.Terminated != nil && Of(*to, from[i].Name) == nil {
				*to = append(*to, *from[i].DeepCopy())
			}
		}
	}
	keep(from.InitContainerStatuses, &to.InitContainerStatuses)
	keep(from.ContainerStatuses, &to.ContainerStatuses)
	keep(from.EphemeralContainerStatuses, &to.EphemeralContainerStatuses)
}

// anyRestartsAll reports whether some container's exit may restart the whole
// pod (RestartAllContainers), whatever the policies of the others.
func anyRestartsAll(spec *corev1.PodSpec) bool {
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(spec.InitContainers, has) || slices.ContainsFunc(spec.Containers, has)
}

// mayRestart reports whether the named container may run again after it ended
// with code: by its own rules, else its own policy (a sidecar's is Always),
// else the pod's.
func mayRestart(spec *corev1.PodSpec, list []corev1.Container, name string, code int32) bool {
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return false
	}
	own := list[i].RestartPolicy
	if own == nil {
		switch spec.RestartPolicy {
		case corev1.RestartPolicyNever:
			return false
		case corev1.RestartPolicyOnFailure:
			return code != 0
		default: // the API's default is Always
			return true
		}
	}
	for _, rule := range list[i].RestartPolicyRules {
		if rule.Action == corev1.ContainerRestartRuleActionRestart && ruleMatches(rule, code) {
			return true
		}
	}
	switch *own {
	case corev1.ContainerRestartPolicyNever:
		return false
	case corev1.ContainerRestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}

func ruleMatches(rule corev1.ContainerRestartRule, code int32) bool {
	if rule.ExitCodes == nil {
		return false
	}
	in := slices.Contains(rule.ExitCodes.Values, code)
	switch rule.ExitCodes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return in
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !in
	default:
		return false
	}
}

// Of returns the status of the named container; nil where the list has none.
func Of(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
