package kubeletapi

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/burstlet/burstlet/backend"
)

// Streams is what the server asks of the engine for exec, attach and port-forward.
// Pods are named by namespace and name, and by UID where one is given; Attempt and
// ID mean nothing. Errors carry the classes of package backend: NotFound for an
// unknown pod or what does not run, Unsupported where the backend lends none.
type Streams interface {
	// Exec runs a command in a container and returns its exit code, as
	// backend.Exec does.
	Exec(ctx context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error)
	// Attach joins streams to a container's main process, as backend.Attacher
	// does. The engine knows whether that has a terminal.
	Attach(ctx context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error
	// Forward connects to a port inside a pod, as backend.Forwarder does.
	Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error)
	// Checkpoint writes an archive of a running container, as backend.Checkpointer does.
	Checkpoint(ctx context.Context, pod backend.Ref, container string, timeout time.Duration) (location string, err error)
	// PodUID is the UID of the pod that is named; empty for an unknown one.
	PodUID(pod backend.Ref) types.UID
	// CanExec, CanAttach and CanForward return the errors that are known without
	// asking the remote, while an HTTP status can still tell them.
	CanExec(pod backend.Ref, container string) error
	CanAttach(pod backend.Ref, container string) error
	CanForward(pod backend.Ref) error
}

const (
	// streamIdleTimeout ends a stream on which nothing moved for so long (kubelet:
	// streamingConnectionIdleTimeout).
	streamIdleTimeout = 4 * time.Hour
	// streamCreationTimeout is how long a client may take to open the streams that
	// it asked for.
	streamCreationTimeout = remotecommand.DefaultStreamCreationTimeout
	// statusTimeout is for the status of a command that was ended to be sent.
	statusTimeout = stopTimeout / 2
	// podTimeout is how long a request waits for an engine that has just begun: a remote that
	// takes longer to be listed is away.
	podTimeout = 10 * time.Second
)

// streamRoutes adds what takes a connection over: exec, attach and portForward.
func (s *Server) streamRoutes(mux *http.ServeMux) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, uid := range []string{"", "/{uid}"} {
			pod := "/{namespace}/{pod}" + uid
			mux.HandleFunc(method+" /exec"+pod+"/{container}", s.ofPod(s.exec))
			mux.HandleFunc(method+" /attach"+pod+"/{container}", s.ofPod(s.attach))
			mux.HandleFunc(method+" /portForward"+pod, s.ofPod(s.portForward))
		}
	}
	mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.ofPod(s.run))
	mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.ofPod(s.run))
}

// ofPod serves requests about one pod once the engine knows it: the Node has the address of a
// process that takes over before that process has listed what the one before it left running.
func (s *Server) ofPod(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), podTimeout)
		err := s.cfg.Engine.AwaitPod(ctx, podRef(r))
		cancel()
		if err != nil {
			fail(w, r, err)
			return
		}
		serve(w, r)
	}
}

// podRef is the pod that a path names.
func podRef(r *http.Request) backend.Ref {
	return backend.Ref{
		Namespace: r.PathValue("namespace"), Name: r.PathValue("pod"), UID: types.UID(r.PathValue("uid")),
	}
}

// upgradable is true for a request to speak SPDY or WebSocket. Others must not
// get to the protocols' own code: its answer would repeat their headers.
func upgradable(r *http.Request) bool {
	return wsstream.IsWebSocketRequest(r) ||
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") &&
			strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), strings.ToLower(spdy.HeaderSpdy31))
}

// takeOver lets serve speak another protocol on the connection of a request. The
// context that serve gets ends with the connection, whichever of client, server
// and serve ends it; the connection does not outlive serve or the context.
//
// When the context ends first, serve has lastWords to tell the client why: one
// whose stream just breaks off takes that for success.
func (s *Server) takeOver(w http.ResponseWriter, r *http.Request, lastWords time.Duration, serve http.HandlerFunc) {
	if !upgradable(r) {
		fail(w, r, backend.Errorf(backend.ErrInvalid, "Upgrade request required")) // the kubelet's words
		return
	}
	s.streams.Add(1)
	defer s.streams.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	u := &upgrade{ResponseWriter: w, gone: cancel, closed: func(err error) {
		log.G(ctx).WithError(err).Debug("stream connection not closed cleanly")
	}}
	defer u.close()
	served := make(chan struct{})
	defer close(served)
	defer context.AfterFunc(ctx, func() {
		timeout := time.NewTimer(lastWords)
		defer timeout.Stop()
		select {
		case <-served:
		case <-timeout.C:
			u.close()
		}
	})()
	serve(u, r.WithContext(ctx))
}

// awaitStreams waits for the streams, whose context has ended, to notice.
func (s *Server) awaitStreams(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		s.streams.Wait()
		close(ended)
	}()
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		log.G(ctx).Warn("streams of the kubelet API have not ended yet")
	}
}
