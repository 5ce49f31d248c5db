package ecslife

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// probed gives a pod's container a readiness probe, whose findings its script says.
func probed(pod *corev1.Pod) {
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// stages are what happens to each of these pods, in order, and how it shows in the API.
var stages = []struct {
	name  string
	shows func(*corev1.Pod) bool
}{
	{"started", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Running != nil
	}},
	{"ready", isReady},
	{"not ready", func(pod *corev1.Pod) bool { return !isReady(pod) }},
}

// late is how long after some instants a part of the pods showed a stage, in percent.
func late(t *testing.T, seen, at map[string]time.Time, percent int) time.Duration {
	t.Helper()
	var all []time.Duration
	for name, when := range at {
		if seen[name].IsZero() {
			t.Fatalf("%s: never seen", name)
		}
		all = append(all, seen[name].Sub(when))
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// What happens to a container is in the API soon: its start, when it becomes ready, and when it
// is not any more. With an event queue that is within 2 s, of which EventBridge takes half a
// second for starts; without one it is when ECS shows it.
func TestReadinessIsInTheAPISoon(t *testing.T) {
	const pods, poll, event = 40, 100 * time.Millisecond, 500 * time.Millisecond
	for name, tt := range map[string]struct {
		queue bool
		p99   map[string]time.Duration
	}{
		"with a queue": {true, map[string]time.Duration{
			"started": 2 * time.Second, "ready": 2 * time.Second, "not ready": 2 * time.Second,
		}},
		"without": {false, map[string]time.Duration{
			"started": 3 * time.Second, "ready": 30 * time.Second, "not ready": 30 * time.Second,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				delays := stub.Delays{Provision: 20 * time.Second, Pull: 5 * time.Second, Event: event}
				c := newCluster(t, stub.Config{
					Delays: delays, LogGroups: []string{"/burstlet"}, Queues: []string{"q"},
					// so that it is known when containers start
					Kindness: stub.Kindness{PullsUpfront: true, Interfaces: true},
				})
				c.change = func(cfg *ecs.Config) {
					logged(cfg)
					if tt.queue {
						cfg.EventQueueURL = c.server.QueueURL("q")
					}
				}
				p := c.start(&link{})
				defer func() { p.end() }()
				time.Sleep(time.Second)
				after := map[string]time.Duration{}
				for i := range pods {
					name := fmt.Sprint("p", i)
					after[name] = 2*time.Minute + time.Duration(i)*910*time.Millisecond // when all have started
					c.create(name, corev1.RestartPolicyAlways, probed, "sh", "-c", fmt.Sprintf(
						"unhealthy %g; healthy 100; unhealthy; sleep 100000", after[name].Seconds()))
				}
				seen := make([]map[string]time.Time, len(stages))
				for i := range seen {
					seen[i] = map[string]time.Time{}
				}
				for end := time.Now().Add(6 * time.Minute); time.Now().Before(end); time.Sleep(poll) {
					for name := range after {
						pod := c.get(name)
						for i, stage := range stages {
							if _, was := seen[i][name]; was {
								continue
							}
							if !stage.shows(pod) {
								break
							}
							seen[i][name] = time.Now()
						}
					}
				}
				c.judgeDelays(seen, after, delays.Provision+delays.Pull, tt.p99)
				c.deleteAll()
				c.pass(2 * time.Minute)
			})
		})
	}
}

// judgeDelays compares when stages were seen with when they came, start after their tasks were
// made.
func (c *cluster) judgeDelays(
	seen []map[string]time.Time, after map[string]time.Duration, start time.Duration, p99 map[string]time.Duration,
) {
	c.t.Helper()
	came := []map[string]time.Time{{}, {}, {}}
	for _, task := range c.server.TaskInfos() {
		name := task.Tags["burstlet/uid"][len("uid-"):]
		came[0][name] = task.Created.Add(start)
		came[1][name] = came[0][name].Add(after[name])
		came[2][name] = came[1][name].Add(100 * time.Second)
	}
	if len(came[0]) != len(after) {
		c.t.Fatalf("%d tasks of %d pods", len(came[0]), len(after))
	}
	for i, stage := range stages {
		least, p50, most := late(c.t, seen[i], came[i], 0), late(c.t, seen[i], came[i], 50), late(c.t, seen[i], came[i], 99)
		c.t.Logf("%s: p50 %s, p99 %s", stage.name, p50, most)
		if most > p99[stage.name] || least < 0 {
			c.t.Errorf("%s: from %s to %s (p99) after it came, want at most %s", stage.name, least, most, p99[stage.name])
		}
	}
}
