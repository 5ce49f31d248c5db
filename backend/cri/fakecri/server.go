package fakecri

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	eventsapi "github.com/containerd/containerd/api/services/events/v1"
	containerdtypes "github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
)

// Hook sees each call, by the method's short name ("RunPodSandbox"), and may
// fail it.
type Hook func(ctx context.Context, method string, request any) error

// Server is one runtime. Its fields are set before Serve.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	eventsapi.UnimplementedEventsServer

	// Before fails a call before it does anything; After once it is done, as
	// if the reply were lost.
	Before, After Hook
	// Amid is called in the middle of a call that changes sandboxes or containers, as Before
	// and without the lock: names are taken and nothing is listed yet, the process has begun,
	// TERM was sent, or only the containers have ended. When the call's context has ended on
	// its return, the call is given up as containerd does: what it made goes, and what it was
	// to end stays. Of a container that was started containerd does not know that it ran.
	Amid func(ctx context.Context, method string)
	// IgnoresTERM names containers that only KILL ends.
	IgnoresTERM map[string]bool
	// NotReady is the message of a network that is not ready.
	NotReady string
	// Runtime is its name and version, as "cri-o 1.33.0"; empty: containerd 1.6.20.
	Runtime string
	// StrictGroups makes it a runtime that can be strict about supplemental groups.
	StrictGroups bool
	// Handlers are what it says of its runtime handlers; nil: nothing, as containerd 1.6.
	Handlers []*runtimeapi.RuntimeHandler
	// CRIEvents is CRI's own event stream, for one client; nil: there is none, as
	// in containerd 1.6.
	CRIEvents chan *runtimeapi.ContainerEventResponse
	// Commands runs commands in running containers; nil: none can be run.
	Commands func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)
	// Streaming serves the streams of commands, attachments and forwarded ports; nil:
	// there are none.
	Streaming streaming.Server
	// Reopening is called when the log of a container is to be opened anew; nil: it cannot be.
	Reopening func(containerID string) error
	// Checkpoints writes checkpoints; nil: it cannot, as containerd before 2.1.
	Checkpoints func(*runtimeapi.CheckpointContainerRequest) error
	// Measured changes what ListContainerStats tells of a container.
	Measured func(*runtimeapi.ContainerStats)
	// Refused are the messages of registries by image; Users the users of
	// images by name, where they are not root.
	Refused map[string]string
	Users   map[string]*runtimeapi.Image

	mu         sync.Mutex
	calls      map[string]int
	begun      map[string]int // processes that have begun, by the container's name
	ids        int
	sandboxes  map[string]*sandbox
	containers map[string]*container
	reserved   map[string]string // names of what is being made, with its id
	images     map[string]string
	auths      []*runtimeapi.AuthConfig
	streams    map[chan *containerdtypes.Envelope]bool
}

type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	state   runtimeapi.PodSandboxState
	created time.Time
	freeing bool // a call is taking its network down
}

type container struct {
	id, sandbox string
	config      *runtimeapi.ContainerConfig
	state       runtimeapi.ContainerState
	created     time.Time
	started     time.Time
	finished    time.Time
	code        int32
	reason      string
	message     string
	stops       []int64
	starting    bool
	ended       chan struct{}
	name        string // that it reserves
	logs        string // the directory of its log
}

// New makes a runtime with the images named.
func New(images ...string) *Server {
	s := &Server{
		IgnoresTERM: map[string]bool{},
		Refused:     map[string]string{},
		Users:       map[string]*runtimeapi.Image{},
		calls:       map[string]int{},
		begun:       map[string]int{},
		sandboxes:   map[string]*sandbox{},
		containers:  map[string]*container{},
		reserved:    map[string]string{},
		images:      map[string]string{},
		streams:     map[chan *containerdtypes.Envelope]bool{},
	}
	for _, image := range images {
		s.images[image] = "sha256:" + image
	}
	return s
}

// Serve serves on a unix socket until stop is called, which waits.
func (s *Server) Serve(socket string) (stop func(), err error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return s.ServeOn(listener), nil
}

// ServeOn serves those who connect to a listener, as Serve does.
func (s *Server) ServeOn(listener net.Listener) (stop func()) {
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	eventsapi.RegisterEventsServer(server, s)
	var served sync.WaitGroup
	served.Go(func() {
		// It ends when stop is called; there is no other way to end it.
		_ = server.Serve(listener)
	})
	return func() {
		server.Stop()
		served.Wait()
	}
}

func (s *Server) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	method := path.Base(info.FullMethod)
	s.mu.Lock()
	s.calls[method]++
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(ctx, method, request); err != nil {
			return nil, err
		}
	}
	reply, err := handle(ctx, request)
	if err == nil && s.After != nil {
		err = s.After(ctx, method, request)
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// amid lets Amid do its part, and returns why the call is given up. The lock is held.
func (s *Server) amid(ctx context.Context, method string) error {
	if s.Amid != nil {
		s.mu.Unlock()
		defer s.mu.Lock()
		s.Amid(ctx, method)
	}
	return ctx.Err()
}

// reserve takes a name for what is being made, until it is released.
func (s *Server) reserve(kind, name, id string) (release func(), err error) {
	holder := s.reserved[kind+name]
	for _, box := range s.sandboxes {
		if kind == "sandbox" && sandboxName(box.config.GetMetadata()) == name {
			holder = box.id
		}
	}
	for _, c := range s.containers {
		if kind == "container" && c.name == name {
			holder = c.id
		}
	}
	if holder != "" {
		return nil, fmt.Errorf("failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
	}
	s.reserved[kind+name] = id
	return func() { delete(s.reserved, kind+name) }, nil
}

// ByGRPC is true of a call by gRPC's own library, and not by the host helper.
func ByGRPC(ctx context.Context) bool {
	headers, _ := metadata.FromIncomingContext(ctx)
	return slices.ContainsFunc(
		headers.Get("user-agent"), func(agent string) bool { return strings.HasPrefix(agent, "grpc-go/") },
	)
}

// Calls is how often a method was called.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Runs is how many processes of containers of a name have begun.
func (s *Server) Runs(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[name]
}

func (s *Server) nextID(prefix string) string {
	s.ids++
	return fmt.Sprintf("%s-%04d", prefix, s.ids)
}

// Version is containerd 1.6's.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	name, version, named := strings.Cut(s.Runtime, " ")
	if !named {
		name, version = "containerd", "1.6.20"
	}
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: name, RuntimeVersion: version, RuntimeApiVersion: "v1",
	}, nil
}

// Status is ready but for the network, as NotReady says.
func (s *Server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	features := &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: s.StrictGroups}
	status := &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: s.NotReady == "", Reason: "NetworkPluginNotReady", Message: s.NotReady},
	}}
	return &runtimeapi.StatusResponse{Features: features, RuntimeHandlers: s.Handlers, Status: status}, nil
}
