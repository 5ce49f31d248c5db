package host

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/fence"
)

// Host are the host operations. Paths are absolute, clean and the host's own.
// Errors that are about a file answer errors.Is with fs.ErrNotExist,
// fs.ErrPermission and the syscall.Errno that the kernel gave (ENOSPC, EROFS),
// wherever the host is; others may carry a class of package backend.
type Host interface {
	// Facts says what the host is, and its time now.
	Facts(ctx context.Context) (Facts, error)
	// ReadFile reads a small file: its last limit bytes.
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	// ReadWithin reads a file below a directory, out of which no link leads it: all of
	// it. Errors: fs.ErrNotExist; backend.ErrInvalid for one that is larger than its
	// limit, no regular file, or elsewhere.
	ReadWithin(ctx context.Context, f FileWithin) ([]byte, error)
	// Prepare makes what a sandbox or container needs to start: all of it, or an
	// error, with which only Prepared.Cgroup counts. It is idempotent.
	Prepare(ctx context.Context, p Preparation) (Prepared, error)
	// Discard removes what Prepare and the runtime left; what is gone already is
	// fine. It goes as far as it can and joins the errors; the result comes with them.
	Discard(ctx context.Context, d Discard) (Discarded, error)

	// Place makes a volume what it says, and swaps in its contents in one step
	// that no reader sees half done (kubelet: AtomicWriter). It is idempotent.
	Place(ctx context.Context, v Volume) error
	// Clear unmounts and removes all that Place and Prepare made for the pod.
	// Errors: fs.ErrNotExist when nothing of it was there.
	Clear(ctx context.Context, pod PodDir) error
	// Volumes lists what is placed below root for a node.
	Volumes(ctx context.Context, root, node string) ([]Placed, error)

	// Log streams the log of a container, decoded.
	Log(ctx context.Context, r LogRequest) (io.ReadCloser, error)
	// Rotate renames each of r.Logs that has outgrown r.MaxSize, removes and
	// compresses older ones, and returns the logs that the runtime must open anew
	// (kubelet: containerLogManager), also with an error about others. A log that is
	// missing gets its newest rotated file back first: when the runtime could not
	// be told, a call with MaxSize math.MaxInt64 undoes its rotation.
	Rotate(ctx context.Context, r Rotation) (rotated []string, err error)
	// Sweep removes what stands below the roots for pods and containers that are
	// not in keep, once it is older than a minute: log directories with the cgroups
	// that were made with them, links to logs.
	Sweep(ctx context.Context, s Sweep) error
	// Strays removes the cgroups of containers, older than a minute, that stand in a
	// pod's and that the runtime does not know, and kills what runs there. It returns
	// their names, also with an error about others.
	Strays(ctx context.Context, pods []Known) (removed []string, err error)

	// Limit sets the limits of a pod's cgroup, as Prepare does, and says how long that
	// took, also with an error. Errors: fs.ErrNotExist when there is none; EBUSY when more
	// memory is in use.
	Limit(ctx context.Context, c Cgroup) (time.Duration, error)
	// Usage measures the host and pods.
	Usage(ctx context.Context, r UsageRequest) (Usage, error)

	// Evicted says which of a node's pods the host has evicted while nobody was connected.
	// It evicts none from then on, until the program that does the operations ends. A record
	// goes with the pod's log directory.
	Evicted(ctx context.Context, r EvictedRequest) ([]Eviction, error)

	// AwaitShutdown returns once the host's state is not r.Was: whether it is being shut
	// down (systemd-logind). While it waits for a shutdown it holds a lock that delays
	// one; the lock is kept when it returns true, and let go by a call with Was true, or
	// when the program that does the operations ends. Errors: backend.ErrUnsupported where
	// there is no logind.
	AwaitShutdown(ctx context.Context, r ShutdownRequest) (bool, error)

	// ShutdownDelay says how long systemd-logind lets a shutdown wait now. It changes
	// nothing. Errors: backend.ErrUnsupported where there is no logind.
	ShutdownDelay(ctx context.Context) (ShutdownDelay, error)

	// AwaitOOM returns the processes that the kernel killed for want of memory of the whole
	// host after r.After, once there is one; at once, none and the mark of now, where that
	// is empty. Errors: backend.ErrUnsupported where the kernel's log cannot be read.
	AwaitOOM(ctx context.Context, r OOMRequest) (OOMKills, error)

	// SystemLog streams a file of the host's logs, the names in a directory of them, or
	// what services logged. Errors: fs.ErrNotExist; backend.ErrInvalid for what is neither
	// file nor directory, or elsewhere, and with EISDIR or ENOTDIR where it is the other.
	SystemLog(ctx context.Context, r SystemLogRequest) (io.ReadCloser, error)

	// Leader says who leads a node, and lets a leader take it ([fence.Request]). From then
	// on what another leader asks for with [WithLeader] is refused: all operations that
	// change something, and Call. Errors: ENOSPC where there is no room for a record; there
	// is none of a former leader then either.
	Leader(ctx context.Context, r LeaderRequest) (fence.Record, error)

	// Call makes a call of the container runtime and returns the encoded reply. A call
	// that has reached the host is finished there, within its own timeout, though ctx,
	// the connection or the process at the other end goes: containerd would cancel it
	// with its caller, after a container may have begun.
	// Errors: [*CallError] is the runtime's answer; after any other error it is unknown
	// whether the call was made.
	Call(ctx context.Context, c Call) ([]byte, error)
}

