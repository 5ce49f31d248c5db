package simrpc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// protocol changes with every change of the contract or of how it is carried.
const protocol = 9

// What stands in the HTTP headers.
const (
	nodeHeader   = "Burstlet-Node"   // the node's identity, query-escaped
	leaderHeader = "Burstlet-Leader" // who asks for a change, query-escaped
	errorTrailer = "Burstlet-Error"  // how a stream ended, if not well
	upgradeName  = "burstlet-sim"

	statusCallFailed = http.StatusUnprocessableEntity
)

const handshakePath = "/handshake"

// leaderPath is of what is asked about a node's leaders ([fence.Request]).
var leaderPath = fmt.Sprintf("/%d/leader", protocol)

func callPath(call intercept.Name) string { return fmt.Sprintf("/%d/%s", protocol, call) }

// handshake is what the server says of itself. Only Protocol means the same in
// every version.
type handshake struct {
	Protocol int
	// Version is the program's, for people.
	Version string
	// Name, Fields and Limits are the backend's. Fields are those that it lends.
	Name   string
	Fields []string
	Limits backend.Limits
}

// handshakeRequest asks for the handshake, and with Hold to keep the answer
// open until the server ends.
type handshakeRequest struct{ Hold bool }

// none is an empty reply, and the empty request of a stream.
type none struct{}

// podObject carries a pod as the API server stores it: smaller than JSON and
// much faster to read.
type podObject struct{ *corev1.Pod }

// MarshalJSON wraps the protobuf of the pod.
func (p podObject) MarshalJSON() ([]byte, error) {
	if p.Pod == nil {
		return []byte("null"), nil
	}
	data, err := p.Pod.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode pod: %w", err)
	}
	return json.Marshal(data)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *podObject) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil || data == nil {
		return err
	}
	p.Pod = &corev1.Pod{}
	if err := p.Pod.Unmarshal(data); err != nil {
		return fmt.Errorf("decode pod: %w", err)
	}
	return nil
}

// launchRequest carries a LaunchSpec, whose parts all are of one pod, with that
// pod once.
type launchRequest struct {
	Pod  podObject
	Spec backend.LaunchSpec
}

func newLaunchRequest(spec backend.LaunchSpec) launchRequest {
	pod := spec.Pod
	spec.Containers, spec.Volumes = slices.Clone(spec.Containers), slices.Clone(spec.Volumes)
	setPod(&spec, nil)
	return launchRequest{podObject{pod}, spec}
}

func (r launchRequest) spec() backend.LaunchSpec {
	setPod(&r.Spec, r.Pod.Pod)
	return r.Spec
}

func setPod(spec *backend.LaunchSpec, pod *corev1.Pod) {
	spec.Pod = pod
	for i := range spec.Containers {
		spec.Containers[i].Pod = pod
	}
	for i := range spec.Volumes {
		spec.Volumes[i].Pod = pod
	}
}

// startRequest carries the spec of a container with its pod apart.
type startRequest struct {
	Pod  podObject
	Spec backend.ContainerSpec
}

func newStartRequest(spec backend.ContainerSpec) startRequest {
	pod := spec.Pod
	spec.Pod = nil
	return startRequest{podObject{pod}, spec}
}

func (r startRequest) spec() backend.ContainerSpec {
	r.Spec.Pod = r.Pod.Pod
	return r.Spec
}

// placeRequest carries a volume with its pod apart.
type placeRequest struct {
	Pod  podObject
	Spec backend.VolumeSpec
}

func newPlaceRequest(spec backend.VolumeSpec) placeRequest {
	pod := spec.Pod
	spec.Pod = nil
	return placeRequest{podObject{pod}, spec}
}

func (r placeRequest) spec() backend.VolumeSpec {
	r.Spec.Pod = r.Pod.Pod
	return r.Spec
}

// refreshRequest carries volumes with their pod, the same for all, once.
type refreshRequest struct {
	Pod     podObject
	Volumes []backend.VolumeSpec
}

func newRefreshRequest(volumes []backend.VolumeSpec) refreshRequest {
	out := refreshRequest{Volumes: make([]backend.VolumeSpec, len(volumes))}
	for i, v := range volumes {
		out.Pod = podObject{v.Pod}
		v.Pod = nil
		out.Volumes[i] = v
	}
	return out
}

func (r refreshRequest) spec() []backend.VolumeSpec {
	for i := range r.Volumes {
		r.Volumes[i].Pod = r.Pod.Pod
	}
	return r.Volumes
}

type logsRequest struct {
	Ref  backend.ContainerRef
	Opts backend.LogOptions
}

type dialRequest struct {
	Pod     backend.Ref
	Address string
}

type forwardRequest struct {
	Pod  backend.Ref
	Port uint16
}

// streamFlags say which streams there are.
type streamFlags struct{ Stdin, Stdout, Stderr, TTY, Resize bool }

func flagsOf(spec backend.AttachSpec) streamFlags {
	return streamFlags{
		Stdin: spec.Stdin != nil, Stdout: spec.Stdout != nil, Stderr: spec.Stderr != nil,
		TTY: spec.TTY, Resize: spec.Resize != nil,
	}
}

// execRequest is an ExecSpec without its streams.
type execRequest struct {
	Ref     backend.ContainerRef
	Command []string
	Live    bool
	Timeout time.Duration
	Streams streamFlags
}

type attachRequest struct {
	Ref     backend.ContainerRef
	Streams streamFlags
}
