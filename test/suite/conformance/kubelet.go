package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/parts/kubelet"
)

// anyAddress has the control plane listen on all addresses of the machine.
const anyAddress = "0.0.0.0"

// startKubelet makes the node a real kubelet's, on the host itself. It ends with the cluster.
func (c *Cluster) startKubelet(ctx context.Context) error {
	host, is := c.remote.(*sshHost)
	if !is {
		return errors.New("a kubelet needs a host")
	}
	credential, err := c.plane.NodeCredential(nodeName)
	if err != nil {
		return fmt.Errorf("make the node's credential: %w", err)
	}
	log, err := os.Create(filepath.Join(c.cfg.Dir, "kubelet.log"))
	if err != nil {
		return fmt.Errorf("make the kubelet's log: %w", err)
	}
	c.node = newNode(launch.Config{})
	c.kubelet, err = kubelet.Start(ctx, host.Host, kubelet.Config{
		Binary: c.cfg.Kubelet, Node: nodeName, Credential: credential, ClientCAFile: c.plane.CAFile(), Verbosity: 2, Log: log,
	})
	if err != nil {
		return errors.Join(err, log.Close())
	}
	c.node.watching.Go(func() {
		<-c.kubelet.Done()
		err := errors.Join(fmt.Errorf("the kubelet ended: %w; see kubelet.log", c.kubelet.Err()), log.Close())
		select {
		case c.node.failed <- err:
		default: // one is enough
		}
	})
	return nil
}