// Dialer opens connections as the host does.
type Dialer interface {
	// DialContext opens a connection to a "tcp" address or a "unix" path of the
	// host's. The connection takes deadlines, and CloseWrite ends one direction.
	// Errors: the connection's own, as errors.Is(err, syscall.ECONNREFUSED);
	// backend.ErrUnavailable when the host cannot be asked.
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Facts are what a host is.
type Facts struct {
	// Now is the host's clock when it answered.
	Now time.Time
	// Arch is a GOARCH word; the others stand in the Node's nodeInfo.
	Arch, Kernel, OSImage         string
	MachineID, SystemUUID, BootID string
	// Hostname is the host's own short name.
	Hostname string
	// CPUs that are online; Memory and Swap in bytes.
	CPUs         int64
	Memory, Swap int64
	// HugePages is how many bytes are set aside for huge pages, by their size in bytes; nil
	// where no cgroup limits their use.
	HugePages map[int64]int64
	// PIDs is how many processes and threads there can be.
	PIDs int64
	// Addresses, that of the default route first, without loopback and link-local
	// ones.
	Addresses []string
	// CgroupV2 is true on the unified hierarchy; CgroupRoot is where cgroups are
	// mounted; Controllers are those that pods' cgroups can be limited by.
	CgroupV2    bool
	CgroupRoot  string
	Controllers []string
	// SwapLimits is true where cgroups limit swap.
	SwapLimits bool
	// Systemd is true where systemd manages cgroups.
	Systemd bool
	// Kubelets are those that run here, in the order of their process ids.
	Kubelets []Kubelet
	// Nodes are the identities of the nodes whose pods have directories below the volumes'
	// root, sorted: this host is theirs too.
	Nodes []string
	// Disk is the file system of the volumes' root.
	Disk Filesystem
	// Lacks is what the operations need and the host has not, each with what to do.
	Lacks []string
}

// Kubelet is a kubelet that runs on the host. Endpoint is the socket of its container
// runtime, as its command line or its configuration file names it; empty if neither
// does.
type Kubelet struct {
	PID      int
	Endpoint string
}

// DefaultEndpoint is the socket that a kubelet uses when nobody names one.
const DefaultEndpoint = "unix:///run/containerd/containerd.sock"

// Uses is true of a kubelet whose runtime listens on the socket at this path.
func (k Kubelet) Uses(socket string) bool {
	endpoint := k.Endpoint
	if endpoint == "" {
		endpoint = DefaultEndpoint
	}
	// /var/run is /run.
	return strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "/var") == strings.TrimPrefix(socket, "/var")
}

// Filesystem is in bytes and inodes.
type Filesystem struct {
	Capacity, Available, Used      uint64
	Inodes, InodesFree, InodesUsed uint64
}

// Preparation is what must be there before a sandbox or container starts. Its
// steps run in the order of its fields.
type Preparation struct {
	// Dirs are made with their parents, mode 0755.
	Dirs []string
	// Private are made like Dirs, and only root may enter them.
	Private []string
	// Cgroup is made with its limits; nil for none.
	Cgroup *Cgroup
	// Writes are files written as a whole, in one step.
	Writes []Write
	// Ports claims ports of the host for the pod; nil: it has none.
	Ports *Ports
	// Users asks for the ids of the pod's user namespace; nil: it has none of its own.
	Users *Users
	// Shared are empty files that every user may write to, in directories that
	// only root can enter; each may be there already, with whatever is in it.
	Shared []string
	// SubPaths are opened and bound to a path of their own.
	SubPaths []SubPath
	// Sources are host paths to check, or to make, as their type says.
	Sources []Source
	// Links are symbolic links, made or replaced.
	Links []Link
}

