package check

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/burstlet/burstlet/backend/httpget"
)

// grpcBuffer is the size, in bytes, of a connection's buffers: one small call.
const grpcBuffer = 4 << 10

// probeGRPC asks a service for its health (grpc.health.v1) without TLS.
func (c *Checker) probeGRPC(
	ctx context.Context, t Target, action *corev1.GRPCAction, timeout time.Duration,
) (Verdict, string, error) {
	port, err := t.port(intstr.FromInt32(action.Port))
	if err != nil {
		return Unknown, "", err
	}
	address, err := t.address("", port)
	if err != nil {
		return Unknown, "", err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The first error that no later attempt within this probe can mend.
	var lost atomic.Pointer[error]
	// Whether the pod has answered, if only with a refusal.
	var answered atomic.Bool
	conn, err := grpcClient(address, func(context.Context, string) (net.Conn, error) {
		conn, err := c.connect(limited, t.Ref.Pod, address)
		if err != nil && Unasked(err) && lost.CompareAndSwap(nil, &err) {
			cancel()
		}
		if err != nil && limited.Err() == nil {
			answered.Store(true)
		}
		return conn, err
	})
	if err != nil {
		return Unknown, "", fmt.Errorf("grpc client for %s: %w", address, err)
	}
	defer closeClient(ctx, conn)
	verdict, output := checkHealth(limited, conn, address, action, timeout)
	if err := lost.Load(); err != nil && verdict != Success {
		return Unknown, "", *err
	}
	if ctx.Err() != nil {
		return Unknown, "", ctx.Err()
	}
	if verdict == Failure && limited.Err() != nil && !answered.Load() {
		verdict = Silence
	}
	return verdict, clip(output), nil
}

func grpcClient(address string, dial func(context.Context, string) (net.Conn, error)) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent(httpget.ForProbe.UserAgent()),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithReadBufferSize(grpcBuffer),
		grpc.WithWriteBufferSize(grpcBuffer),
	)
}

func checkHealth(
	ctx context.Context, conn *grpc.ClientConn, address string, action *corev1.GRPCAction, timeout time.Duration,
) (Verdict, string) {
	if err := connected(ctx, conn); err != nil {
		return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, err)
	}
	request := &healthv1.HealthCheckRequest{}
	if action.Service != nil {
		request.Service = *action.Service
	}
	response, err := healthv1.NewHealthClient(conn).Check(ctx, request)
	switch code := status.Code(err); {
	case err == nil && response.GetStatus() == healthv1.HealthCheckResponse_SERVING:
		return Success, "service healthy"
	case err == nil:
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", response.GetStatus())
	case code == codes.Unimplemented:
		return Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " +
			status.Convert(err).Message()
	case code == codes.DeadlineExceeded:
		// The server has the same deadline: which of the two says so first is chance.
		return Silence, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	default:
		return Failure, fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
}

// connected waits for a connection as long as ctx lasts: a server that refuses
// now may listen a moment later, as for a kubelet.
func connected(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
	return nil
}

func closeClient(ctx context.Context, conn *grpc.ClientConn) {
	if err := conn.Close(); err != nil {
		log.G(ctx).WithError(err).Debug("closing the grpc connection of a probe")
	}
}
