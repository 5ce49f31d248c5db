package provider

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

// Reasons of the Ready condition beside the kubelet's own.
const (
	reasonUnreachable = "BackendUnreachable"
	reasonDenied      = "BackendDenied"
)

// unreachableAfter is how long the remote may go without a complete listing.
const unreachableAfter = 40 * time.Second

// observation is what is known of the remote at one moment.
type observation struct {
	now time.Time
	// started is when this process began; it stands for a first listing.
	started time.Time
	// lastRelist is when the last complete listing ended; zero before the first.
	lastRelist time.Time
	// facts is what the remote last said of itself; nil if it never did.
	facts *backend.NodeFacts
	// remembered is what the API holds of the remote from an earlier life of the node;
	// nil for nothing. It counts while facts is nil.
	remembered *backend.NodeFacts
	// factsErr is why the last question had no answer; nil if it had.
	factsErr error
	// images are those of the remote; nil while they are not known.
	images []corev1.ContainerImage
	// pressure are the pressure conditions that are true; where they are not known yet, those
	// that the API holds.
	pressure []corev1.NodeConditionType
	// closing is true once the node is being shut down.
	closing bool
	// restate lets the message of a condition change that is kept steady.
	restate bool
}

// verdict is the status of a condition without its times.
type verdict struct {
	kind            corev1.NodeConditionType
	status          corev1.ConditionStatus
	reason, message string
	// steady keeps the message of the present condition while the reason stays:
	// the new one may differ only in details that come and go.
	steady bool
}

// verdicts are all our conditions, Ready last as a kubelet orders them.
func verdicts(backendName string, obs observation, capacity corev1.ResourceList) []verdict {
	var all []verdict
	for _, w := range pressureWords {
		v := verdict{kind: w.kind, status: corev1.ConditionFalse, reason: w.no, message: w.noMessage}
		if slices.Contains(obs.pressure, w.kind) {
			v.status, v.reason, v.message = corev1.ConditionTrue, w.yes, w.yesMessage
		}
		all = append(all, v)
	}
	return append(all, network(obs), ready(backendName, obs, capacity))
}

// pressureWords are the kubelet's reasons and messages of the pressure conditions
// (nodestatus setters).
var pressureWords = []struct {
	kind                           corev1.NodeConditionType
	yes, yesMessage, no, noMessage string
}{
	{
		corev1.NodeMemoryPressure, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available",
	},
	{
		corev1.NodeDiskPressure, "KubeletHasDiskPressure", "kubelet has disk pressure",
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure",
	},
	{
		corev1.NodePIDPressure, "KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available",
	},
}

// pressureIn are the pressure conditions that the API holds as true.
func pressureIn(inAPI []corev1.NodeCondition) (kinds []corev1.NodeConditionType) {
	for _, w := range pressureWords {
		if c := condition(inAPI, w.kind); c != nil && c.Status == corev1.ConditionTrue {
			kinds = append(kinds, w.kind)
		}
	}
	return kinds
}

func network(obs observation) verdict {
	if obs.facts != nil && !obs.facts.NetworkReady {
		return verdict{
			kind: corev1.NodeNetworkUnavailable, status: corev1.ConditionTrue,
			reason: "NetworkPluginNotReady", message: obs.facts.Message,
		}
	}
	return verdict{
		kind: corev1.NodeNetworkUnavailable, status: corev1.ConditionFalse,
		reason: "BackendProvidesNetwork", message: "the backend gives pods their addresses",
	}
}

func ready(backendName string, obs observation, capacity corev1.ResourceList) verdict {
	no := func(reason, message string, steady bool) verdict {
		return verdict{corev1.NodeReady, corev1.ConditionFalse, reason, message, steady && !obs.restate}
	}
	switch {
	case backend.Class(obs.factsErr) == "Denied":
		return no(reasonDenied, fmt.Sprintf("the remote (backend %s) refuses the configured credentials; "+
			"pods that run keep running, but nothing can be started or stopped: %v", backendName, obs.factsErr), true)
	case unreachable(obs):
		return no(reasonUnreachable, unreachableMessage(backendName, obs), true)
	}
	var problems []string
	if obs.facts != nil && !obs.facts.NetworkReady {
		problems = append(problems, networkProblem(obs.facts))
	}
	if obs.closing {
		problems = append(problems, "node is shutting down")
	}
	if missing := missingCapacity(capacity); len(missing) > 0 {
		problems = append(problems, "missing node capacity for resources: "+strings.Join(missing, ", "))
	}
	switch {
	case obs.facts == nil:
		problems = append(problems, unanswered(backendName, obs.factsErr))
	case backend.Class(obs.factsErr) == "Unsupported": // it was well before
		problems = append(problems, obs.factsErr.Error())
	}
	if len(problems) > 0 {
		return no("KubeletNotReady", strings.Join(problems, "; "), obs.facts == nil && !obs.closing)
	}
	return verdict{
		kind: corev1.NodeReady, status: corev1.ConditionTrue,
		reason: "KubeletReady", message: "kubelet is posting ready status",
	}
}

// unanswered is about a remote that never said what it is: whatever capacity is
// configured, it is not known to run pods.
func unanswered(backendName string, err error) string {
	problem := "the remote (backend " + backendName + ") has not answered yet"
	if err != nil {
		problem += ": " + err.Error()
	}
	return problem
}

func unreachable(obs observation) bool {
	last := obs.lastRelist
	if last.Before(obs.started) {
		last = obs.started
	}
	return obs.now.Sub(last) > unreachableAfter
}

func unreachableMessage(backendName string, obs observation) string {
	since := "since this process started at " + obs.started.UTC().Format(time.RFC3339)
	if !obs.lastRelist.IsZero() {
		since = "since " + obs.lastRelist.UTC().Format(time.RFC3339)
	}
	message := fmt.Sprintf("the remote (backend %s) could not be listed %s: its pods may well run, "+
		"their statuses stay as they are; check the remote and the network to it", backendName, since)
	if obs.factsErr != nil {
		message += ": " + obs.factsErr.Error()
	}
	return message
}

// missingCapacity names the resources without which a kubelet is not ready.
func missingCapacity(capacity corev1.ResourceList) []string {
	var missing []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if _, ok := capacity[name]; !ok {
			missing = append(missing, string(name))
		}
	}
	return missing
}

// conditions turns verdicts into conditions. Their transition times are those of
// the API's conditions, or of the ones computed before, while the status stays.
func conditions(found []verdict, now time.Time, inAPI, before []corev1.NodeCondition) []corev1.NodeCondition {
	out := make([]corev1.NodeCondition, 0, len(found))
	for _, v := range found {
		have, last := condition(inAPI, v.kind), condition(before, v.kind)
		c := corev1.NodeCondition{
			Type: v.kind, Status: v.status, Reason: v.reason, Message: v.message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		}
		switch {
		case have != nil && have.Status == v.status:
			c.LastTransitionTime = have.LastTransitionTime
		case last != nil && last.Status == v.status &&
			(have == nil || last.LastTransitionTime.After(have.LastTransitionTime.Time)):
			c.LastTransitionTime = last.LastTransitionTime
		}
		if v.steady && last != nil && last.Status == v.status && last.Reason == v.reason {
			c.Message = last.Message
		}
		out = append(out, c)
	}
	return out
}

func condition(list []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}
