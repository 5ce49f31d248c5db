package backend

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Backend is what one remote can do. Pods, Node and Check are required; a nil
// field means the remote cannot, and the engine plans around it.
type Backend struct {
	// Name is the kind of backend ("cri", "ecs", "sim"), for logs and metrics.
	Name string
	// Run does what the backend does by itself (keep connections and open stop
	// calls alive, collect garbage) until the context ends. It asks may before each
	// change that it makes on the remote, and leaves out what it may not. Nil: there
	// is nothing to run. Calls made before Run is started or after it returned fail
	// as Unavailable.
	Run func(ctx context.Context, may Permit) error
	// Confirm asks the remote whether it still takes the changes of this leader of the node,
	// and none of earlier ones. A term for which it once said so may outlive the API server:
	// another leader shows on the remote first. Errors: Superseded when there is a later
	// leader, for ever; any other: not known now. Nil: the remote takes changes of every
	// process, or there is no election.
	Confirm func(context.Context) error
	// Costs says what the pods cost, by kind of capacity. It calls nothing and is
	// cheap. Nil: pods cost nothing by themselves.
	Costs func() []CostFacts
	// Links, Calls and Queues say how the way to the remote is: its connections,
	// the requests to its API, what waits for its rates. They call nothing and are
	// cheap. Nil: the backend has none.
	Links  func() []LinkFacts
	Calls  func() []CallFacts
	Queues func() []QueueFacts
	// CgroupsTo has it told how long each operation on a pod's cgroup took on its host:
	// CgroupCreate, CgroupUpdate or CgroupDestroy. What is told is called by many goroutines.
	// Nil: pods have no cgroups of ours.
	CgroupsTo func(observe func(operation string, took time.Duration))
	// Sweep deletes what the backend made for this node and would keep for its next
	// pods (task definitions, secrets, logs), for a node that is taken away for good,
	// and names it. Nothing of the node may be on the remote then. It is repeated until
	// it names nothing. Nil: there is never anything.
	Sweep func(context.Context) (removed []string, err error)

	Pods       Pods
	Containers Containers
	Resize     Resizer
	Files      Files
	Refresh    Refresher
	Images     Images
	Store      ImageStore
	// PullRecords is nil where Images is, or where records end with the process.
	PullRecords PullRecords
	Events      Events
	Exec        Exec
	Attach      Attacher
	Forward     Forwarder
	Logs        Logs
	Dial        Dialer
	Stats       Stats
	Signals     Signals
	Shutdown    Shutdown
	SystemOOMs  SystemOOMs
	Checkpoint  Checkpointer
	SystemLogs  SystemLogs
	Node        Node
	Check       Checker
	Limits      Limits
}

// Operations on pods' cgroups, in the kubelet's words (cgroup_manager_linux.go).
const (
	CgroupCreate  = "create"
	CgroupUpdate  = "update"
	CgroupDestroy = "destroy"
)

// Pods is the life of whole pods on the remote: sandboxes for a container
// runtime, tasks for ECS.
type Pods interface {
	// Launch makes attempt spec.Attempt of the pod: the sandbox where
	// Containers lends the rest, else the whole pod with its containers. It is
	// idempotent by UID and attempt, even if an earlier reply was lost.
	// Errors: Invalid, Unsupported, Capacity before anything was made; after
	// any other error that is not marked (Unmade) the launch is unresolved: it may
	// yet appear. What waits before anything is sent may end with wanted
	// too, the context of the order to make the pod; what was sent keeps to ctx alone and
	// is left to return, since nobody would know what became of it.
	Launch(ctx, wanted context.Context, spec LaunchSpec) error
	// Stop asks the remote to end this attempt: TERM now, KILL after grace
	// (seconds are its finest unit; 0 is at once). It returns when the request
	// is lodged. Asking again with a shorter grace shortens it; a longer one
	// changes nothing. Once no container runs, it ends the sandbox and frees
	// its address. Errors: NotFound when nothing is left to stop; one that is marked
	// (OtherGrace) where the request is lodged, with a grace that is not this one.
	Stop(ctx context.Context, ref Ref, grace time.Duration) error
	// Remove deletes every trace of this attempt, killing what still runs. It
	// is repeated until it returns NotFound, the only proof of absence.
	Remove(ctx context.Context, ref Ref) error
	// List returns every attempt of every pod that this node owns, live or
	// dead. An error means unknown: nothing may be concluded from it.
	List(ctx context.Context) ([]PodFacts, error)
	// Inspect is List for the pods named, in as few calls as the remote allows.
	Inspect(ctx context.Context, uids []types.UID) ([]PodFacts, error)
}

