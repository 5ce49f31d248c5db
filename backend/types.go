package backend

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ref names one attempt of one pod on the remote. UID and Attempt suffice to
// find it; ID, the remote's own name for it, saves a look-up where known.
type Ref struct {
	UID       types.UID
	Namespace string
	Name      string
	Attempt   int
	ID        string
}

// ContainerRef names one attempt of one container. ID saves a look-up.
type ContainerRef struct {
	Pod     Ref
	Name    string
	Attempt int
	ID      string
}

// LaunchSpec is one attempt of a pod, ready to be made.
type LaunchSpec struct {
	// Pod is the pod as the API has it, read-only. Backends take pod-level
	// fields from it, never a container's env (see Containers).
	Pod *corev1.Pod
	// Attempt counts sandboxes or tasks of this UID from 0.
	Attempt int
	// Try counts how often a launch of this attempt was definitely refused for
	// Capacity before; 0 where Limits.Tries is not set.
	Try int
	// RuntimeHandler is that of the pod's RuntimeClass; empty is the default.
	RuntimeHandler string
	// Containers are the init containers in order, then the app containers.
	// Backends that lend Containers ignore it.
	Containers []ContainerSpec
	// Volumes are the pod's, with their contents. Backends that lend Files
	// ignore it: theirs are placed before.
	Volumes []VolumeSpec
}

// Ref is the name of what this spec makes.
func (s LaunchSpec) Ref() Ref {
	return Ref{UID: s.Pod.UID, Namespace: s.Pod.Namespace, Name: s.Pod.Name, Attempt: s.Attempt}
}

// ContainerSpec is one attempt of a container, ready to be made.
type ContainerSpec struct {
	// Pod is the container's pod, read-only: security context, volumes, names.
	Pod *corev1.Pod
	// Container is the container with Env reduced to literals, EnvFrom folded
	// into it, and $(VAR) expanded in Env, Command and Args.
	Container corev1.Container
	// Origins tell what the values of Container were made of.
	Origins Origins
	// Init marks an init container, a sidecar (restartable init container) too.
	Init bool
	// Target is the container whose process namespace an ephemeral container
	// joins (targetContainerName); empty for none.
	Target string
	// Attempt is the restart count that the API shows, from 0.
	Attempt int
	// Hash identifies the container's spec; a change of it means a restart.
	Hash string
	// Round is how often all containers of the pod were restarted together before
	// (restartPolicyRules with the action RestartAllContainers): what is of an earlier one
	// makes way. Backends that lend Containers keep it.
	Round int
	// ImageID is what Images returned for the image; empty without Images.
	ImageID string
	// Credentials log in to the image's registry, to be tried in turn. Backends
	// that lend Images ignore them. Never logged.
	Credentials []Credential
	// ImageVolumes are the volumes of kind image that the container mounts, read-only,
	// each once. Nothing places them before.
	ImageVolumes []ImageVolume
}

// ImageVolume is a volume that is made of an image.
type ImageVolume struct {
	// Name is the volume's.
	Name string
	// Reference is the image as the pod names it.
	Reference  string
	PullPolicy corev1.PullPolicy
	// ImageID and Credentials are as those of a container's image.
	ImageID     string
	Credentials []Credential
}

// ImageVolumeOf returns the volume of kind image that a pod has under a name; nil where
// that is none.
func ImageVolumeOf(pod *corev1.Pod, name string) *corev1.ImageVolumeSource {
	if pod == nil {
		return nil
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.Image
		}
	}
	return nil
}

// Origin tells what a text was made of. OriginPod and OriginSecret together: of
// both.
type Origin uint8

const (
	// OriginShared is what all pods of one template have: literals, ConfigMaps,
	// Services, resources of a container.
	OriginShared Origin = 0
	// OriginPod is what may differ between pods of one template: its name, UID,
	// labels, annotations, node, addresses.
	OriginPod Origin = 1 << 0
	// OriginSecret is something of a Secret: it may stand nowhere in the clear.
	OriginSecret Origin = 1 << 1
)

// Secret is true for what may stand nowhere in the clear.
func (o Origin) Secret() bool { return o&OriginSecret != 0 }

// OfPod is true for what may differ between pods of one template.
func (o Origin) OfPod() bool { return o&OriginPod != 0 }

// Origins tell what the values of a resolved container were made of, $(VAR)
// counted in. Backends whose remote keeps what a launch says where others can
// read it, or shares it between pods, need them.
type Origins struct {
	// Env is by the name of a variable. One that is missing was never resolved:
	// nothing may be assumed of it.
	Env map[string]Origin
	// Command and Args are by word; nil when all are OriginShared.
	Command, Args []Origin
}

// What stands in a resolved container for an address that nobody knows before it
// runs, where Limits.Supervised: the remote replaces it by the address, several with
// commas between.
const (
	LatePodIP   = "((burstlet:status.podIP))"
	LatePodIPs  = "((burstlet:status.podIPs))"
	LateHostIP  = "((burstlet:status.hostIP))"
	LateHostIPs = "((burstlet:status.hostIPs))"
)

