package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's reasons for what failed.
const (
	ReasonSandboxFailed     = "FailedCreatePodSandBox"
	ReasonCreateConfigError = "CreateContainerConfigError"
	ReasonCreateError       = "CreateContainerError"
	reasonNoPullSecret      = "FailedToRetrieveImagePullSecret"
	ReasonFailedMount       = "FailedMount"
	reasonNetworkNotReady   = "NetworkNotReady"
)

// Action is one thing to do on the remote for one pod: data, which the engine executes.
type Action interface {
	fmt.Stringer
	isAction()
}

func (Launch) isAction()          {}
func (StartContainer) isAction()  {}
func (StopPod) isAction()         {}
func (StopContainer) isAction()   {}
func (RemovePod) isAction()       {}
func (RemoveContainer) isAction() {}
func (ResizeContainer) isAction() {}
func (PlaceVolume) isAction()     {}
func (RefreshVolumes) isAction()  {}
func (ClearVolumes) isAction()    {}
func (ReadEnvFiles) isAction()    {}

// Launch makes an attempt of the pod. Restart, Ended and Loop (the crash loop's
// key) are set where the pod is the unit of restart and an attempt went before.
type Launch struct {
	Spec backend.LaunchSpec
	// Counts is true where a refusal makes the next launch another try.
	Counts  bool
	Restart bool
	Ended   time.Time
	Loop    string
}

func (a Launch) String() string { return fmt.Sprintf("launch attempt %d", a.Spec.Attempt) }

// StartContainer pulls the image where the policy says so and makes one attempt
// of a container. Restart, Ended and Loop (the crash loop's key) are set where an
// attempt went before.
type StartContainer struct {
	Ref     backend.Ref
	Spec    backend.ContainerSpec
	Pull    bool
	Restart bool
	Ended   time.Time
	Loop    string
}

func (a StartContainer) String() string {
	return fmt.Sprintf("start container %s attempt %d", a.Spec.Container.Name, a.Spec.Attempt)
}

// StopPod asks an attempt to end. First is true for the first time.
type StopPod struct {
	Ref      backend.Ref
	Grace    time.Duration
	Deadline time.Time
	First    bool
	Names    []string
	// Why says of containers why they end, where their pod lives on.
	Why map[string]string
}

func (a StopPod) String() string {
	return fmt.Sprintf("stop attempt %d with grace %s", a.Ref.Attempt, a.Grace)
}

// RemovePod deletes an attempt. Settles is true when a launch of it whose reply
// was lost cannot appear any more: then its absence is for good.
type RemovePod struct {
	Ref     backend.Ref
	Settles bool
}

func (a RemovePod) String() string { return fmt.Sprintf("remove attempt %d", a.Ref.Attempt) }

// RemoveContainer deletes an ended attempt of a container.
type RemoveContainer struct{ Ref backend.ContainerRef }

func (a RemoveContainer) String() string {
	return fmt.Sprintf("remove container %s attempt %d", a.Ref.Name, a.Ref.Attempt)
}

// StopContainer asks one container to end. First is true for the first time; Why
// is for the Event, empty when the whole pod ends.
type StopContainer struct {
	Ref      backend.ContainerRef
	Grace    time.Duration
	Deadline time.Time
	First    bool
	Why      string
	key      string
}

func (a StopContainer) String() string {
	return fmt.Sprintf("stop container %s attempt %d with grace %s", a.Ref.Name, a.Ref.Attempt, a.Grace)
}

// ResizeContainer gives a running container the resources of Spec, in place, and the
// pod's own cgroup what the pod needs.
type ResizeContainer struct {
	Ref  backend.ContainerRef
	Spec backend.ContainerSpec
	// Last is true where no other container has to be resized first, or ended: then
	// the pod's cgroup can be made what it is to be.
	Last bool
}

func (a ResizeContainer) String() string { return "resize container " + a.Ref.Name }

func resizeKey(container string) string { return "resize " + container }

func (a ResizeContainer) key() string { return resizeKey(a.Ref.Name) }

// PlaceVolume makes a volume on the remote, or swaps its contents.
type PlaceVolume struct{ Spec backend.VolumeSpec }

func (a PlaceVolume) String() string { return "place volume " + a.Spec.Name }

func (a PlaceVolume) key() string { return "volume " + a.Spec.Name }

// RefreshVolumes gives a running attempt files that changed.
type RefreshVolumes struct {
	Ref     backend.Ref
	Volumes []backend.VolumeSpec
}

func (a RefreshVolumes) String() string {
	names := make([]string, len(a.Volumes))
	for i, v := range a.Volumes {
		names[i] = v.Name
	}
	return "refresh volumes " + strings.Join(names, ", ")
}

func (RefreshVolumes) key() string { return "volumes" }

// ClearVolumes unmounts and removes the pod's volumes.
type ClearVolumes struct{ Ref backend.Ref }

func (a ClearVolumes) String() string { return "clear volumes" }
