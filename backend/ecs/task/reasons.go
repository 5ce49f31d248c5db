package task

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// StopReason is the reason that our StopTask calls give; ECS shows it as the
// task's stoppedReason.
const StopReason = "Stopped by burstlet"

// Reasons in the kubelet's words.
const (
	reasonImagePull     = "ErrImagePull"
	reasonConfig        = "CreateContainerConfigError"
	reasonCreate        = "CreateContainerError"
	reasonRun           = "RunContainerError"
	reasonOOM           = "OOMKilled"
	reasonUnknown       = "ContainerStatusUnknown"
	reasonPreempted     = "Preempted"
	reasonNodeShutdown  = "NodeShutdown"
	reasonFailedToStart = "FailedToStart"
)

// exitUnknown is the exit code that the kubelet reports for a container whose end
// it did not see.
const exitUnknown = 137

// maintenance is in the stoppedReason of a task that AWS retires (ECS developer
// guide, "Task retirement and maintenance").
const maintenance = "maintenance on the underlying infrastructure"

// endOf says why the remote ended a task, and whether for reasons of its own; empty
// while it runs, and where its own containers or we ended it (ECS API, Task:
// stopCode; ECS developer guide, "Stopped task error codes"). Older documents show
// Spot as TerminationNotice.
func endOf(t types.Task) (reason, message string, disrupted bool) {
	message = aws.ToString(t.StoppedReason)
	if strings.Contains(message, maintenance) { // under several codes
		return reasonNodeShutdown, message, true
	}
	switch t.StopCode {
	case types.TaskStopCodeSpotInterruption, types.TaskStopCodeTerminationNotice:
		return reasonPreempted, message, true
	case types.TaskStopCodeInfrastructureHealth, types.TaskStopCodeServiceSchedulerInitiated:
		return reasonNodeShutdown, message, true
	case types.TaskStopCodeTaskFailedToStart:
		return reasonFailedToStart, message, false
	case types.TaskStopCodeUserInitiated:
		if strings.HasPrefix(message, StopReason) {
			return "", "", false
		}
		// Somebody else stopped it. To the pod it is as if it had been killed:
		// whether it runs again is up to its restart policy.
		return "", message, false
	case types.TaskStopCodeEssentialContainerExited:
	}
	return "", "", false
}

// startFailures are the prefixes of reasons for which a container did not start
// (ECS developer guide, "Stopped task error messages").
var startFailures = []struct{ prefix, reason string }{
	{"CannotPullContainer", reasonImagePull},
	{"CannotPullImageManifest", reasonImagePull},
	{"CannotPullECRContainer", reasonImagePull},
	{"ResourceInitializationError", reasonConfig},
	{"the files of the pod's volumes", reasonConfig},
	{"ResourceNotFoundException", reasonConfig},
	{"CannotCreateVolume", reasonCreate},
	{"CannotCreateContainer", reasonCreate},
	{"CannotStartContainer", reasonRun},
	{"ContainerRuntime", reasonRun},
}

// startFailure is the kubelet's word for why a container did not start.
func startFailure(why string) string {
	for _, f := range startFailures {
		if strings.HasPrefix(why, f.prefix) {
			return f.reason
		}
	}
	return reasonCreate
}

// isOOM is true for a container that was killed for memory; the case of the text
// varies.
func isOOM(why string) bool {
	return strings.HasPrefix(strings.ToLower(why), "outofmemory")
}
