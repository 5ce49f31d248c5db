package ecs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// plain are images that say nothing of themselves but a command.
type plain struct{}

// Config is of any image.
func (plain) Config(context.Context, string, string, []backend.Credential) (taskdef.ImageConfig, error) {
	return taskdef.ImageConfig{}, nil
}

// sessionConfig is a node with all that sessions need.
func sessionConfig(url string) Config {
	return Config{
		Config: ecsconfig.Config{
			Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-a"}, NodeIdentity: "cluster-uid/node.example",
			TaskImage: "burstlet-task:1", LogGroup: "/burstlet", SessionStats: true,
			ExecutionRoleARN: "arn:aws:iam::123456789012:role/execution", TaskRoleARN: "arn:aws:iam::123456789012:role/task",
			Endpoint: url,
		},
		Images: plain{}, May: backend.Always, AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret",
	}
}

// TestContractOfSessions runs what goes through sessions of ECS Exec in real time,
// over a way that loses nothing and one that does.
func TestContractOfSessions(t *testing.T) {
	const merged = "CloudWatch keeps both outputs of a container as one"
	const noInput = "nothing reaches the input of a container's main process"
	for name, sessions := range map[string]stub.SessionConfig{
		"a good way": {Fast: true},
		"a bad way":  {Fast: true, Faults: stub.FrameFaults{Drop: 97, Double: 13, Swap: 7}, Latency: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, backendtest.Factory{
				New: func(t *testing.T) func() backend.Backend {
					_, _, url := newWorld(t, stub.Config{LogGroups: []string{"/burstlet"}, Sessions: sessions})
					return func() backend.Backend {
						b, err := New(t.Context(), sessionConfig(url))
						must(t, err)
						return b
					}
				},
				Lends: []string{
					"Run", "Costs", "Calls", "Queues", "Sweep", "Refresh", "Logs", "Exec", "Attach", "Forward", "Dial", "Stats",
				},
				Refuses: []string{"attach/input stays open"},
				AtOnce:  8, Image: "busybox:1", MissingImage: "registry.example/missing:1",
				Only:       []string{"exec/", "attach/", "dial/", "forward/", "stats/"},
				Eventually: 3 * time.Minute, Poll: 100 * time.Millisecond, Slack: 2 * time.Second,
				Skip: map[string]string{
					"attach/output from now on until the end": merged, "attach/input": noInput, "attach/a terminal": noInput,
				},
			})
		})
	}
}

// sessionNode is a backend that runs, with a pod in a world.
type sessionNode struct {
	*testing.T
	backend.Backend
	server *stub.Server
	world  *world
	ref    backend.ContainerRef
}

func newSessionNode(t *testing.T, server stub.Config, edit func(*Config)) *sessionNode {
	t.Helper()
	server.LogGroups = []string{"/burstlet"}
	w, s, url := newWorld(t, server)
	cfg := sessionConfig(url)
	if edit != nil {
		edit(&cfg)
	}
	b, err := New(t.Context(), cfg)
	must(t, err)
	background.Run(t, b.RunFreely)
	n := &sessionNode{T: t, Backend: b, server: s, world: w}
	n.ref = n.launch("web")
	return n
}

