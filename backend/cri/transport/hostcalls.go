package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// madeOnHost are the calls that change what runs on the host. The host makes them
// ([host.Host]'s Call), so that they are finished there when the link is cut or burstlet
// ends: containerd cancels a call with its caller, after the container may have begun.
var madeOnHost = map[string]bool{
	runtimeapi.RuntimeService_RunPodSandbox_FullMethodName:            true,
	runtimeapi.RuntimeService_CreateContainer_FullMethodName:          true,
	runtimeapi.RuntimeService_StartContainer_FullMethodName:           true,
	runtimeapi.RuntimeService_UpdateContainerResources_FullMethodName: true,
	runtimeapi.RuntimeService_CheckpointContainer_FullMethodName:      true,
	runtimeapi.RuntimeService_StopContainer_FullMethodName:            true,
	runtimeapi.RuntimeService_StopPodSandbox_FullMethodName:           true,
	runtimeapi.RuntimeService_RemovePodSandbox_FullMethodName:         true,
	runtimeapi.RuntimeService_RemoveContainer_FullMethodName:          true,
	runtimeapi.ImageService_PullImage_FullMethodName:                  true,
}

// OnHost is true of a call that the host makes.
func OnHost(method string) bool { return madeOnHost[method] }

// HostCaller has the host make calls of its runtime.
type HostCaller struct {
	Host interface {
		Call(ctx context.Context, c host.Call) ([]byte, error)
	}
	Socket string
	// PodOf is the pod of a container, if it is known.
	PodOf func(container string) (types.UID, bool)
}

// owner is the pod whose calls a call follows, also those that an earlier process of
// burstlet left under way: it would take what they have half done for a failed start.
// Calls that stop and remove follow none: they do not build on what is there.
func (h HostCaller) owner(request any) string {
	switch r := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return r.GetConfig().GetMetadata().GetUid()
	case *runtimeapi.CreateContainerRequest:
		return r.GetSandboxConfig().GetMetadata().GetUid()
	case *runtimeapi.StartContainerRequest:
		uid, _ := h.PodOf(r.GetContainerId())
		return string(uid)
	case *runtimeapi.UpdateContainerResourcesRequest:
		uid, _ := h.PodOf(r.GetContainerId())
		return string(uid)
	default:
		return ""
	}
}

// invoke makes a call of madeOnHost, or one whose reply is cut there, which ends with
// ctx. Its errors are as gRPC's: what the runtime answered, or Unavailable where that is
// not known.
func (h HostCaller) invoke(ctx context.Context, method string, args, reply any, cut int64) error {
	request, ok := args.(proto.Message)
	into, okReply := reply.(proto.Message)
	if !ok || !okReply {
		return status.Errorf(codes.Internal, "call %s: %T and %T are not messages", method, args, reply)
	}
	encoded, err := proto.Marshal(request)
	if err != nil {
		return status.Errorf(codes.Internal, "call %s: encode the request: %v", method, err)
	}
	call := host.Call{
		Socket: h.Socket, Method: method, Request: encoded, Owner: h.owner(args), Bound: cut > 0, MaxField: cut,
	}
	if deadline, ok := ctx.Deadline(); ok && !call.Bound {
		call.Timeout = time.Until(deadline)
		if call.Timeout <= 0 {
			return status.FromContextError(context.DeadlineExceeded).Err()
		}
	}
	out, err := h.Host.Call(ctx, call)
	if err != nil {
		return callFailed(ctx, err)
	}
	if err := proto.Unmarshal(out, into); err != nil {
		return status.Errorf(codes.Internal, "call %s: decode the reply: %v", method, err)
	}
	return nil
}

// callFailed is the error of a call that the host was asked to make.
func callFailed(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*CallError](err); ok {
		return refused
	}
	if errors.Is(err, backend.ErrSuperseded) {
		return Refusal(err)
	}
	if answer, ok := errors.AsType[*host.CallError](err); ok {
		return &CallError{code: codes.Code(answer.Code), msg: answer.Message, err: err}
	}
	if ctx.Err() != nil && !errors.Is(err, backend.ErrUnavailable) {
		return status.FromContextError(ctx.Err()).Err()
	}
	if advice := dialAdvice(err); advice != "" {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	return &CallError{code: codes.Unavailable, msg: err.Error(), err: err}
}
