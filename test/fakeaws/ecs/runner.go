package ecs

import (
	"context"
	"net/http"
	"time"
)

// MetadataHost is where tasks reach their metadata and the credentials of their
// role over HTTP (ECS developer guide, "Task IAM role" and "Task metadata endpoint
// version 4 for tasks on Fargate").
const MetadataHost = "169.254.170.2"

// Runner runs the containers of tasks for real. What ECS decides, such as when a
// container starts and whether its end is that of its task, is decided above it.
// Its methods are called by many goroutines at once.
type Runner interface {
	// Serve is called once, before all else, with what answers tasks at
	// http://169.254.170.2.
	Serve(handler http.Handler)
	// Start makes what the containers of a task share: a network namespace with an
	// address, volumes, and a bound on memory. A failure leaves nothing behind.
	Start(ctx context.Context, task TaskSpec) (RunningTask, error)
}

// RunningTask is a task of a Runner.
type RunningTask interface {
	// Address is its IPv4 address.
	Address() string
	// Pull makes sure that an image is there and returns its digest ("sha256:…").
	Pull(ctx context.Context, image string, login *Login) (digest string, err error)
	// Run starts a container. A failure leaves nothing that runs.
	Run(ctx context.Context, c ContainerSpec) (RunningContainer, error)
	// Storage is how many bytes stand in its volumes, those of file systems left out.
	Storage(ctx context.Context) (uint64, error)
	// Remove ends whatever still runs and removes all of it but shared file systems.
	// It may be repeated.
	Remove(ctx context.Context) error
}

// RunningContainer is one run of a container.
type RunningContainer interface {
	// Wait returns how it ended, when all that it wrote was handed to Log.
	Wait(ctx context.Context) (Exit, error)
	// Stop sends the image's stop signal (SIGTERM), and SIGKILL after a grace, and
	// returns when it has ended.
	Stop(ctx context.Context, grace time.Duration) error
	// Exec runs a command beside it; past the timeout it is killed, which is an error.
	Exec(ctx context.Context, argv []string, timeout time.Duration) (exitCode int, err error)
	// Terminal runs a command on a terminal, see Server.Exec.
	Terminal(ctx context.Context, call ExecCall) (exitCode int, err error)
	// Usage is what it uses now.
	Usage(ctx context.Context) (Usage, error)
}

// TaskSpec is what a task's containers share.
type TaskSpec struct {
	// ID is the last part of its ARN: 32 hex digits.
	ID string
	// MemoryMiB and CPU (1024 is a core) are the task's size.
	MemoryMiB, CPU int
	// SharePID is true if the containers see each other's processes (pidMode task).
	SharePID bool
	Sysctls  map[string]string
	Volumes  []VolumeSpec
}

// VolumeSpec is a volume of a task. With a FileSystem it is the directory Root of a
// file system that outlives tasks; that it is missing is an error. Else it is new
// and empty, 0755 and root's, and goes with the task.
type VolumeSpec struct {
	Name, FileSystem, Root string
}

// Login is a user of a registry.
type Login struct{ Username, Password string }

// ContainerSpec is one run of a container.
type ContainerSpec struct {
	// ID is unique among containers of all tasks and the same for each run; Run
	// counts the runs from 0.
	ID, Name, Image string
	Run             int
	// EntryPoint and Command replace those of the image; EntryPoint drops the
	// image's command as well (nil: the image's).
	EntryPoint, Command []string
	// Env are NAME=VALUE, each name once.
	Env []string
	// User is user or uid, and optionally :group or :gid; "" is the image's.
	User, WorkingDirectory string
	ReadOnlyRoot           bool
	Interactive, TTY       bool
	AddCaps, DropCaps      []string
	Mounts                 []MountSpec
	Tmpfs                  []TmpfsSpec
	Ulimits                []Ulimit
	// MemoryMiB is its hard bound, 0: that of the task; CPU its shares.
	MemoryMiB, CPU int
	// ExecMiB is what the agent of ECS Exec takes of it; 0: there is none.
	ExecMiB int
	// Log gets each line written to stdout and stderr; nil: nobody reads them.
	Log func(at time.Time, line string)
}

// MountSpec is a volume of the task in a container.
type MountSpec struct {
	Volume, Path string
	ReadOnly     bool
}

// TmpfsSpec is an empty file system in memory.
type TmpfsSpec struct {
	Path    string
	SizeMiB int
	Options []string
}

// Ulimit is a resource limit, such as nofile.
type Ulimit struct {
	Name       string
	Soft, Hard int64
}

// Exit is how a run of a container ended.
type Exit struct {
	Code int32
	// OOM is true if the kernel ended it for want of memory.
	OOM bool
}

// Usage is what a container uses. The network's numbers are those of its task.
type Usage struct {
	At time.Time
	// CPU is the time used on all cores, since it started.
	CPU time.Duration
	// MemoryBytes are charged to it, of which WorkingSet cannot be taken back at once.
	MemoryBytes, WorkingSetBytes uint64
	// RootBytes are written to its root file system.
	RootBytes                            uint64
	Interface                            string
	RxBytes, TxBytes, RxErrors, TxErrors uint64
}
