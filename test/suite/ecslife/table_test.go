package ecslife

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

var usual = stub.Delays{Provision: 8 * time.Second, Pull: 4 * time.Second, Deprovision: 3 * time.Second}

// trouble is one row of the table in docs/operations.md: what happens, and what a
// user sees of it.
type trouble struct {
	name   string
	server stub.Config
	config func(*ecs.Config)
	pod    func(*corev1.Pod)
	policy corev1.RestartPolicy
	argv   []string
	// before is done before the pod is created, strike once it has run for 30 s.
	before, strike func(c *cluster)
	// seen is looked for within wait after the pod was made or struck.
	wait time.Duration
	seen sight
	// then lets what must follow follow.
	then func(c *cluster)
}

// sight is what a user sees of a pod. Empty parts are not looked at.
type sight struct {
	phase  corev1.PodPhase
	reason string
	// waiting and ended are reasons of the container's state, now or the last.
	waiting, ended string
	exit           int32
	restarts       int32
	// disrupted wants the condition DisruptionTarget.
	disrupted bool
	// event is the kind and reason of an Event, text a part of it.
	event, text string
}

// lacks says what of it is not seen; empty if all is.
func (s sight) lacks(c *cluster) string {
	pod := c.get("p")
	disrupted := false
	for _, cond := range pod.Status.Conditions {
		disrupted = disrupted || cond.Type == corev1.DisruptionTarget && cond.Status == corev1.ConditionTrue
	}
	switch {
	case pod.Status.Phase != s.phase:
		return fmt.Sprintf("phase %s, want %s", pod.Status.Phase, s.phase)
	case s.reason != "" && pod.Status.Reason != s.reason:
		return fmt.Sprintf("reason %q, want %q", pod.Status.Reason, s.reason)
	case disrupted != s.disrupted:
		return fmt.Sprintf("DisruptionTarget %v, want %v", disrupted, s.disrupted)
	case s.event != "" && c.event("p", s.event) == "":
		return fmt.Sprintf("no Event %s", s.event)
	case s.text != "" && !strings.Contains(c.event("p", s.event), s.text):
		return fmt.Sprintf("the Event says %q, want %q in it", c.event("p", s.event), s.text)
	}
	return s.lacksOf(pod.Status.ContainerStatuses)
}

func (s sight) lacksOf(statuses []corev1.ContainerStatus) string {
	var st corev1.ContainerStatus
	if len(statuses) > 0 {
		st = statuses[0]
	}
	ended := st.State.Terminated
	if ended == nil {
		ended = st.LastTerminationState.Terminated
	}
	switch {
	case s.waiting != "" && (st.State.Waiting == nil || st.State.Waiting.Reason != s.waiting):
		return fmt.Sprintf("state %+v, want Waiting, %s", st.State, s.waiting)
	case s.ended != "" && (ended == nil || ended.Reason != s.ended || ended.ExitCode != s.exit):
		return fmt.Sprintf("ended %+v, want %s with %d", ended, s.ended, s.exit)
	case st.RestartCount < s.restarts:
		return fmt.Sprintf("%d restarts, want %d", st.RestartCount, s.restarts)
	}
	return ""
}

// awaitSight fails the test unless it is seen within d.
func (c *cluster) awaitSight(s sight, d time.Duration) {
	c.t.Helper()
	why := ""
	for range int(d / time.Second) {
		if why = s.lacks(c); why == "" {
			return
		}
		time.Sleep(time.Second)
		c.noTwins()
	}
	c.t.Fatalf("not within %s: %s\n%+v\n%s", d, why, c.get("p").Status, strings.Join(c.events, "\n"))
}

func runsAgain(c *cluster) {
	c.awaitSight(sight{phase: corev1.PodRunning}, 3*time.Minute)
	for range 20 {
		time.Sleep(time.Second)
		if st := c.get("p").Status.ContainerStatuses[0]; st.State.Running != nil {
			return
		}
	}
	c.t.Errorf("it does not run: %+v", c.get("p").Status.ContainerStatuses)
}

// staysFailed: a controller replaces the pod; it is not run again.
func staysFailed(c *cluster) {
	time.Sleep(5 * time.Minute)
	if pod := c.get("p"); pod.Status.Phase != corev1.PodFailed || len(c.live()) != 0 {
		c.t.Errorf("%s, live tasks %v", pod.Status.Phase, c.live())
	}
}

// ranOnce: a task that never ran is no failure of the pod's containers.
func ranOnce(c *cluster) {
	time.Sleep(time.Minute)
	if st := c.get("p").Status; st.Phase != corev1.PodRunning || st.ContainerStatuses[0].RestartCount != 0 ||
		len(c.server.Tasks(false)) != 2 {
		c.t.Errorf("%+v, tasks %v", st, c.server.Tasks(false))
	}
}

