package ecslife

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// An end is in the status with its termination message, and whether the container runs
// again is decided by all that its supervisor says of it.
func TestAnEndComesWithItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := usual
		slow.Ingest, slow.Deprovision = 2*time.Second, 15*time.Second
		c := newCluster(t, stub.Config{LogGroups: []string{"/pods"}, Delays: slow})
		c.change = func(cfg *ecs.Config) {
			whole(cfg)
			cfg.LogGroup = "/pods"
		}
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Second)
		c.create("p", corev1.RestartPolicyOnFailure, nil,
			"sh", "-c", "sleep 20; echo '\x1eburstlet {\"exit\":3,\"message\":\"bye\"}'; exit 3")
		ends := 0
		for range 6000 {
			time.Sleep(100 * time.Millisecond)
			pod := c.get("p")
			if len(pod.Status.ContainerStatuses) == 0 {
				continue
			}
			for _, state := range []corev1.ContainerState{
				pod.Status.ContainerStatuses[0].State, pod.Status.ContainerStatuses[0].LastTerminationState,
			} {
				if end := state.Terminated; end != nil {
					ends++
					if end.Message != "bye" || end.ExitCode != 3 {
						t.Fatalf("%+v", end)
					}
				}
			}
		}
		restarts := c.get("p").Status.ContainerStatuses[0].RestartCount
		if ends == 0 || restarts < 2 {
			t.Errorf("%d ends seen, %d restarts", ends, restarts)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		starts := 0
		for _, e := range c.events {
			if strings.HasPrefix(e, "p Normal Started ") {
				starts++
			}
		}
		if starts != int(restarts) && starts != int(restarts)+1 {
			t.Errorf("%d restarts, %d Events of starts", restarts, starts)
		}
	})
}