// Write is one file.
type Write struct {
	Path string
	Data []byte
	// Mode is the permission bits. KeepExisting leaves a file that is there.
	Mode         int32
	KeepExisting bool
	// Within gives the file that is there other contents, not one step, instead of
	// putting another in its place: so it keeps its label, and shows where it is
	// mounted (kubelet: ensureHostsFile).
	Within bool
}

// Ports claims ports of the host for a pod: no pod of another node has them, whose log
// directory stands beside this one's, for as long as something runs in this one. They are
// recorded in its mark. Errors: backend.ErrCapacity where another has one.
type Ports struct {
	// Mark is the path of the pod's [LogMark], which is there.
	Mark  string
	Ports []Port
}

// Port is one of the host's. IP is the address that it is of; empty: all.
type Port struct {
	Protocol, IP string
	Number       int32
}

// Users asks for the host's ids that are a pod's in its user namespace: [UserIDs] of
// them, which no other pod has whose log directory stands beside this one's. They are
// recorded in its mark, and go with it. Errors: backend.ErrUnsupported where the host's
// subordinate ids leave none.
type Users struct {
	// Mark is the path of the pod's [LogMark], which is there.
	Mark string
	// Given is true for a pod that has a sandbox. Errors: fs.ErrNotExist where no ids are
	// recorded.
	Given bool
}

// Link makes Path point to Target.
type Link struct{ Target, Path string }

// SubPath is a path inside a volume, mounted by a container (subPath). It is
// opened step by step, without following a link out of the volume, and bound to
// Target, so that a pod that swaps directories for links gains nothing (kubelet:
// pkg/volume/util/subpath).
type SubPath struct {
	// Volume is the directory of the volume, Path relative to it. A missing
	// directory is made with the mode of the volume's own, so that an fsGroup may
	// write to it, unless the volume is ReadOnly.
	Volume, Path string
	ReadOnly     bool
	// Within is a path above the volume's, which no link leads out of: the volume is
	// opened in the same way. Empty: the volume's path is the host's own.
	Within string
	// Target is where it is bound, below the pod's directory.
	Target string
}

// FileWithin is a file of at most Limit bytes: Path is relative to the directory Dir.
type FileWithin struct {
	Dir, Path string
	Limit     int64
}

// Source is the path of a hostPath volume, with the check that its type asks for
// (corev1.HostPathType). Errors carry backend.ErrInvalid never: what is missing now
// may come. Within is as of a SubPath.
type Source struct{ Path, Type, Within string }

// Prepared is what Prepare found.
type Prepared struct {
	// SubPaths are the targets, in the order of the request.
	SubPaths []string
	// FirstUser is the first of the ids that Users asked for.
	FirstUser uint32
	// Cgroup is how long it took to make the cgroup; 0 where none was asked for.
	Cgroup time.Duration
}

// Discard is what is to be removed, in the order of its fields.
type Discard struct {
	// Unmount are trees in which everything is unmounted before Trees go.
	Unmount []string
	// Cgroup is removed with those below, in every hierarchy. What runs there still is
	// killed (kubelet: podContainerManagerImpl.Destroy). Where that fails, the marks in Trees
	// stay, so that Sweep finds it.
	Cgroup *Cgroup
	// Left goes from a pod's cgroup that stays; nil for nothing.
	Left *Leftovers
	// Trees are files, links or directories with what is below.
	Trees []string
	// RotatedLogs are logs whose rotated files go.
	RotatedLogs []string
}

// Discarded is what Discard found.
type Discarded struct {
	// Cgroup is how long it took to remove the cgroup; 0 where none was to go.
	Cgroup time.Duration
}

// Known is a pod's cgroup with the ids of all sandboxes and containers in it that the
// runtime knows, those that have ended included.
type Known struct {
	Cgroup Cgroup
	IDs    []string
}

// Leftovers are the cgroups that a runtime which died in the middle of a start left of
// sandboxes and containers that have ended. What runs there is killed: "runc init",
// which waits for a start that nobody knows of.
type Leftovers struct {
	// Cgroup is the pod's. Those directly below it go that have one of IDs in their name.
	Cgroup Cgroup
	IDs    []string
}

