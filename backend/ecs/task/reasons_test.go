package task

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// TestWhyTheRemoteEndedIt: what AWS ends for reasons of its own disrupts the pod, so that its
// controller replaces it; what we or its containers ended says nothing.
func TestWhyTheRemoteEndedIt(t *testing.T) {
	for name, tt := range map[string]struct {
		code      types.TaskStopCode
		said      string
		reason    string
		silent    bool
		disrupted bool
	}{
		"it runs": {"", "", "", true, false},
		"Spot": {
			types.TaskStopCodeSpotInterruption, "Your Spot Task was interrupted.", "Preempted", false, true,
		},
		"Spot, in older words":       {types.TaskStopCodeTerminationNotice, "x", "Preempted", false, true},
		"a host failed":              {types.TaskStopCodeInfrastructureHealth, "x", "NodeShutdown", false, true},
		"the scheduler of a service": {types.TaskStopCodeServiceSchedulerInitiated, "x", "NodeShutdown", false, true},
		"retired, said as a user's": {
			types.TaskStopCodeUserInitiated, "ECS is performing maintenance on the underlying infrastructure hosting the task.",
			"NodeShutdown", false, true,
		},
		"it did not start": {types.TaskStopCodeTaskFailedToStart, "no capacity", "FailedToStart", false, false},
		"we stopped it":    {types.TaskStopCodeUserInitiated, StopReason, "", true, false},
		"we stopped it, and say why": {
			types.TaskStopCodeUserInitiated, stuckReason, "", true, false,
		},
		"somebody stopped it": {types.TaskStopCodeUserInitiated, "by hand", "", false, false},
		"its containers' end": {
			types.TaskStopCodeEssentialContainerExited, "Essential container in task exited", "", true, false,
		},
		"a code of later times": {"Later", "x", "", true, false},
	} {
		reason, message, disrupted := endOf(types.Task{StopCode: tt.code, StoppedReason: &tt.said})
		want := tt.said
		if tt.silent {
			want = ""
		}
		if reason != tt.reason || message != want || disrupted != tt.disrupted {
			t.Errorf("%s: %q, %q, %v; want %q, %q, %v", name, reason, message, disrupted, tt.reason, want, tt.disrupted)
		}
	}
}

// TestStartFailures: ECS's reasons in the kubelet's words.
func TestStartFailures(t *testing.T) {
	for why, want := range map[string]string{
		"CannotPullContainerError: pull image manifest has been retried 1 time(s)": "ErrImagePull",
		"CannotPullImageManifestError: x":                                          "ErrImagePull",
		"CannotPullECRContainerError: AccessDenied":                                "ErrImagePull",
		"ResourceInitializationError: unable to pull secrets":                      "CreateContainerConfigError",
		"ResourceNotFoundException: fetching secret":                               "CreateContainerConfigError",
		"CannotCreateVolumeError: x":                                               "CreateContainerError",
		"CannotCreateContainerError: x":                                            "CreateContainerError",
		"CannotStartContainerError: x":                                             "RunContainerError",
		"ContainerRuntimeTimeoutError: x":                                          "RunContainerError",
		"SomethingElse: CannotPullContainer":                                       "CreateContainerError",
		"":                                                                         "CreateContainerError",
	} {
		if got := startFailure(why); got != want {
			t.Errorf("%q: %s, want %s", why, got, want)
		}
	}
	for why, want := range map[string]bool{
		"OutOfMemoryError: Container killed due to memory usage": true, "OutofMemory": true, "outofmemory: x": true,
		"": false, "Killed: OutOfMemory": false,
	} {
		if isOOM(why) != want {
			t.Errorf("%q is an OOM: %v", why, !want)
		}
	}
}

