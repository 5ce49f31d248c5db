package task

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// A task that ends before any container of its pod started says why, or its pod would be
// made over and over without a word.
func TestWhyATaskDidNotStart(t *testing.T) {
	const noFile = "CannotStartContainerError: exec: no such file or directory"
	waited := types.TaskStopCodeEssentialContainerExited
	for name, tc := range map[string]struct {
		init types.Container
		code types.TaskStopCode
		want string
	}{
		"its files could not be written": {
			types.Container{ExitCode: aws.Int32(1), Reason: aws.String("why")},
			waited,
			"the files of the pod's volumes could not be written: container burstlet-init ended with exit code 1 why",
		},
		"burstlet's own image is another": {
			types.Container{Reason: aws.String(noFile)},
			waited,
			"the files of the pod's volumes could not be written: container burstlet-init did not start: " + noFile + " (is backend.ecs.taskImage burstlet's image?)",
		},
		"ECS could not start it":           {types.Container{}, types.TaskStopCodeTaskFailedToStart, "ECS's words"},
		"a container of the pod has ended": {types.Container{ExitCode: aws.Int32(0)}, waited, ""},
	} {
		o := &Observation{
			task:       types.Task{StopCode: tc.code, StoppedReason: aws.String("ECS's words")},
			containers: map[string]types.Container{identity.InitName: tc.init},
		}
		got := o.whyNotStarted()
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if got != "" && tc.code == waited && startFailure(got) != reasonConfig {
			t.Errorf("%s: reason %s", name, startFailure(got))
		}
	}
}
