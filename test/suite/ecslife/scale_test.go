package ecslife

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// runsPerSecond and runsAtOnce are RunTask's documented rate and burst.
const runsPerSecond, runsAtOnce = 20, 20

// Scaled to 0 amid a rollout, a deployment starts no further tasks: who waits for
// its turn leaves, and whoever comes after does not wait for those who left.
func TestScalingToZeroAmidARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, after = 300, 5 * time.Second
		c := newCluster(t, stub.Config{Delays: usual})
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Second)
		for i := range pods {
			c.create(fmt.Sprint("p", i), corev1.RestartPolicyAlways, nil, "sleep", "100000")
		}
		time.Sleep(after)
		c.deleteAll()
		time.Sleep(time.Second)
		begun := len(c.server.TaskInfos())
		if most := runsAtOnce + runsPerSecond*int(after/time.Second) + runsPerSecond; begun < pods/10 || begun > most {
			t.Fatalf("%d tasks after %s", begun, after)
		}
		created := time.Now()
		c.create("next", corev1.RestartPolicyAlways, nil, "sleep", "100000")
		for c.get("next").Status.Phase != corev1.PodRunning && time.Since(created) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(created); took > usual.Provision+usual.Pull+5*time.Second {
			t.Errorf("the next pod waited for %s", took)
		}
		time.Sleep(2 * time.Minute)
		if n := len(c.server.TaskInfos()); n != begun+1 {
			t.Errorf("%d tasks were started after all had been deleted", n-begun-1)
		}
		if left := len(c.ListKeys()); left != 1 {
			t.Errorf("%d pods are left", left-1)
		}
		c.delete("next")
		time.Sleep(time.Minute)
	})
}

// A thousand pods of a Deployment, each with a token of its own, run as soon as AWS's rates
// let them: RunTask's 20 a second, a tenth, and what one task takes. It is the bar of
// BenchmarkECSThousandPods, which a busy machine cannot be measured by.
func TestAThousandPodsStartAtAWSsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := lane.Pick(600, 600, 1000)
		delays := stub.Delays{
			Provision: 20 * time.Second, Pull: 5 * time.Second, Visible: 2 * time.Second, Deprovision: 3 * time.Second,
		}
		c := newCluster(t, stub.Config{
			Throttles: true, Delays: delays, Kindness: stub.Kindness{Interfaces: true},
			Pulls: map[string]time.Duration{"burstlet-task:1": time.Second}, // 6 MB
		})
		c.change = whole
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Minute) // tokens fill up
		created := time.Now()
		for i := range pods {
			c.create(fmt.Sprint("p", i), corev1.RestartPolicyAlways, tokened, "sleep", "100000")
		}
		running := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			n := 0
			for _, pod := range c.pods {
				if pod.Status.Phase == corev1.PodRunning {
					n++
				}
			}
			return n
		}
		const limit = 10 * time.Minute
		for running() < pods && time.Since(created) < limit {
			time.Sleep(100 * time.Millisecond)
		}
		starts := time.Duration(pods-runsAtOnce) * time.Second / runsPerSecond
		took, bar := time.Since(created), starts*11/10+delays.Provision+delays.Pull
		t.Logf(
			"%d pods ran after %s, the bar is %s: %v, of them throttled %v", pods, took, bar, c.server.Calls(),
			c.server.Throttled(),
		)
		if took > bar {
			t.Errorf("%d pods ran after %s, want at most %s", pods, took, bar)
		}
		if n := c.server.Calls()["RegisterTaskDefinition"]; n != 1 {
			t.Errorf("%d definitions were registered", n)
		}
	})
}

// tokened gives a pod a token of its own.
func tokened(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Path: "token", ExpirationSeconds: new(int64(tokenLife)),
			}}},
		}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/token"}}
}

func logged(cfg *ecs.Config) {
	whole(cfg)
	cfg.LogGroup = "/burstlet"
}

// A container that failed is seen with the end of its log, as the last state of one
// that is restarted too; later with it where its task was gone before the log came.
func TestTheEndOfALogIsSeen(t *testing.T) {
	for _, tt := range []struct {
		policy      corev1.RestartPolicy
		deprovision time.Duration
		sees        sight
		first       string
	}{
		{corev1.RestartPolicyNever, 20 * time.Second, sight{phase: corev1.PodFailed, ended: "Error", exit: 3}, "boom\n"},
		{
			corev1.RestartPolicyAlways, 20 * time.Second,
			sight{phase: corev1.PodRunning, ended: "Error", exit: 3, restarts: 1},
			"boom\n",
		},
		{corev1.RestartPolicyNever, time.Second, sight{phase: corev1.PodFailed, ended: "Error", exit: 3}, ""},
	} {
		policy, sees := tt.policy, tt.sees
		t.Run(string(policy)+" "+tt.deprovision.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				delays := usual
				delays.Ingest, delays.Deprovision = 3*time.Second, tt.deprovision
				c := newCluster(t, stub.Config{Delays: delays, LogGroups: []string{"/burstlet"}})
				c.change = logged
				p := c.start(&link{})
				defer func() { p.end() }()
				time.Sleep(time.Second)
				c.create("p", policy, func(pod *corev1.Pod) {
					pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
				}, "sh", "-c", "sleep 20; echo boom; exit 3")
				c.awaitSight(sees, time.Minute)
				message := func() string {
					st := statusOf(c, "a")
					if st.State.Terminated != nil {
						return st.State.Terminated.Message
					}
					return st.LastTerminationState.Terminated.Message
				}
				if got := message(); got != tt.first {
					t.Errorf("at first %q, want %q", got, tt.first)
				}
				time.Sleep(10 * time.Second)
				if got := message(); got != "boom\n" {
					t.Errorf("%q", got)
				}
				c.delete("p")
				c.pass(2 * time.Minute)
			})
		})
	}
}