// TestImageID: the image's name without tag or digest, with the digest that was pulled.
func TestImageID(t *testing.T) {
	const digest = "sha256:abc"
	for image, want := range map[string]string{
		"web": "web@" + digest, "web:1": "web@" + digest, "registry:5000/web": "registry:5000/web@" + digest,
		"registry:5000/a/web:1.2": "registry:5000/a/web@" + digest, "web:1@sha256:old": "web@" + digest,
		"web@sha256:old": "web@" + digest,
	} {
		if got := imageID(types.Container{Image: aws.String(image), ImageDigest: aws.String(digest)}); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
	if got := imageID(types.Container{Image: aws.String("web:1")}); got != "" {
		t.Errorf("without a digest: %s", got)
	}
}

// TestAddresses: those of the task's network interface first, and each once.
func TestAddresses(t *testing.T) {
	eni := func(kind string, details ...string) types.Attachment {
		a := types.Attachment{Type: aws.String(kind)}
		for _, d := range details {
			name, value, _ := strings.Cut(d, "=")
			a.Details = append(a.Details, types.KeyValuePair{Name: aws.String(name), Value: aws.String(value)})
		}
		return a
	}
	own := eni("ElasticNetworkInterface", "subnetId=subnet-1", "privateIPv4Address=10.0.0.7", "macAddress=0a")
	on := func(v4, v6 string) types.Container {
		return types.Container{NetworkInterfaces: []types.NetworkInterface{{
			PrivateIpv4Address: aws.String(v4), Ipv6Address: aws.String(v6),
		}}}
	}
	for name, tt := range map[string]struct {
		task types.Task
		want string
	}{
		"none yet": {types.Task{Attachments: []types.Attachment{eni("ElasticNetworkInterface")}}, ""},
		"an empty one": {
			types.Task{Attachments: []types.Attachment{eni("ElasticNetworkInterface", "privateIPv4Address=")}}, "",
		},
		"the task's": {types.Task{Attachments: []types.Attachment{own}}, "10.0.0.7"},
		"a volume's": {
			types.Task{Attachments: []types.Attachment{eni("AmazonElasticBlockStorage", "privateIPv4Address=1.1.1.1")}}, "",
		},
		"also at containers": {types.Task{Attachments: []types.Attachment{own}, Containers: []types.Container{
			on("10.0.0.7", "fd00::7"), on("10.0.0.7", "fd00::7"),
		}}, "10.0.0.7 fd00::7"},
		"at containers alone": {types.Task{Containers: []types.Container{on("10.0.0.8", "")}}, "10.0.0.8"},
	} {
		if got := strings.Join(addresses(tt.task), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestTimesOfContainers: ECS has times of tasks alone; which of them a container takes.
func TestTimesOfContainers(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var app identity.Container
	init, sidecar := identity.Container{Init: true}, identity.Container{Init: true, Sidecar: true}
	const created, pulled, chain, started, stopping, execution, stopped, now = 1, 2, 3, 4, 5, 6, 7, 8
	whole := Observation{
		created: at(created), pulled: at(pulled), started: at(started), stopping: at(stopping),
		executionStopped: at(execution), stopped: at(stopped), now: at(now),
	}
	young := Observation{created: at(created), now: at(now)}
	unstarted := whole
	unstarted.started = time.Time{}
	exited := whole
	exited.task.StopCode = types.TaskStopCodeEssentialContainerExited
	for name, tt := range map[string]struct {
		got  time.Time
		want int64
	}{
		"an app starts with its task":                   {whole.startOf(app, at(chain)), started},
		"an app starts after the init containers":       {unstarted.startOf(app, at(chain)), chain},
		"an init container starts after the one before": {whole.startOf(init, at(chain)), chain},
		"the first starts when the images were there":   {whole.startOf(init, time.Time{}), pulled},
		"a sidecar starts as init containers do":        {whole.startOf(sidecar, at(chain)), chain},
		"nothing is known but the task's making":        {young.startOf(app, time.Time{}), created},
		"an init container ended when its task started": {whole.endOf(init), started},
		"or when the task began to stop":                {unstarted.endOf(init), stopping},
		"an app ended with its task's execution":        {whole.endOf(app), execution},
		"an app that made its task stop ended before":   {exited.endOf(app), stopping},
		"a sidecar ends with the task":                  {whole.endOf(sidecar), execution},
		"an end of which no time has come":              {young.endOf(app), now},
		"what never ran was given up at the stop":       {whole.failedAt(), stopping},
		"what never ran, in a task without such a time": {young.failedAt(), now},
	} {
		if !tt.got.Equal(at(tt.want)) {
			t.Errorf("%s: %d, want %d", name, tt.got.Unix(), tt.want)
		}
	}
}

// What users see of each reason for which a container did not start stands in the runbook.
func TestEachStartFailureHasItsRow(t *testing.T) {
	rows, err := ecstest.ErrorRows("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range startFailures {
		if row, ok := rows[strings.ToLower(f.prefix)]; !ok || !strings.HasPrefix(row, f.reason) {
			t.Errorf("the row of %q does not say %s: %q", f.prefix, f.reason, row)
		}
	}
}
