package ecs

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// stopReason is the reason that our StopTask calls give; ECS shows it as the
// task's stoppedReason.
const stopReason = "Stopped by burstlet"

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

// endOf says why the remote ended a task; empty while it runs, and where its own
// containers or we ended it (ECS API, Task: stopCode; ECS developer guide,
// "Stopped task error codes"). Older documents show Spot as TerminationNotice.
func endOf(t types.Task) (reason, message string) {
	message = aws.ToString(t.StoppedReason)
	switch t.StopCode {
	case types.TaskStopCodeSpotInterruption, types.TaskStopCodeTerminationNotice:
		return reasonPreempted, message
	case types.TaskStopCodeInfrastructureHealth, types.TaskStopCodeServiceSchedulerInitiated:
		return reasonNodeShutdown, message
	case types.TaskStopCodeTaskFailedToStart:
		return reasonFailedToStart, message
	case types.TaskStopCodeUserInitiated:
		switch {
		case strings.HasPrefix(message, stopReason):
			return "", ""
		case strings.Contains(message, "maintenance on the underlying infrastructure"):
			return reasonNodeShutdown, message
		}
		// Somebody else stopped it. To the pod it is as if it had been killed:
		// whether it runs again is up to its restart policy.
		return "", message
	case types.TaskStopCodeEssentialContainerExited:
	}
	return "", ""
}

// startFailures are the prefixes of reasons for which a container did not start
// (ECS developer guide, "Stopped task error messages").
var startFailures = []struct{ prefix, reason string }{
	{"CannotPullContainer", reasonImagePull},
	{"CannotPullImageManifest", reasonImagePull},
	{"CannotPullECRContainer", reasonImagePull},
	{"ResourceInitializationError", reasonConfig},
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
