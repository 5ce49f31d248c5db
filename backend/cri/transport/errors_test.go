package transport

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/burstlet/burstlet/backend"
)

func TestErrorClasses(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.NotFound: "NotFound", codes.AlreadyExists: "Exists", codes.InvalidArgument: "Invalid",
		codes.Unimplemented: "Unsupported", codes.Unavailable: "Unavailable", codes.DeadlineExceeded: "Unavailable",
		codes.Canceled: "Unavailable", codes.Unauthenticated: "Denied", codes.PermissionDenied: "Denied",
		codes.Unknown: "Transient", codes.Internal: "Transient", codes.ResourceExhausted: "Transient",
	} {
		cause := New("unix:///x", nil, HostCaller{}, nil).Explain(status.Error(code, "its words"))
		err := Failed(cause, "do %s", "this")
		if got := backend.Class(err); got != want {
			t.Errorf("%s: class %s, want %s", code, got, want)
		}
		if !errors.Is(err, cause) || strings.Contains(err.Error(), "rpc error") ||
			!strings.HasPrefix(err.Error(), "do this: ") {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestAdviceOnASocketThatOthersMayUse(t *testing.T) {
	got := dialAdvice(&net.OpError{Err: os.NewSyscallError("connect", os.ErrPermission)})
	if !strings.Contains(got, "socket's group") {
		t.Errorf("permission denied: %q", got)
	}
}