// launch makes a pod and waits until it runs.
func (n *sessionNode) launch(name string, argv ...string) backend.ContainerRef {
	n.Helper()
	if len(argv) == 0 {
		argv = []string{"nc", "-ll", "-p", "7000", "-e", "cat"}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1", Command: argv}}},
	}
	spec := backend.LaunchSpec{
		Pod: pod, Containers: []backend.ContainerSpec{{Pod: pod, Container: pod.Spec.Containers[0], Hash: "h"}},
	}
	must(n.T, n.Pods.Launch(n.Context(), n.Context(), spec))
	deadline := time.Now().Add(3 * time.Minute)
	for {
		facts, err := n.Pods.List(n.Context())
		must(n.T, err)
		for _, f := range facts {
			if f.UID == pod.UID && f.Containers[0].State() == backend.Running {
				return backend.ContainerRef{Pod: spec.Ref(), Name: "app"}
			}
		}
		if time.Now().After(deadline) {
			n.Fatalf("it does not run: %+v", facts)
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
}

func TestTenMegabytesPassBothWaysUnchanged(t *testing.T) {
	n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, nil)
	size := 10 << 20
	if lane.Thinned() {
		size = 1 << 20
	}
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * i >> 3) // all of the bytes, not UTF-8
	}
	begun := time.Now()
	var first bytes.Buffer
	_, err := n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}, Stdout: &first})
	must(t, err)
	t.Logf("first command: %v", time.Since(begun))
	begun = time.Now()
	const commands = 20
	for range commands {
		_, err := n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}})
		must(t, err)
	}
	t.Logf("each later: %v", time.Since(begun)/commands)
	var out bytes.Buffer
	begun = time.Now()
	code, err := n.Exec.Exec(
		t.Context(), n.ref, backend.ExecSpec{Command: []string{"cat"}, Stdin: bytes.NewReader(sent), Stdout: &out},
	)
	if err != nil || code != 0 || !bytes.Equal(out.Bytes(), sent) {
		t.Errorf("%d bytes came back, %d, %v", out.Len(), code, err)
	}
	t.Logf("exec: %.2f MB/s each way", float64(size)/1e6/time.Since(begun).Seconds())

	conn, err := n.Forward.Forward(t.Context(), n.ref.Pod, 7000)
	must(t, err)
	begun = time.Now()
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		wrote <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err = errors.Join(err, <-wrote, conn.Close()); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back: %v", len(got), err)
	}
	t.Logf("port: %.2f MB/s each way", float64(size)/1e6/time.Since(begun).Seconds())
	if open, opened := n.server.Sessions(); open != 1 || opened != 1 {
		t.Errorf("%d sessions are open, %d were opened, want one for all", open, opened)
	}
}

func TestTheAgentsOwnPaceIsKept(t *testing.T) {
	n := newSessionNode(t, stub.Config{}, nil)
	begun := time.Now()
	var out bytes.Buffer
	code, err := n.Exec.Exec(
		t.Context(), n.ref, backend.ExecSpec{Command: []string{"head", "-c", "500000", "/dev/zero"}, Stdout: &out},
	)
	if err != nil || code != 0 || out.Len() != 500000 {
		t.Errorf("%d bytes came, %d, %v", out.Len(), code, err)
	}
	t.Logf("the first command and 500 kB: %v", time.Since(begun))
}

func TestWhatATaskLacksForSessionsIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*Config)
		want string
	}{
		"no image of ours": {func(c *Config) { c.TaskImage, c.SessionStats = "", false }, "backend.ecs.taskImage"},
		"no role":          {func(c *Config) { c.TaskRoleARN = "" }, "backend.ecs.taskRoleARN"},
		"turned off":       {func(c *Config) { c.NoExec, c.SessionStats = true, false }, "backend.ecs.exec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, tt.edit)
			_, err := n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}})
			if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%s: %v", backend.Class(err), err)
			}
		})
	}
	t.Run("a role that may not", func(t *testing.T) {
		t.Parallel()
		n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, nil)
		n.server.Deny(stub.Denial{Principal: stub.TaskRole, Action: "ssmmessages:*"})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := n.Exec.Exec(ctx, n.ref, backend.ExecSpec{Command: []string{"true"}}); !errors.Is(
			err, context.DeadlineExceeded,
		) {
			t.Errorf("%s: %v", backend.Class(err), err)
		}
	})
	t.Run("a caller who may not", func(t *testing.T) {
		t.Parallel()
		n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, nil)
		n.server.Deny(stub.Denial{Action: "ecs:ExecuteCommand"})
		if _, err := n.Exec.Exec(
			t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}},
		); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("%s: %v", backend.Class(err), err)
		}
	})
}