// Containers is the life of single containers inside a launched pod. It is nil
// where the pod is the unit of restart.
type Containers interface {
	// Start makes and starts one container in the newest sandbox of the pod. It
	// is idempotent by UID, container name and attempt.
	Start(ctx context.Context, ref Ref, spec ContainerSpec) error
	// Stop asks for the end of one container, as Pods.Stop does for a pod.
	Stop(ctx context.Context, ref ContainerRef, grace time.Duration) error
	// Remove deletes a dead container and its log. Errors: NotFound when it is
	// gone.
	Remove(ctx context.Context, ref ContainerRef) error
}

// Resizer changes the resources of running containers. It is nil where a container
// keeps what it was started with.
type Resizer interface {
	// Resize gives a running container the cpu and memory of spec.Container, and
	// its pod's cgroup what spec.Pod asks for as a whole, without a restart. Both
	// are what was allocated, not what the API asks for; of the container no
	// environment is there. Facts then show it (ContainerFacts.Resources). It is
	// idempotent. Errors: NotFound for
	// a container that does not run; Invalid for what the kernel refuses, a memory
	// limit below what is used.
	Resize(ctx context.Context, ref ContainerRef, spec ContainerSpec) error
}

// Files makes volumes on the remote. It is nil where contents travel in the
// launch (LaunchSpec.Volumes) and stay as they were. Volumes belong to the pod, not
// to an attempt.
type Files interface {
	// Place makes a volume what spec says: it makes its directory or mount where
	// that is missing, and swaps in the contents in one step that no reader sees
	// half done (kubelet: AtomicWriter). It is idempotent; with the contents
	// there already it changes nothing. Errors: Invalid and Unsupported for a
	// volume that can never be; any other is tried again.
	Place(ctx context.Context, spec VolumeSpec) error
	// Clear unmounts and removes all volumes of a pod. It is repeated until it
	// returns NotFound, the only proof that none is left.
	Clear(ctx context.Context, ref Ref) error
	// Volumes lists what is placed for pods of this node, of the live and of
	// those forgotten. An error means unknown.
	Volumes(ctx context.Context) ([]VolumeFacts, error)
	// Read returns a file of a volume that is placed, as containers left it, of at most
	// MaxReadFile bytes. No link leads it out of the volume. Errors: NotFound, Invalid for
	// what is larger or no regular file.
	Read(ctx context.Context, file VolumeFile) ([]byte, error)
}

// MaxReadFile bounds what Files.Read returns.
const MaxReadFile = 64 << 10

// Refresher brings the files of volumes up to date in pods that run, where contents
// travel in the launch. It is nil where they are placed (Files), or stay as launched.
type Refresher interface {
	// Refresh gives an attempt the files of these volumes; its others stay as they
	// are. It is idempotent: what is there already is not written again. Readers see
	// the files later, all of a volume at once. Errors: NotFound for an attempt that is
	// not live, Invalid for files that do not fit.
	Refresh(ctx context.Context, ref Ref, volumes []VolumeSpec) error
}