// VolumeSpec is one volume of a pod, ready to be made.
type VolumeSpec struct {
	// Pod is the volume's pod, read-only: its fsGroup, names, labels.
	Pod  *corev1.Pod
	Name string
	// Source is the volume's. A claim is replaced by what its bound
	// PersistentVolume says; a local volume is a hostPath. One of kind ephemeral
	// stays with its template where Limits.EphemeralVolumes.
	Source corev1.VolumeSource
	// ReadOnly volumes are mounted so for every container.
	ReadOnly bool
	// Persistent is true for what a PersistentVolume says: a hostPath is then a
	// local volume, whose ownership follows the pod's fsGroup.
	Persistent bool
	// MountOptions are those of the PersistentVolume.
	MountOptions []string
	// Handle is the volumeHandle of a PersistentVolume of kind csi: Source is then
	// a CSI source with its driver and attributes.
	Handle string
	// Files are the contents of configMap, secret, projected and downwardAPI
	// volumes, sorted by path; nil for other kinds.
	Files []File
	// Hash identifies Source and Files: equal hashes, equal volumes.
	Hash string
}

// File is one file of a volume's contents.
type File struct {
	// Path is relative and clean, without "..".
	Path string
	// Data may be a secret: it is never logged.
	Data []byte
	// Mode is the permission bits, before fsGroup widens them.
	Mode int32
	// UID owns the file; nil is root.
	UID *int64
}

// VolumeFile names a file of a pod's volume, by its path below the volume.
type VolumeFile struct {
	Pod          Ref
	Volume, Path string
}

func (f VolumeFile) String() string { return f.Volume + "/" + f.Path }

// VolumeFacts is what was seen of one placed volume.
type VolumeFacts struct {
	// Pod names the pod; Attempt and ID mean nothing here.
	Pod  Ref
	Name string
	// Hash is the spec's, as last placed.
	Hash string
	// PlacedAt is when the contents were last swapped in: the age of a token.
	PlacedAt time.Time
}

// SandboxNotReady is the Reason of an attempt that is still live only because
// containers run on in it: its sandbox is dead. The engine ends it and makes the
// next (kubelet: PodSandboxChanged).
const SandboxNotReady = "SandboxNotReady"

// PodFacts is what was seen of one attempt of a pod. Times are in the caller's
// clock; a backend converts by the offset that it measured.
type PodFacts struct {
	Ref
	CreatedAt time.Time
	// Live is true while the attempt holds anything that runs, an address or a
	// charge: a ready sandbox, a task that is not stopped.
	Live bool
	// StoppedAt is when it ceased to be live; zero while live or if unknown.
	StoppedAt time.Time
	// IPs are the pod's addresses, primary first.
	IPs []string
	// HostIPs are those of its host where pods of one node have different hosts.
	HostIPs []string
	// Reason and Message say why the remote ended it, if the remote did.
	Reason, Message string
	// Disrupted is true once the remote ends it, or has, for reasons of its own
	// (maintenance, capacity taken back): that is no fault of the pod's, which
	// fails with Reason and the condition DisruptionTarget.
	Disrupted  bool
	Containers []ContainerFacts
	// Evicted is set once the remote has recorded that it evicts the pod, which is then so
	// of all its attempts: it did while nobody was connected to it. The record stays until
	// the pod's last attempt is removed, and is made before anything is stopped.
	Evicted *Eviction
}

// Eviction is a remote's record that a pod was over one of its limits on local storage.
type Eviction struct {
	// Limit is the signal of the limit (package localstorage), and Used the bytes that
	// were too many.
	Limit string
	Used  uint64
	// Message is the kubelet's, for the pod's status.
	Message string
	At      time.Time
}

// ContainerFacts is what was seen of one attempt of a container.
type ContainerFacts struct {
	Name string
	// ID is the runtime's id, without scheme.
	ID      string
	Attempt int
	// Hash is the spec's hash as given to Start or Launch, Round its round.
	Hash  string
	Round int
	// Image is the name asked for, ImageID what it resolved to.
	Image, ImageID string
	// CreatedAt, StartedAt and FinishedAt tell the state: see State.
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	// OOM is true when the kernel killed it for memory.
	OOM bool
	// Reason and Message are the remote's own words on an end or a failure to
	// start, in the kubelet's terms where there is one (ErrImagePull). Of a
	// container that ended by itself, Message is its termination message: the
	// file's contents or, by its policy, the end of its log.
	Reason, Message string
	// Killed is the probe for which the remote ended the container by itself, where
	// Limits.Supervised, in the kubelet's words ("Liveness probe failed: …"); empty if it
	// did not. It may be told some time after the end.
	Killed string
	// HookFailed is the lifecycle hook that failed there, "PostStart" (which ended it) or
	// "PreStop"; told with Killed.
	HookFailed string
	// Resources are the cpu and memory that the remote holds it to now; nil where it
	// does not say. No kernel holds a container to a request of memory: that one is
	// not looked at.
	Resources *corev1.ResourceRequirements
	// User is whom its first process runs as; nil where the remote does not say.
	User *corev1.LinuxContainerUser
	// Healthy is true of a container whose postStart hook is done, whose startup probe
	// has passed and whose readiness probe passes, where Limits.Supervised; nil while
	// there is no verdict yet, and of one that has none of them.
	Healthy *bool
}

// State is what a container's times say. Nothing stores it.
type State int

// A container is created, then running, then exited; it may exit without ever
// having run, when the remote failed to start it.
const (
	Waiting State = iota
	Running
	Exited
)

// State derives the container's state from its times.
func (c ContainerFacts) State() State {
	switch {
	case !c.FinishedAt.IsZero():
		return Exited
	case !c.StartedAt.IsZero():
		return Running
	default:
		return Waiting
	}
}

// NeverRan is true for a container that ended without having started.
func (c ContainerFacts) NeverRan() bool { return c.State() == Exited && c.StartedAt.IsZero() }

// Ref is the name of the container that the facts are about.
func (c ContainerFacts) Ref(pod Ref) ContainerRef {
	return ContainerRef{Pod: pod, Name: c.Name, Attempt: c.Attempt, ID: c.ID}
}