func theTask(c *cluster) string { return c.server.Tasks(true)[0] }

func missingImage(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.example/missing:1" }

func privateImage(c *cluster) {
	c.server.Deny(stub.Denial{Principal: stub.ExecutionRole, Action: "secretsmanager:GetSecretValue", Resource: "*"})
}

func whole(cfg *ecs.Config) {
	cfg.TaskImage, cfg.Images = "burstlet-task:1", rootsImages{}
	cfg.ExecutionRoleARN = "arn:aws:iam::123456789012:role/execution"
	cfg.TaskRoleARN = "arn:aws:iam::123456789012:role/task"
}

// rootsImages is a registry of images that say nothing of themselves.
type rootsImages struct{}

func (rootsImages) Config(context.Context, string, string, []backend.Credential) (taskdef.ImageConfig, error) {
	return taskdef.ImageConfig{}, nil
}

func spotFirst(cfg *ecs.Config) { cfg.CapacityTypes = []string{"spot", "on-demand"} }

var troubles = []trouble{
	{
		name: "Spot takes the task back", config: spotFirst, strike: func(c *cluster) { c.server.InterruptSpot(theTask(c)) },
		wait: 3 * time.Minute, then: staysFailed,
		seen: sight{
			phase: corev1.PodFailed, reason: "Preempted", disrupted: true, event: "Warning Preempted", text: "Spot",
			ended: "Error", exit: 143,
		},
	},
	{
		name: "AWS retires the task", strike: func(c *cluster) { c.server.Retire(theTask(c)) },
		wait: 3 * time.Minute, then: staysFailed,
		seen: sight{
			phase: corev1.PodFailed, reason: "NodeShutdown", disrupted: true, event: "Warning NodeShutdown", text: "maintenance",
		},
	},
	{
		name: "the host under the task fails", strike: func(c *cluster) { c.server.FailHost(theTask(c)) },
		wait: 3 * time.Minute, then: staysFailed,
		seen: sight{
			phase: corev1.PodFailed, reason: "NodeShutdown", disrupted: true, event: "Warning NodeShutdown",
			ended: "ContainerStatusUnknown", exit: 137,
		},
	},
	{
		name: "out of memory", argv: []string{"sh", "-c", "sleep 5; oom"}, wait: 2 * time.Minute,
		seen: sight{
			phase: corev1.PodRunning, waiting: "CrashLoopBackOff", ended: "OOMKilled", exit: 137, restarts: 1,
			event: "Warning BackOff",
		},
	},
	{
		name: "out of memory, never restarted", policy: corev1.RestartPolicyNever, argv: []string{"sh", "-c", "sleep 5; oom"},
		wait: time.Minute, then: staysFailed,
		seen: sight{phase: corev1.PodFailed, ended: "OOMKilled", exit: 137},
	},
	{
		name: "an image that is not there", pod: missingImage, wait: time.Minute,
		seen: sight{
			phase: corev1.PodPending, waiting: "ErrImagePull", event: "Warning Failed",
			text: "Failed to pull image \"registry.example/missing:1\": ",
		},
		then: func(c *cluster) {
			c.awaitSight(sight{phase: corev1.PodPending, waiting: "ImagePullBackOff"}, time.Minute)
		},
	},
	{
		name: "a secret that the task may not read", config: whole, pod: withSecretEnv, before: privateImage,
		wait: time.Minute,
		seen: sight{phase: corev1.PodPending, waiting: "CreateContainerConfigError"},
		then: func(c *cluster) {
			if w := c.get("p").Status.ContainerStatuses[0].State.Waiting; !strings.Contains(
				w.Message, "task-execution-role-policy.json",
			) {
				c.t.Errorf("the message names no policy: %s", w.Message)
			}
			c.server.AllowAll()
			runsAgain(c)
		},
	},
	{
		name: "a Secret that is not there", pod: func(pod *corev1.Pod) {
			withSecretEnv(pod)
			pod.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Name = "none"
		},
		config: whole, wait: time.Minute,
		seen: sight{
			phase: corev1.PodPending, waiting: "CreateContainerConfigError", event: "Warning Failed",
			text: `secret "none" not found`,
		},
	},
	{
		name: "no Spot capacity: on demand", config: spotFirst,
		before: func(c *cluster) { c.server.Shortage("", "FARGATE_SPOT", true) }, wait: time.Minute,
		seen: sight{
			phase: corev1.PodPending, waiting: "InsufficientCapacity", event: "Warning InsufficientCapacity",
			text: "Capacity is unavailable",
		},
		then: func(c *cluster) {
			runsAgain(c)
			if p := c.server.TaskInfos()[0].Provider; p == "FARGATE_SPOT" {
				c.t.Errorf("it runs on %s", p)
			}
		},
	},
	{
		name: "no capacity in one zone: the other", before: func(c *cluster) { c.server.Shortage("subnet-a", "", true) },
		wait: 2 * time.Minute,
		seen: sight{phase: corev1.PodRunning},
		then: func(c *cluster) {
			runsAgain(c)
			if s := c.server.TaskInfos()[0].Subnet; s != "subnet-b" {
				c.t.Errorf("it runs in %s", s)
			}
		},
	},
	{
		name: "no capacity anywhere, then there is", before: func(c *cluster) { c.server.Shortage("", "", true) },
		wait: time.Minute,
		seen: sight{phase: corev1.PodPending, waiting: "InsufficientCapacity", event: "Warning InsufficientCapacity"},
		then: func(c *cluster) {
			time.Sleep(3 * time.Minute)
			c.server.Shortage("", "", false)
			time.Sleep(5 * time.Minute)
			runsAgain(c)
		},
	},
	{
		name: "the quota is reached", server: stub.Config{VCPU: 0.1}, wait: time.Minute,
		seen: sight{
			phase: corev1.PodPending, waiting: "InsufficientCapacity", event: "Warning InsufficientCapacity",
			text: "Service Quotas",
		},
		then: func(c *cluster) {
			c.server.SetQuota(4, 4)
			time.Sleep(5 * time.Minute)
			runsAgain(c)
		},
	},
	{
		name: "a permission is missing", wait: time.Minute,
		before: func(c *cluster) {
			c.server.Deny(stub.Denial{Principal: stub.Caller, Action: "ecs:RunTask", Resource: "*"})
		},
		seen: sight{
			phase: corev1.PodPending, event: "Warning FailedCreatePodSandBox", text: "deploy/aws/controller-policy.json",
		},
		then: func(c *cluster) {
			e := c.event("p", "Warning FailedCreatePodSandBox")
			if !strings.Contains(e, "ecs:RunTask on resource: arn:") {
				c.t.Errorf("action and resource are not named: %s", e)
			}
			c.server.AllowAll()
			runsAgain(c)
		},
	},
	{
		name:   "a subnet that is not there",
		server: stub.Config{Subnets: []stub.Subnet{{ID: "subnet-z", Zone: "us-east-1a", VPC: "vpc-1"}}}, wait: time.Minute,
		seen: sight{phase: corev1.PodPending, event: "Warning FailedCreatePodSandBox", text: "backend.ecs"},
	},
	{
		name: "its network interface does not come", server: stub.Config{NoInterface: 2}, policy: corev1.RestartPolicyNever,
		wait: 2 * time.Minute, then: ranOnce,
		seen: sight{
			phase: corev1.PodRunning, event: "Warning Failed", text: "Error: Timeout waiting for network interface provisioning",
		},
	},
	{
		name: "its network interface does not come, with burstlet's containers", server: stub.Config{NoInterface: 2},
		config: whole,
		policy: corev1.RestartPolicyNever, wait: 2 * time.Minute, then: ranOnce,
		seen: sight{
			phase: corev1.PodRunning, event: "Warning Failed", text: "Error: Timeout waiting for network interface provisioning",
		},
	},
	{
		name:   "somebody stops the task by hand",
		strike: func(c *cluster) { c.server.Interrupt(theTask(c), "UserInitiated", "Task stopped by user") },
		wait:   time.Minute, then: runsAgain,
		seen: sight{phase: corev1.PodRunning, ended: "Error", exit: 143, restarts: 1},
	},
}

func withSecretEnv(pod *corev1.Pod) {
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Key: "password",
		}}},
	}
}

// TestTrouble reads as the table of docs/operations.md.
func TestTrouble(t *testing.T) {
	for _, tt := range troubles {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.server.Delays = usual
				c := newCluster(t, tt.server)
				if tt.config != nil {
					c.change = tt.config
				}
				p := c.start(&link{})
				defer func() { p.end() }()
				time.Sleep(time.Second)
				if tt.before != nil {
					tt.before(c)
				}
				if tt.policy == "" {
					tt.policy = corev1.RestartPolicyAlways
				}
				if tt.argv == nil {
					tt.argv = []string{"nginx"} // which handles SIGTERM
				}
				c.create("p", tt.policy, tt.pod, tt.argv...)
				if tt.strike != nil {
					time.Sleep(30 * time.Second)
					c.awaitSight(sight{phase: corev1.PodRunning}, time.Second)
					tt.strike(c)
				}
				c.awaitSight(tt.seen, tt.wait)
				if tt.then != nil {
					tt.then(c)
				}
				c.delete("p")
				c.pass(2 * time.Minute)
				if c.get("p") != nil || len(c.live()) > 0 {
					t.Errorf("after its deletion: %v, live tasks %v", c.get("p"), c.live())
				}
			})
		})
	}
}