// Cgroup is the cgroup of a pod. Those above it are made as a kubelet makes them:
// the top with the weight of its pods' class.
type Cgroup struct {
	// Parent is the sandbox's cgroup parent: a path under cgroupfs, the name of a
	// slice under systemd.
	Parent  string
	Systemd bool
	// Shares, Quota and Period are CPU shares and microseconds, Memory bytes, as in
	// cgroup version 1; 0 is no limit. Huge pages in bytes by their size, as in
	// "2MB"; a size that is not named may not be used (kubelet: maybeSetHugetlb).
	Shares, Quota, Period int64
	Memory                int64
	// PIDs is the most processes; 0 is no limit.
	PIDs      int64
	HugePages map[string]int64
	// QOSShares are the CPU shares of the class above the pod ("besteffort"); 0 leaves them.
	QOSShares int64
	// QOSSum gives the class the sum of the CPU shares of the pods in it instead
	// ("burstable"), of all nodes of the host.
	QOSSum bool
	// Top are the limits of the cgroup above all pods; what is 0 is left as it is.
	Top TopLimits
	// Raise leaves the limits of CPU and memory that are higher already: what stands
	// in the cgroup is about to get more, or has more still. Only Limit reads it.
	Raise bool
}

// TopLimits are what pods of a host may use together: CPU shares, bytes of memory and
// processes (kubelet: enforceNodeAllocatable=pods).
type TopLimits struct{ Shares, Memory, PIDs int64 }

// PodDir is the directory of a pod: root/uid.
type PodDir struct {
	Root string
	// Node is the identity of the node whose pod it is; others' are not touched.
	Node string
	UID  string
}

// Kinds of volumes that are made. A hostPath is not: it is there (see Source).
const (
	// KindDir is a directory on disk: an emptyDir.
	KindDir = "dir"
	// KindTmpfs is a directory in memory: an emptyDir with medium Memory.
	KindTmpfs = "tmpfs"
	// KindHugePages is a hugetlbfs mount.
	KindHugePages = "hugepages"
	// KindFiles has contents and stands on disk (configMap).
	KindFiles = "files"
	// KindSecretFiles has contents and stands in memory (secret, projected,
	// downwardAPI).
	KindSecretFiles = "secretfiles"
	// KindNFS is a mount of an NFS export.
	KindNFS = "nfs"
	// KindBind binds a directory of the host, so that its ownership can be set (a
	// local PersistentVolume).
	KindBind = "bind"
)

// Volume is one volume to be made. It stands at PodDir.Volume, described for
// [Host.Volumes] beside it.
type Volume struct {
	Pod PodDir
	// Namespace and PodName name the pod to people and to a restarted process.
	Namespace, PodName string
	Name               string
	Kind               string
	// Hash identifies the contents; a volume that has it already is not touched.
	Hash string
	// SizeLimit of a tmpfs in bytes; 0 is the kernel's default, half the memory.
	SizeLimit int64
	// PageSize of huge pages, as in "2Mi"; empty is the default.
	PageSize string
	// Source is what is bound or mounted: a path, or server:/path for NFS.
	Source   string
	ReadOnly bool
	// Within is as of a SubPath, for a source that is bound.
	Within string
	// MountOptions are those of the PersistentVolume.
	MountOptions []string
	// FSGroup owns it, and every file in it gets the group's rights (kubelet:
	// SetVolumeOwnership); nil changes nothing. OnRootMismatch does so only where
	// the directory itself has other owners or rights.
	FSGroup        *int64
	OnRootMismatch bool
	// Files are the contents, sorted by path.
	Files []File
	// Nested are directories made within contents, for other volumes that containers
	// mount inside this one (kubelet: MakeNestedMountpoints).
	Nested []string
}

// File is one file of a volume's contents.
type File struct {
	Path string
	Data []byte
	Mode int32
	// UID owns the file; nil is root.
	UID *int64
}

// Placed is a volume that is there, whole. One that is not, a tmpfs after a reboot
// for example, has no Hash. A pod whose directory is there and marked as the node's
// (PodDir.Mark), with no volume in it, has one without a Name: there is something to
// Clear.
type Placed struct {
	UID, Namespace, PodName string
	Name, Hash              string
	PlacedAt                time.Time
}

// LogRequest asks for a log.
type LogRequest struct {
	// Path of the log that the runtime writes now. Errors: fs.ErrNotExist.
	Path string
	// The options are those of backend.LogOptions; Since is the host's time.
	Follow, Timestamps bool
	Tail, LimitBytes   *int64
	Since              time.Time
	// Ended is closed when the container writes no more: what is there is then read
	// to its end. It is nil without Follow. Rotation is followed.
	Ended <-chan struct{}
}

// Rotation are the bounds of logs (kubelet: containerLogMaxSize, -MaxFiles).
type Rotation struct {
	// Logs are the paths that runtimes write now.
	Logs     []string
	MaxSize  int64
	MaxFiles int
	// Keep has the host go on by itself when the helper's session ends, until the next such
	// call, which ends that; nil: it does not.
	Keep *Keep
}

