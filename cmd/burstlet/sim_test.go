package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// simChild names what a process of this test binary is to be; its arguments
// follow as JSON.
const simChild = "BURSTLET_TEST_SIM_CHILD"

const simIdentity = "cluster-1/edge"

// TestSimProcess is a whole life with real processes: pods outlive the engine
// that launched them and was killed, a killed remote is Unavailable, and its
// socket is taken over by the next.
func TestSimProcess(t *testing.T) {
	if role := os.Getenv(simChild); role != "" {
		beSimChild(t, role)
		return
	}
	socket := filepath.Join(t.TempDir(), "s")
	endpoint := "unix://" + socket
	remote := startSimChild(t, "sim", "--socket", socket, "--log-format", "json", "--max-pods", "100")
	remote.await(t, "listening on "+endpoint)

	const pods = 20
	engine := startSimChild(t, "engine", endpoint, fmt.Sprint(pods))
	engine.await(t, "launched")
	if err := engine.Kill(); err != nil {
		t.Error(err)
	}

	b := connectTestSim(t, endpoint)
	wantSimPods(t, b, pods)
	if node, err := b.Node.Describe(t.Context()); err != nil || node.Capacity.Pods().Value() != 100 {
		t.Errorf("node %+v, %v; want room for 100 pods", node, err)
	}
	wantSimRefused(t, socket)
	if err := remote.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := b.Pods.List(t.Context()); backend.Class(err) != "Unavailable" {
		t.Errorf("without a remote: %v", err)
	}

	next := startSimChild(t, "sim", "--socket", socket, "--max-pods", "100")
	next.await(t, "listening on "+endpoint)
	awaitSim(t, b)
	if facts, err := b.Pods.List(t.Context()); err != nil || len(facts) != 0 {
		t.Errorf("on a new remote: %d pods, %v", len(facts), err)
	}
	if err := next.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// wantSimPods checks that the pods of an engine that was killed are all there,
// and that launching one again finds it.
func wantSimPods(t *testing.T, b backend.Backend, pods int) {
	t.Helper()
	ctx := t.Context()
	facts, err := b.Pods.List(ctx)
	if err != nil || len(facts) != pods {
		t.Fatalf("%d pods, %v; want the %d that the killed engine launched", len(facts), err, pods)
	}
	for _, f := range facts {
		if !f.Live || f.Namespace != "ns" || f.Name != "p"+string(f.UID) || len(f.IPs) != 1 {
			t.Errorf("facts %+v", f)
		}
	}
	if err := b.Pods.Launch(ctx, ctx, simTestSpec("0")); err != nil {
		t.Errorf("the replay of a launch: %v", err)
	}
	if again, err := b.Pods.Inspect(ctx, []types.UID{"0"}); err != nil || len(again) != 1 || again[0].ID != facts[0].ID {
		t.Errorf("after the replay: %+v, %v", again, err)
	}
}

// wantSimRefused checks that a second remote does not take the socket.
func wantSimRefused(t *testing.T, socket string) {
	t.Helper()
	cmd := newSimCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{"--socket", socket})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second remote on the socket: %v", err)
	}
}

// beSimChild is the remote, or an engine that is killed in the middle of a call.
func beSimChild(t *testing.T, role string) {
	var args []string
	if err := json.Unmarshal([]byte(os.Getenv(simChild+"_ARGS")), &args); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	if role == "sim" {
		cmd := newSimCommand()
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(ctx); err != nil {
			t.Fatal(err)
		}
		return
	}
	b := connectTestSim(t, args[0])
	for i := 0; fmt.Sprint(i) != args[1]; i++ {
		if err := b.Pods.Launch(ctx, ctx, simTestSpec(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("launched")
	t.Fatal(b.Events.Run(ctx, make(chan types.UID)))
}

func simTestSpec(uid string) backend.LaunchSpec {
	return backend.LaunchSpec{
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: "p" + uid}},
	}
}

// connectTestSim connects as "burstlet run" does.
func connectTestSim(t *testing.T, endpoint string) backend.Backend {
	t.Helper()
	cfg := config.Configuration{Backend: config.Backend{Type: config.BackendSim, Sim: &config.Sim{Socket: endpoint}}}
	b, err := backends.New(
		t.Context(), backends.Node{Config: cfg, Identity: simIdentity, Version: programVersion(), May: backend.Always},
	)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, b.RunFreely)
	awaitSim(t, b)
	return b
}

func awaitSim(t *testing.T, b backend.Backend) {
	t.Helper()
	wait.For(t, patience, "the sim answers", func() error {
		_, err := b.Node.Describe(t.Context())
		return err
	})
}

// simProcess is a process of this test binary.
type simProcess struct {
	*child.Child
	log *logs.Buffer
}

func startSimChild(t *testing.T, role string, args ...string) simProcess {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	log := &logs.Buffer{}
	log.ShowAtFailure(t, role)
	return simProcess{child.ForTest(t, child.Config{
		Name: role, Program: os.Args[0], Args: []string{"-test.run=^TestSimProcess$", "-test.timeout=10m"},
		Env: append(os.Environ(), simChild+"="+role, simChild+"_ARGS="+string(data)), Log: log,
	}), log}
}

// await waits until the process has printed a line.
func (p simProcess) await(t *testing.T, line string) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("%q is printed", line), func() error {
		if !strings.Contains("\n"+p.log.String(), "\n"+line+"\n") {
			return errors.Join(errors.New("it is not"), p.Err())
		}
		return nil
	})
}

func TestSimFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--log-format", "xml"}, `flag --log-format: "xml" is not text or json`},
		{[]string{"--max-pods", "-1"}, "flag --max-pods: must not be negative"},
		{[]string{"--latency-pull", "-1s"}, "flags --latency-…: must not be negative"},
		{[]string{"--files"}, "flags --files and --health: need --pod-unit"},
		{[]string{"--socket", "/absent/s"}, "listen on /absent/s: open /absent/s.lock: no such file or directory"},
		{[]string{"x"}, `unknown command "x" for "sim"`},
	} {
		cmd := newSimCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(tc.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != tc.want {
			t.Errorf("burstlet sim %s: error %v, want %s", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}