// Images pulls and finds images on the remote. It is nil where the remote pulls
// by itself.
type Images interface {
	// Find returns the id of an image that is there. Errors: NotFound.
	Find(ctx context.Context, image string) (id string, err error)
	// Pull fetches an image, trying each credential in turn (none: anonymous),
	// and returns what came. Errors: Invalid for a name that no registry can have,
	// Denied is never returned for a registry's refusal (that is transient).
	Pull(ctx context.Context, image string, creds []Credential) (PulledImage, error)
}

// PulledImage is an image that was pulled.
type PulledImage struct {
	// ID is what Find returns.
	ID string
	// Size on disk in bytes; 0 where it is not known.
	Size uint64
}

// ImageStore is the place where the remote keeps images, for those who make room
// in it (kubelet: image garbage collection). It is nil where images are not ours.
type ImageStore interface {
	// List returns every image that is there, whoever pulled it.
	List(ctx context.Context) ([]ImageFacts, error)
	// Remove removes an image by its id. It refuses one that a container uses, of
	// whoever's. Errors: NotFound.
	Remove(ctx context.Context, id string) error
	// Disk is the file system that images stand on.
	Disk(ctx context.Context) (FilesystemUsage, error)
}

// ImageFacts is what was seen of one image.
type ImageFacts struct {
	ID string
	// Names are its tags and digests.
	Names []string
	// Size on disk in bytes.
	Size uint64
	// Pinned images are the runtime's own: they stay.
	Pinned bool
	// Used is true while a container uses it, of whoever's.
	Used bool
}

// PullRecords keep, where the images are, what the engine knows of who pulled them. It
// outlives the process, and goes with the images or the node.
type PullRecords interface {
	// Load returns what was saved last; nothing before the first Save. Errors: Invalid for
	// what cannot have been saved, like an empty file.
	Load(ctx context.Context) ([]byte, error)
	// Save puts data in the place of what was saved before, in one step.
	Save(ctx context.Context, data []byte) error
}

// Credential is a registry's login, as a pull secret holds it. Never logged.
type Credential struct {
	Registry      string
	Username      string
	Password      string
	IdentityToken string
	// Node is true for a login of the node's own, which serves each of its pods.
	Node bool
	// Secret names where it comes from: namespace/name/UID of a pull secret. It is no
	// part of the login.
	Secret string
	// ServiceAccount is namespace/name/UID of the one whose token a credential provider
	// plugin gave the login for. It is no part of the login.
	ServiceAccount string
}

// SameLogin is true for a login that differs at most in where it comes from.
func (c Credential) SameLogin(other Credential) bool {
	c.Secret, other.Secret = "", ""
	c.ServiceAccount, other.ServiceAccount = "", ""
	c.Node, other.Node = false, false
	return c == other
}

// Events says that something about a pod may have changed. Hints may be lost,
// late or repeated; relisting is the safety net.
type Events interface {
	// Run sends the UIDs of pods to look at until the context ends or the
	// stream breaks; the caller runs it again.
	Run(ctx context.Context, hints chan<- types.UID) error
}

// LogOptions are the kubelet's containerLogs parameters.
type LogOptions struct {
	Follow     bool
	Timestamps bool
	// Tail is the number of lines from the end; nil is all, 0 is none.
	Tail *int64
	// LimitBytes ends the stream after so many bytes; nil is no limit.
	LimitBytes *int64
	// Since drops lines before this time; zero is all.
	Since time.Time
}

// Logs reads what containers wrote.
type Logs interface {
	// Open streams the log of one container attempt. The reader ends at the end
	// of the log, with Follow at the end of the container, or with the context.
	// Errors: NotFound.
	Open(ctx context.Context, ref ContainerRef, opts LogOptions) (io.ReadCloser, error)
}

// Node describes the machine or service behind the node.
type Node interface {
	// Describe returns what the remote says of itself now. Errors: Unavailable,
	// Denied.
	Describe(ctx context.Context) (NodeFacts, error)
}