// Sweep names what is to stay.
type Sweep struct {
	// PodLogs is the directory of pods' logs, whose entries are named
	// namespace_name_uid; those in KeepUIDs stay, as do those without our mark.
	PodLogs  string
	KeepUIDs []string
	// Links is the directory of links to logs; a link into PodLogs that leads
	// nowhere is removed.
	Links string
	// Node is the identity of the node whose log directories may go.
	Node string
}

// ShutdownRequest is what the caller knows of the host's shutdown, and needs for its own.
type ShutdownRequest struct {
	// Was is true where the host was being shut down when it was last asked.
	Was bool
	// Delay is how long the host must be able to wait.
	Delay time.Duration
}

// ShutdownDelay is how long a shutdown may be delayed at Most (InhibitDelayMaxSec). Asked is
// what AwaitShutdown has asked for since the boot; zero: nothing.
type ShutdownDelay struct{ Most, Asked time.Duration }

// UsageRequest names what is measured.
type UsageRequest struct {
	// Root is the file system of volumes; Images that of images, empty if unknown.
	Root, Images string
	// PodsCgroup is the one above those of all pods; empty: it is not measured.
	PodsCgroup Cgroup
	Pods       []PodUsageRequest
}

// PodUsageRequest is one pod's.
type PodUsageRequest struct {
	UID    string
	Cgroup Cgroup
	// NetPID is a process in the pod's network namespace; 0 for none of its own.
	NetPID int
	// LogDir holds its logs: a directory below it per container.
	LogDir string
	// Dir holds its volumes.
	Dir PodDir
	// Containers are the runtime's ids of those that run.
	Containers []string
}

// Usage is a measurement.
type Usage struct {
	// Now is the host's clock.
	Now time.Time
	// Node is the host as a whole; Root and Images are file systems.
	Node         CgroupUsage
	Network      []Interface
	Root, Images Filesystem
	// ImagesApart is true where Images is another file system than Root.
	ImagesApart bool
	// PodsCgroup is what the request names; nil where there is none.
	PodsCgroup *CgroupUsage
	// Processes, and the most there may be.
	Processes, MaxProcesses uint64
	// Pods by UID; one that has gone is left out.
	Pods map[string]PodUsage
}

// CgroupUsage is what a cgroup, or the host, uses. Nil is unknown.
type CgroupUsage struct {
	// StartTime is when the host was booted; zero for a pod: the kernel does not
	// keep when a cgroup was made.
	StartTime                         time.Time
	CPUNanoseconds                    *uint64
	Memory, WorkingSet, RSS           *uint64
	MemoryLimit                       *uint64
	PageFaults, MajorPageFaults, PIDs *uint64
	Pressure                          Pressure
	CgroupDetail
}

// CgroupDetail is what a cgroup says beside: see backend.UsageDetail. Nil is unknown.
type CgroupDetail struct {
	CPUUser, CPUSystem                       *uint64 // nanoseconds
	Periods, ThrottledPeriods, ThrottledTime *uint64
	Cache, Swap, MappedFile                  *uint64
	ActiveFile, InactiveFile, MostMemory     *uint64
	MemoryFailures, OOMKills                 *uint64
	Disks                                    []Disk
}

// Disk counts bytes and operations of a block device, named as in /dev.
type Disk struct {
	Device                               string
	ReadBytes, WriteBytes, Reads, Writes uint64
}

// ContainerUsage is what a container uses.
type ContainerUsage struct {
	// Path is its cgroup's, from the top.
	Path string
	CgroupUsage
}

// PodUsage is what a pod uses. Volumes and Logs are measured at most once a
// minute: MeasuredAt, zero until then. Volumes across a network are left out: to
// ask might never end.
type PodUsage struct {
	// Path is the cgroup's, from the top.
	Path string
	CgroupUsage
	Network []Interface
	// Containers by id; one that has gone is left out.
	Containers map[string]ContainerUsage
	Logs       map[string]Filesystem // by container
	Volumes    map[string]Filesystem
	// Files is what stands beside its logs and its containers may write to: the hosts
	// file, termination messages.
	Files Filesystem
	// OnDisk are the volumes that take room on the volumes' root, sorted: those in
	// memory, or with a file system of their own, are not.
	OnDisk     []string
	MeasuredAt time.Time
}

// Interface counts bytes, errors, packets and those that were dropped.
type Interface struct {
	Name                                       string
	RxBytes, RxErrors, TxBytes, TxErrors       uint64
	RxPackets, RxDropped, TxPackets, TxDropped uint64
}
