package transport

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// onlyReads are the runtime's calls that change nothing; a forwarded port does not either.
// Every other is asked for.
var onlyReads = map[string]bool{
	runtimeapi.RuntimeService_Version_FullMethodName:             true,
	runtimeapi.RuntimeService_Status_FullMethodName:              true,
	runtimeapi.RuntimeService_RuntimeConfig_FullMethodName:       true,
	runtimeapi.RuntimeService_ListPodSandbox_FullMethodName:      true,
	runtimeapi.RuntimeService_PodSandboxStatus_FullMethodName:    true,
	runtimeapi.RuntimeService_ListContainers_FullMethodName:      true,
	runtimeapi.RuntimeService_ContainerStatus_FullMethodName:     true,
	runtimeapi.RuntimeService_ContainerStats_FullMethodName:      true,
	runtimeapi.RuntimeService_ListContainerStats_FullMethodName:  true,
	runtimeapi.RuntimeService_PodSandboxStats_FullMethodName:     true,
	runtimeapi.RuntimeService_ListPodSandboxStats_FullMethodName: true,
	runtimeapi.RuntimeService_PortForward_FullMethodName:         true,
	runtimeapi.RuntimeService_GetContainerEvents_FullMethodName:  true,
	runtimeapi.ImageService_ListImages_FullMethodName:            true,
	runtimeapi.ImageService_ImageStatus_FullMethodName:           true,
	runtimeapi.ImageService_ImageFsInfo_FullMethodName:           true,
}

// Refusal is the error of a call that was not sent. It has no code of a call whose reply
// was lost.
func Refusal(err error) error { return &CallError{code: codes.Aborted, msg: err.Error(), err: err} }

// leaving asks may when gRPC sends a call, which is when its connection is there.
type leaving struct {
	grpc.EmptyCallOption
	may     backend.Permit
	method  string
	refused error
}

// GetRequestMetadata implements credentials.PerRPCCredentials, which gRPC asks for as it
// writes the head of a request.
func (l *leaving) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	l.refused = l.may.Ask(l.method)
	return nil, l.refused
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: the runtime's socket
// has none.
func (l *leaving) RequireTransportSecurity() bool { return false }

// Reads is true of a call that changes nothing.
func Reads(method string) bool { return onlyReads[method] }
