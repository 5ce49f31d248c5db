package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

const (
	// Daemon is the name under which hosts run containerd.
	Daemon = "containerd"

	// pollInterval is how often readiness is looked at.
	pollInterval = 20 * time.Millisecond
	// maxMessage is containerd's own bound, in bytes.
	maxMessage = 16 << 20
)

// Client is a client of the containerd of one host.
type Client struct {
	// Runtime and Images are the two services of CRI.
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	conn *grpc.ClientConn
	host func() *namespaces.Namespaces
}

// Connect makes a client; nothing is dialled before the first call. host tells
// where containerd runs now, socket where its socket stands now.
func Connect(host func() *namespaces.Namespaces, socket func() string) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", socket())
		}),
		// Nobody else waits for this socket, so ask often.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: pollInterval, Multiplier: 1.5, MaxDelay: 10 * pollInterval},
		}))
	if err != nil {
		return nil, fmt.Errorf("make CRI client: %w", err)
	}
	return &Client{
		Runtime: runtimeapi.NewRuntimeServiceClient(conn),
		Images:  runtimeapi.NewImageServiceClient(conn),
		conn:    conn,
		host:    host,
	}, nil
}

// Close ends the client.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close CRI client: %w", err)
	}
	return nil
}

// poll calls check until it succeeds, containerd is gone or ctx ends.
func (c *Client) poll(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return wait.Until(ctx, what, func(ctx context.Context) error {
		err := check(ctx)
		if host := c.host(); err != nil && !host.Running(Daemon) {
			cancel(fmt.Errorf("containerd ended:\n%s", host.Log()))
		}
		return err
	})
}

// Start starts containerd and returns when it is ready to run pods.
func (c *Client) Start(ctx context.Context) error {
	if err := c.host().StartDaemon(ctx, Daemon); err != nil {
		return err
	}
	return c.poll(ctx, "CRI", func(ctx context.Context) error { return Ready(ctx, c.Runtime) })
}

// Ready is nil when containerd is ready to run pods.
func Ready(ctx context.Context, runtime runtimeapi.RuntimeServiceClient) error {
	if _, err := runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("get CRI version: %w", err)
	}
	reply, err := runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("get CRI status: %w", err)
	}
	ready := map[string]bool{}
	for _, condition := range reply.GetStatus().GetConditions() {
		ready[condition.GetType()] = condition.GetStatus()
	}
	if !ready[runtimeapi.RuntimeReady] || !ready[runtimeapi.NetworkReady] {
		return fmt.Errorf("not ready: %v", reply.GetStatus().GetConditions())
	}
	return nil
}

// ImportAll builds the images of package images and loads them, unpacked.
// archive is a file to write on the way.
func (c *Client) ImportAll(ctx context.Context, archive, socket, snapshotter string) error {
	all, err := images.All()
	if err != nil {
		return fmt.Errorf("build images: %w", err)
	}
	if err := images.WriteArchive(archive, all); err != nil {
		return err
	}
	if err := Import(ctx, archive, socket, snapshotter); err != nil {
		return err
	}
	for ref := range all {
		if err := c.awaitImage(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// Import loads an archive such as [images.WriteArchive] makes. CRI knows the
// images a moment later.
func Import(ctx context.Context, archive, socket, snapshotter string) error {
	ctr, err := namespaces.LookPath("ctr")
	if err != nil {
		return fmt.Errorf("find ctr: %w", err)
	}
	cmd := exec.CommandContext(ctx, ctr, "--address", socket, "--namespace", "k8s.io",
		"images", "import", "--snapshotter", snapshotter, archive)
	cmd.Env = namespaces.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import images: %w: %s", err, out)
	}
	return nil
}

// awaitImage waits until CRI has heard of an image that was imported beside it.
func (c *Client) awaitImage(ctx context.Context, ref string) error {
	return c.poll(ctx, "image "+ref, func(ctx context.Context) error { return HasImage(ctx, c.Images, ref) })
}

// HasImage is nil when CRI knows an image.
func HasImage(ctx context.Context, service runtimeapi.ImageServiceClient, ref string) error {
	reply, err := service.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return fmt.Errorf("get image status: %w", err)
	}
	if reply.GetImage() == nil {
		return errors.New("image is not known")
	}
	return nil
}
