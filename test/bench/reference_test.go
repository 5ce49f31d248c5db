package bench

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// referenceEnv makes this test binary the process that the memory of a node is
// compared with: the pod informer of a burstlet node and nothing else. It holds
// the node's name and the path of a kubeconfig, with a space between.
const referenceEnv = "BURSTLET_BENCH_REFERENCE"

// newReference starts that process for a node.
func newReference(b *testing.B, c *cluster, node string) *process {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return startProcess(
		b, "reference", self, []string{referenceEnv + "=" + node + " " + cptest.NodeKubeconfig(b, c.ControlPlane, node)},
	)
}

func runReference() error {
	node, file, _ := strings.Cut(os.Getenv(referenceEnv), " ")
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	informer, err := provider.NewPodInformer(client, node)
	if err != nil {
		return err
	}
	// A handler, since an informer without one keeps less.
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
		return fmt.Errorf("handle pods: %w", err)
	}
	stop, terminated := make(chan struct{}), make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		close(stop)
	}()
	informer.Run(stop)
	return nil
}
