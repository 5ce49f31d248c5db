package kubeletapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// realNode puts a node with one running pod into a real cluster, whose kubelet's
// API is the server.
func realNode(t *testing.T, engine Engine) *controlplane.ControlPlane {
	t.Helper()
	cp := cptest.New(t, controlplane.Config{WithoutControllerManager: true, WithoutScheduler: true})
	admin := cptest.Client(t, cp.AdminConfig())
	s := serve(t, engine, &reviews{}, func(c *Config) { c.Client, c.ClientCAFile = admin, cp.CAFile() })
	ctx, core := t.Context(), admin.CoreV1()
	node, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = s.server.Port()
	if _, err := core.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := core.ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := core.Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "busybox", Stdin: true}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := core.Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cp
}

// kubectl is a command that speaks WebSocket to the API server, as it does by
// default, or SPDY.
func kubectl(t *testing.T, cp *controlplane.ControlPlane, webSocket bool, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := cp.Command(ctx, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=%v", webSocket),
		fmt.Sprintf("KUBECTL_PORT_FORWARD_WEBSOCKETS=%v", webSocket))
	return cmd
}

// talkative is an engine whose one container has something to say to everybody.
func talkative(t *testing.T) *fakeEngine {
	t.Helper()
	engine := &fakeEngine{}
	engine.exec = func(_ context.Context, _ backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
		switch spec.Command[0] {
		case "cat":
			_, err := io.Copy(spec.Stdout, spec.Stdin)
			return 0, err
		case "nonsense":
			return 0, backend.Errorf(backend.ErrInvalid, `exec: "nonsense": executable file not found in $PATH`)
		}
		say(t, spec.Stdout, "to stdout\n")
		say(t, spec.Stderr, "to stderr\n")
		return 3, nil
	}
	engine.attach = func(_ context.Context, _ backend.Ref, _ string, spec backend.AttachSpec) error {
		say(t, spec.Stdout, "attached\n")
		return nil
	}
	forward := ports{80: atEnd}.forward(t)
	engine.forward = func(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
		pod.Namespace = "ns"
		return forward(ctx, pod, port)
	}
	return engine
}

// TestRealKubectlStreams: through a real API server, which translates kubectl's
// WebSocket protocols for a node that does not declare ExtendWebSocketsToKubelet.
func TestRealKubectlStreams(t *testing.T) {
	engine := talkative(t)
	cp := realNode(t, engine)
	for _, webSocket := range []bool{true, false} {
		t.Run(fmt.Sprintf("websocket=%v", webSocket), func(t *testing.T) {
			run := func(stdin string, args ...string) (stdout, stderr string, code int) {
				t.Helper()
				return ran(t, kubectl(t, cp, webSocket, args...), stdin)
			}
			out, errOut, code := run("", "exec", "p", "--", "sh", "-c", "exit 3")
			if out != "to stdout\n" || errOut != "to stderr\ncommand terminated with exit code 3\n" || code != 3 {
				t.Errorf("exec: %q, %q, %d", out, errOut, code)
			}
			out, errOut, code = run("echo me", "exec", "-i", "p", "--", "cat")
			if out != "echo me" || code != 0 {
				t.Errorf("exec -i: %q, %q, %d", out, errOut, code)
			}
			if _, errOut, code = run("", "exec", "p", "--", "nonsense"); code != 1 ||
				!strings.Contains(errOut, "executable file not found") {
				t.Errorf("exec that fails: %q, %d", errOut, code)
			}
			if out, errOut, code = run("", "attach", "p"); out != "attached\n" || code != 0 {
				t.Errorf("attach: %q, %q, %d", out, errOut, code)
			}
			engine.refuse(backend.Errorf(backend.ErrNotFound, "container not found (%q)", "c"))
			if _, errOut, code = run("", "exec", "p", "--", "true"); code != 1 ||
				!strings.Contains(errOut, `container not found ("c")`) {
				t.Errorf("exec that is refused: %q, %d", errOut, code)
			}
			engine.refuse(nil)
			forwardOnce(t, kubectl(t, cp, webSocket, "port-forward", "p", ":80"))
		})
	}
}

// ran runs a command to its end.
func ran(t *testing.T, cmd *exec.Cmd, stdin string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// forwardOnce sends one request through kubectl port-forward.
func forwardOnce(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:1234 -> 80
	_, after, found := strings.Cut(line, "127.0.0.1:")
	if !found {
		t.Fatalf("%q, %v: %s", line, err, &errOut)
	}
	port, _, _ := strings.Cut(after, " ")
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "HELLO" {
		t.Errorf("port-forward: got %q, %v", got, err)
	}
}
