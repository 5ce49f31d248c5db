package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/simrpc"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// simProcess is a "burstlet sim" that can be killed and started again.
type simProcess struct {
	*launch.Sim
	t *testing.T
}

// newSimProcess starts a simulated remote; args are further flags.
func newSimProcess(t *testing.T, args ...string) *simProcess {
	t.Helper()
	return &simProcess{launch.NewSim(t, args...), t}
}

// section is the backend section of a node's configuration.
func (p *simProcess) section() string {
	return "  type: sim\n  sim: {socket: unix://" + p.Socket + "}\n"
}

// as looks at the remote as a node does: each sees its own pods alone.
func (p *simProcess) as(c *cluster, node string) *simView {
	p.t.Helper()
	svc, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Get(p.t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b, err := simrpc.Connect(ctx, simrpc.Config{
		Socket: p.Socket, Node: string(svc.UID) + "/" + node, Version: "e2e",
		Check: backend.CheckFunc(func(*corev1.Pod) []backend.Refusal { return nil }),
	})
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.RunFreely(ctx); err != nil {
			p.t.Errorf("connection to the sim: %v", err)
		}
	})
	p.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return &simView{b}
}

// simView is what a node has on a simulated remote, seen past burstlet.
type simView struct{ backend.Backend }

// listTimeout bounds a listing of a server that does not answer.
const listTimeout = 30 * time.Second

// pods are all attempts of the node's pods. It waits while there is no
// connection.
func (v *simView) pods(t *testing.T) []backend.PodFacts {
	t.Helper()
	var facts []backend.PodFacts
	wait.For(t, patience, "list the sim's pods", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
		defer cancel()
		facts, err = v.Pods.List(ctx)
		return err
	})
	return facts
}

// volumes are all volumes of the node's pods, but for those that came with a
// launch and go with it.
func (v *simView) volumes(t *testing.T) []backend.VolumeFacts {
	t.Helper()
	if v.Files == nil {
		return nil
	}
	var facts []backend.VolumeFacts
	wait.For(t, patience, "list the sim's volumes", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
		defer cancel()
		facts, err = v.Files.Volumes(ctx)
		return err
	})
	return facts
}

// left names what there is of one pod, or of all with "".
func (v *simView) left(t *testing.T, uid types.UID) []string {
	t.Helper()
	var names []string
	for _, pod := range v.pods(t) {
		if uid == "" || pod.UID == uid {
			names = append(names, fmt.Sprintf("attempt %d of %s", pod.Attempt, pod.UID))
		}
	}
	for _, volume := range v.volumes(t) {
		if uid == "" || volume.Pod.UID == uid {
			names = append(names, fmt.Sprintf("volume %s of %s", volume.Name, volume.Pod.UID))
		}
	}
	return names
}

// count counts live attempts and running containers by pod.
func (v *simView) count(t *testing.T) (attempts, running map[types.UID]int) {
	t.Helper()
	attempts, running = map[types.UID]int{}, map[types.UID]int{}
	for _, pod := range v.pods(t) {
		attempts[pod.UID]++
		for _, c := range pod.Containers {
			if c.State() == backend.Running {
				running[pod.UID]++
			}
		}
	}
	return attempts, running
}