// Where the agent of ECS Exec has died in burstlet-agent, a session is in the container that
// is meant, or in one that shares its network.
func TestSessionsOutliveTheAgentOfECSExec(t *testing.T) {
	n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}}, nil)
	exec := func() string {
		t.Helper()
		var out bytes.Buffer
		code, err := n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"echo", "here"}, Stdout: &out})
		if err != nil || code != 0 {
			t.Errorf("%d, %v", code, err)
		}
		return out.String()
	}
	if got := exec(); got != "here\n" {
		t.Errorf("%q", got)
	}
	arn := n.server.Tasks(true)[0]
	n.server.KillExecAgent(arn, "burstlet-agent")
	waitFor(t, "the session to end", func() bool { open, _ := n.server.Sessions(); return open == 0 })
	if got := exec(); got != "here\n" {
		t.Errorf("%q", got)
	}
	conn, err := n.Forward.Forward(t.Context(), n.ref.Pod, 7000)
	must(t, err)
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("%q, %v", got, err)
	}
	must(t, conn.Close())
	n.server.KillExecAgent(arn, n.ref.Name)
	waitFor(t, "the session to end", func() bool { open, _ := n.server.Sessions(); return open == 0 })
	_, err = n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}})
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "container "+n.ref.Name) {
		t.Errorf("with no agent left: %v", err)
	}
}

// waitFor waits for what the test server does beside.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
}

func TestInputOfTheMainProcessIsRefused(t *testing.T) {
	n := newSessionNode(t, stub.Config{}, nil)
	err := n.Attach.Attach(t.Context(), n.ref, backend.AttachSpec{Stdin: strings.NewReader("x")})
	if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), "use exec") {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
}

func TestSessionsEndWithTheirBackendOnBothSides(t *testing.T) {
	_, s, url := newWorld(t, stub.Config{LogGroups: []string{"/burstlet"}, Sessions: stub.SessionConfig{Fast: true}})
	b, err := New(t.Context(), sessionConfig(url))
	must(t, err)
	stop := background.Run(t, b.RunFreely)
	n := &sessionNode{T: t, Backend: b, server: s}
	ref := n.launch("web")
	_, err = b.Exec.Exec(t.Context(), ref, backend.ExecSpec{Command: []string{"true"}})
	must(t, err)
	stop()
	if _, err := b.Exec.Exec(
		t.Context(), ref, backend.ExecSpec{Command: []string{"true"}},
	); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("afterwards: %v", err)
	}
	deadline := time.Now().Add(3 * time.Minute)
	for open, _ := s.Sessions(); open > 0; open, _ = s.Sessions() {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are open in tasks", open)
		}
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
}

// sessionActions are what sessions need beside the rest.
var sessionActions = []string{
	"ecs:ExecuteCommand", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel",
	"ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel",
}

func TestPoliciesLetSessionsBeOpened(t *testing.T) {
	by := map[stub.Principal]ecstest.Policy{
		stub.Caller:        policyOf(t, "controller-policy.json"),
		stub.ExecutionRole: policyOf(t, "task-execution-role-policy.json"),
		stub.TaskRole:      policyOf(t, "task-role-policy.json"),
	}
	asked := map[string]bool{}
	n := newSessionNode(t, stub.Config{Sessions: stub.SessionConfig{Fast: true}, Policy: func(
		p stub.Principal, action, resource string,
	) bool {
		asked[action] = true
		ok := by[p].Allows(action, resource)
		if !ok {
			t.Errorf("%v may not %s on %s", p, action, resource)
		}
		return ok
	}}, func(c *Config) { c.LogGroup = "" })
	_, err := n.Exec.Exec(t.Context(), n.ref, backend.ExecSpec{Command: []string{"true"}})
	must(t, err)
	for _, action := range sessionActions {
		if !asked[action] {
			t.Errorf("%s was not needed", action)
		}
	}
}
