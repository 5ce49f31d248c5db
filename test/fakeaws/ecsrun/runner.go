package ecsrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxMessage is containerd's own bound, in bytes.
	maxMessage = 16 << 20
	// headerTimeout bounds how long a task may take to ask for its metadata.
	headerTimeout = time.Minute
)

// Config says where tasks run.
type Config struct {
	// Socket is the path of containerd's socket.
	Socket string
	// Dir is a directory that containerd sees at the same path. Volumes, logs and
	// file systems stand there. Close removes what the runner made, but not Dir.
	Dir string
	// Cgroups is where the cgroups are mounted that containerd sees at /sys/fs/cgroup.
	Cgroups string
	// Proc is where the process file system is mounted that containerd sees at /proc.
	Proc string
	// Metadata is where requests of tasks to http://169.254.170.2 arrive. Close
	// closes it.
	Metadata net.Listener
}

// Runner runs tasks. It is safe for concurrent use.
type Runner struct {
	dir     string
	proc    string
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	store   containersapi.ContainersClient
	tasks   tasksapi.TasksClient
	cgroups cgroups
	execs   atomic.Uint64 // names commands

	handler atomic.Pointer[http.Handler]
	server  *http.Server
	served  chan struct{}
}

// New makes a runner. The runtime must be ready.
func New(ctx context.Context, cfg Config) (*Runner, error) {
	for _, dir := range []string{tasksDir(cfg.Dir), systemsDir(cfg.Dir)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make directories of tasks: %w", err)
		}
	}
	conn, err := grpc.NewClient("unix://"+cfg.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("make CRI client: %w", err)
	}
	r := &Runner{
		dir: cfg.Dir, proc: cfg.Proc, conn: conn, served: make(chan struct{}),
		runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
		store: containersapi.NewContainersClient(conn), tasks: tasksapi.NewTasksClient(conn),
	}
	if _, err := r.runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return nil, errors.Join(fmt.Errorf("get CRI version: %w", err), conn.Close())
	}
	if err := r.writeAgent(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if r.cgroups, err = newCgroups(cfg.Cgroups); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r.serve(cfg.Metadata)
	return r, nil
}

// serve answers tasks until the runner is closed.
func (r *Runner) serve(l net.Listener) {
	none := http.NotFoundHandler()
	r.handler.Store(&none)
	r.server = &http.Server{
		ReadHeaderTimeout: headerTimeout,
		Handler: http.HandlerFunc(
			func(w http.ResponseWriter, q *http.Request) { (*r.handler.Load()).ServeHTTP(w, q) },
		),
	}
	go func() {
		defer close(r.served)
		// It always returns an error; after Close that is ErrServerClosed.
		_ = r.server.Serve(l)
	}()
}

// Serve is ecs.Runner's.
func (r *Runner) Serve(handler http.Handler) { r.handler.Store(&handler) }

// Close ends the runner. Its tasks are to be removed before: close their server.
func (r *Runner) Close() error {
	err := r.server.Close()
	<-r.served
	return errors.Join(err, r.conn.Close(), r.cgroups.close(),
		os.RemoveAll(tasksDir(r.dir)), os.RemoveAll(systemsDir(r.dir)), os.RemoveAll(r.agentDir()))
}

func tasksDir(dir string) string   { return filepath.Join(dir, "ecs-tasks") }
func systemsDir(dir string) string { return filepath.Join(dir, "ecs-filesystems") }

// inNamespace is for calls of containerd's own services: CRI's containers stand in
// this namespace.
func inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}
