package task

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// A task that ends before any container of its pod started says why, or its pod would be
// made over and over without a word.
func TestWhyATaskDidNotStart(t *testing.T) {
	const noFile = "CannotStartContainerError: exec: no such file or directory"
	const graph = "CannotStartContainerError: dependency graph: failed to resolve"
	waited, ours := types.TaskStopCodeEssentialContainerExited, types.TaskStopCodeUserInitiated
	code := aws.Int32
	const wrote = "the files of the pod's volumes could not be written: container burstlet-init ended with exit code 1"
	const log = " (its log says why: stream burstlet/burstlet-init/1)"
	const image = "the files of the pod's volumes could not be written: container burstlet-init did not start: " + noFile +
		" (is backend.ecs.taskImage burstlet's image?)"
	for name, tc := range map[string]struct {
		init, app types.Container
		code      types.TaskStopCode
		want      string
	}{
		"its files could not be written": {
			stopped(code(1), "why"), stopped(code(143), graph), waited, wrote + " why" + log,
		},
		"we stopped it for that":            {stopped(code(1), ""), stopped(code(143), graph), ours, wrote + log},
		"it is about to be stopped":         {stopped(code(1), ""), stopped(code(143), graph), "", wrote + log},
		"burstlet's own image is another":   {stopped(nil, noFile), stopped(nil, ""), waited, image},
		"the same, with docker's exit code": {stopped(code(128), noFile), stopped(code(143), graph), ours, image},
		"ECS could not start it": {
			types.Container{}, stopped(nil, ""), types.TaskStopCodeTaskFailedToStart, "ECS's words",
		},
		"its own container waited for naught": {stopped(code(0), ""), stopped(code(143), graph), waited, graph},
		"a container of the pod has ended":    {stopped(code(0), ""), stopped(code(1), ""), waited, ""},
		"burstlet-init runs": {
			types.Container{LastStatus: aws.String("RUNNING")}, types.Container{}, "", "",
		},
	} {
		o := &Observation{
			id: identity.Task{Containers: []identity.Container{{Name: "app"}}},
			task: types.Task{
				StopCode: tc.code, StoppedReason: aws.String("ECS's words"), TaskArn: aws.String("task/default/1"),
			},
			containers: map[string]types.Container{identity.InitName: tc.init, "app": tc.app},
		}
		got := o.whyNotStarted()
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if strings.HasPrefix(got, notWritten) && startFailure(got) != reasonConfig {
			t.Errorf("%s: reason %s", name, startFailure(got))
		}
	}
}

// stopped is a container as ECS shows it at its end.
func stopped(code *int32, reason string) types.Container {
	return types.Container{LastStatus: aws.String("STOPPED"), ExitCode: code, Reason: aws.String(reason)}
}

// What never started never ran, whatever exit code ECS shows for it.
func TestWhoRan(t *testing.T) {
	const graph, exec = "CannotStartContainerError: dependency graph: x", "CannotStartContainerError: exec: x"
	at := time.Unix(1000, 0)
	var app identity.Container
	init, sidecar := identity.Container{Init: true}, identity.Container{Init: true, Sidecar: true}
	for name, tc := range map[string]struct {
		id           identity.Container
		seen         types.Container
		task, before bool // the task has started; it was seen to have
		want         bool
	}{
		"an app that ended":                     {app, stopped(aws.Int32(1), ""), true, false, true},
		"an app that ended in a hurry":          {app, stopped(aws.Int32(1), ""), false, false, true},
		"an app that waited in vain":            {app, stopped(aws.Int32(143), graph), false, false, false},
		"an app that was stopped":               {app, stopped(aws.Int32(143), ""), true, false, true},
		"an app that could not start":           {app, stopped(aws.Int32(127), exec), false, false, false},
		"an app that could not start again":     {app, stopped(aws.Int32(127), exec), true, true, true},
		"one of several that could not start":   {app, stopped(nil, exec), true, false, false},
		"an init container that waited in vain": {init, stopped(aws.Int32(143), graph), false, false, false},
		"an init container that failed":         {init, stopped(aws.Int32(3), ""), false, false, true},
		"a sidecar that waited in vain":         {sidecar, stopped(aws.Int32(143), graph), false, false, false},
		"a sidecar that could not be restarted": {sidecar, stopped(nil, exec), true, false, true},
		"an app before its task has started": {
			app, types.Container{LastStatus: aws.String("RUNNING")}, false, false, false,
		},
		"an init container, before its task has": {
			init, types.Container{LastStatus: aws.String("RUNNING")}, false, false, true,
		},
		"one that was never seen to start": {app, stopped(nil, ""), false, false, false},
	} {
		o, before := &Observation{}, backend.ContainerFacts{}
		if tc.task {
			o.started = at
		}
		if tc.before {
			before.StartedAt = at
		}
		if got := o.ran(tc.id, tc.seen, before); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A task whose init container failed can only end.
func TestWhichTasksAreStuck(t *testing.T) {
	run, end := aws.String("RUNNING"), aws.String("STOPPED")
	code := aws.Int32
	for name, tc := range map[string]struct {
		own, init, side, app types.Container
		desired, last        *string
		want                 bool
	}{
		"all goes well": {
			stopped(code(0), ""), stopped(code(0), ""), types.Container{}, types.Container{}, run, nil, false,
		},
		"burstlet-init failed": {
			stopped(code(1), ""), types.Container{}, types.Container{}, types.Container{}, run, nil, true,
		},
		"burstlet-init did not start": {
			stopped(nil, "CannotStartContainerError: x"),
			types.Container{},
			types.Container{},
			types.Container{},
			run, nil,
			true,
		},
		"an init container failed": {
			stopped(code(0), ""), stopped(code(4), ""), types.Container{}, types.Container{}, run, nil, true,
		},
		"its image could not be pulled": {
			stopped(code(0), ""), stopped(nil, "CannotPullContainerError: x"),
			types.Container{},
			types.Container{},
			run, nil,
			true,
		},
		"a sidecar failed: ECS restarts it": {
			stopped(code(0), ""), stopped(code(0), ""), stopped(code(1), ""), types.Container{}, run, nil, false,
		},
		"an app failed: it ends by itself": {
			stopped(code(0), ""), stopped(code(0), ""), types.Container{}, stopped(code(1), ""), run, nil, false,
		},
		"it ends already": {stopped(code(1), ""), types.Container{}, types.Container{}, types.Container{}, end, nil, false},
		"it has ended":    {stopped(code(1), ""), types.Container{}, types.Container{}, types.Container{}, run, end, false},
	} {
		o := &Observation{
			id: identity.Task{Containers: []identity.Container{
				{Name: "i", Init: true}, {Name: "s", Init: true, Sidecar: true}, {Name: "a"},
			}},
			task:       types.Task{DesiredStatus: tc.desired, LastStatus: tc.last},
			containers: map[string]types.Container{identity.InitName: tc.own, "i": tc.init, "s": tc.side, "a": tc.app},
		}
		if got := o.stuck(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