// NodeFacts is what a remote says of itself.
type NodeFacts struct {
	// Capacity of the remote; missing resources are taken from configuration.
	Capacity corev1.ResourceList
	// Reserved is what of it pods may not use; missing resources are not reserved.
	Reserved corev1.ResourceList
	// HostIPs are the addresses of the pods' host, primary first, at most one of a
	// family; may be empty.
	HostIPs []string
	// OS, Arch (GOOS, GOARCH words), kernel, OS image and runtime version
	// ("containerd://1.6.20") for the Node's nodeInfo.
	OS, Arch, Kernel, OSImage, RuntimeVersion string
	// MachineID, SystemUUID and BootID tell machines and boots apart, for the Node's
	// nodeInfo; empty where there is none.
	MachineID, SystemUUID, BootID string
	// CgroupVersion is that of the pods' host, 1 or 2; 0 where there is none, or it is not known.
	CgroupVersion int
	// NetworkReady is false while pods cannot get an address (CRI NetworkReady).
	NetworkReady bool
	// Message says why the network is not ready.
	Message string
	// RuntimeHandlers are the handlers of RuntimeClasses that the remote has; the
	// empty one is the default. Nil where it does not say.
	RuntimeHandlers []string
	// RecursiveReadOnly are those of them that can make a mount read-only with all that is
	// mounted below it.
	RecursiveReadOnly []string
	// UserNamespaces are those of them that can give a pod a user namespace of its own.
	UserNamespaces []string
	// SupplementalGroupsPolicy is true where the remote can be strict about
	// supplemental groups, for the Node's features.
	SupplementalGroupsPolicy bool
	// Annotations are what the remote has to say for the Node's, and nothing that
	// changes often: each change is a write.
	Annotations map[string]string
}

// Refusal is one field of a pod that cannot be honoured.
type Refusal struct {
	// Field is the path in the pod, as in "spec.containers[0].securityContext.privileged".
	Field string
	// Why is a sentence for the user: what is not possible and what to do.
	Why string
}

// Checker says which fields of a pod would be refused. It is pure: the same pod
// and configuration give the same answer, without a call to the remote.
type Checker interface {
	Check(pod *corev1.Pod) []Refusal
}

// CheckFunc is a function as a Checker.
type CheckFunc func(*corev1.Pod) []Refusal

// Check calls f.
func (f CheckFunc) Check(pod *corev1.Pod) []Refusal { return f(pod) }

// Limits are plain numbers of a backend.
type Limits struct {
	// Runtime is the scheme of container ids in the API ("containerd").
	Runtime string
	// MaxGrace caps the grace of a Stop; 0 is no cap.
	MaxGrace time.Duration
	// Settle is how long after a call whose reply was lost its effect may still
	// appear in a listing.
	Settle time.Duration
	// Stale is how much older than its call what Pods.List and Pods.Inspect say may
	// be; 0 where they read one's own writes.
	Stale time.Duration
	// Call bounds one mutating call; the engine gives each its own deadline.
	Call time.Duration
	// Pull bounds one image pull.
	Pull time.Duration
	// Relist is the poll interval of listings, chosen for what a listing costs.
	Relist time.Duration
	// Once is true where a launch that was made is never made again, not even when it
	// is repeated after its attempt was removed (ECS: a client token): an attempt that
	// is seen has no twin on its way.
	Once bool
	// Tries is true where a launch that was refused for Capacity is another one
	// when it is asked for again (LaunchSpec.Try): under another name, and perhaps
	// at another place. A try is only made once the API holds its number.
	Tries bool
	// Supervised is true where the remote runs probes and hooks by itself, and ends
	// containers whose startup or liveness probe fails: ContainerFacts.Healthy then
	// says which are started and ready. It puts LatePodIP and its like in late.
	Supervised bool
	// EphemeralVolumes is true where a launch makes the volumes of kind ephemeral by
	// itself, from the template of their claim, and ends them with the pod:
	// VolumeSpec.Source then is the pod's own, and no claim is waited for.
	EphemeralVolumes bool
}
