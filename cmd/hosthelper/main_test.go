package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/test/kit/need"
)

// asProgram makes the test's binary the program.
const asProgram = "BURSTLET_TEST_HOSTHELPER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a helper that runs, and its input and output as a stream.
type process struct {
	*exec.Cmd
	stream
	log bytes.Buffer
}

type stream struct {
	io.ReadCloser
	in io.WriteCloser
}

func (s stream) Write(p []byte) (int, error) { return s.in.Write(p) }
func (s stream) Close() error                { return errors.Join(s.in.Close(), s.ReadCloser.Close()) }

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, program, args...)}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stderr = &p.log
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.ReadCloser, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// ends waits for a good end.
func (p *process) ends(t *testing.T) {
	t.Helper()
	if err := p.Wait(); err != nil || p.log.Len() > 0 {
		t.Errorf("%v: %s", err, p.log.String())
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOperationsOverStandardInputAndOutput(t *testing.T) {
	p := start(t, self(t))
	c := helper.NewClient(p.stream)
	want, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadFile(t.Context(), "/proc/sys/kernel/osrelease", 100)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	_, err = c.ReadFile(t.Context(), "/none", 100)
	if !errors.Is(err, syscall.ENOENT) || err.Error() != "open /none: no such file or directory" {
		t.Errorf("error %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	p.ends(t)
}

func TestSignalsEndIt(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "0.log")
			if err := os.WriteFile(file, []byte("2026-01-02T03:04:05Z stdout F words\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, self(t))
			c := helper.NewClient(p.stream)
			defer c.Close()
			log, err := c.Log(t.Context(), host.LogRequest{Path: file, Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if _, err := io.ReadFull(log, make([]byte, len("words\n"))); err != nil {
				t.Fatal(err)
			}
			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if _, err := log.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the log ended with %v", err)
			}
			p.ends(t)
		})
	}
}

// The session ends while the runtime works on a call: the helper lives until the call has
// been done, and with it the grace of a container that only KILL ends.
func TestACallOutlivesItsSession(t *testing.T) {
	for method, want := range map[string]struct {
		state runtimeapi.ContainerState
		code  int32
	}{
		"StartContainer": {runtimeapi.ContainerState_CONTAINER_RUNNING, 0},
		"StopContainer":  {runtimeapi.ContainerState_CONTAINER_EXITED, 137},
	} {
		t.Run(method, func(t *testing.T) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			runtime := fakecri.New("image")
			runtime.IgnoresTERM[""] = true
			runtime.Amid = func(ctx context.Context, called string) {
				if called != method {
					return
				}
				close(begun)
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			s := callRuntime(t, runtime)
			lost := make(chan error, 1)
			go func() { lost <- s.through(method) }()
			<-begun
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := <-lost; !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("who called got %v", err)
			}
			ended := make(chan struct{})
			go func() {
				s.ends(t)
				close(ended)
			}()
			select {
			case <-ended:
				t.Error("the helper ended before the call that it made")
			case <-time.After(100 * time.Millisecond):
			}
			close(goOn)
			<-ended
			reply, err := runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: s.container})
			if got := reply.GetStatus(); err != nil || got.GetState() != want.state || got.GetExitCode() != want.code {
				t.Errorf("the container is %s with %d, %v", got.GetState(), got.GetExitCode(), err)
			}
		})
	}
}

// runtimeSession is a session of a helper that calls a runtime.
type runtimeSession struct {
	*process
	*helper.Client
	t                 *testing.T
	socket, container string
}

func callRuntime(t *testing.T, runtime *fakecri.Server) *runtimeSession {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	stop, err := runtime.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p := start(t, self(t))
	return &runtimeSession{process: p, Client: helper.NewClient(p.stream), t: t, socket: socket}
}

// Close ends the session.
func (s *runtimeSession) Close() error { return s.Client.Close() }

// through makes and starts a container, and stops it with a second of grace, as far as a
// method.
func (s *runtimeSession) through(last string) error {
	var sandbox runtimeapi.RunPodSandboxResponse
	var container runtimeapi.CreateContainerResponse
	for _, step := range []struct {
		method  string
		request func() proto.Message
		reply   proto.Message
	}{
		{"RunPodSandbox", func() proto.Message { return &runtimeapi.RunPodSandboxRequest{} }, &sandbox},
		{"CreateContainer", func() proto.Message {
			return &runtimeapi.CreateContainerRequest{
				PodSandboxId: sandbox.GetPodSandboxId(), Config: &runtimeapi.ContainerConfig{},
			}
		}, &container},
		{"StartContainer", func() proto.Message {
			s.container = container.GetContainerId()
			return &runtimeapi.StartContainerRequest{ContainerId: s.container}
		}, &runtimeapi.StartContainerResponse{}},
		{"StopContainer", func() proto.Message {
			return &runtimeapi.StopContainerRequest{ContainerId: s.container, Timeout: 1}
		}, &runtimeapi.StopContainerResponse{}},
	} {
		if err := s.call(step.method, step.request(), step.reply); err != nil || step.method == last {
			return err
		}
	}
	return errors.New("there is no such method: " + last)
}

func (s *runtimeSession) call(method string, request, reply proto.Message) error {
	encoded, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	out, err := s.Call(s.t.Context(), host.Call{
		Socket: s.socket, Method: "/runtime.v1.RuntimeService/" + method, Request: encoded, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	return proto.Unmarshal(out, reply)
}

func TestOutputThatIsGoneIsNoSignal(t *testing.T) {
	p := start(t, self(t))
	// The greeting of another version is answered, to nobody.
	if err := p.ReadCloser.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("burstlet-hosthelper 0\n")); err != nil {
		t.Fatal(err)
	}
	err := p.Wait()
	if p.ProcessState.ExitCode() != 1 || !strings.Contains(p.log.String(), "another version") {
		t.Errorf("%v: %s", err, p.log.String())
	}
}

func TestRemoveDir(t *testing.T) {
	content, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		beside string
		gone   bool
	}{
		"alone":      {"", true},
		"not alone":  {"other", false},
		"not inside": {"..", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			program := filepath.Join(dir, "hosthelper")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(program, content, 0o700); err != nil {
				t.Fatal(err)
			}
			remove := dir
			switch tt.beside {
			case "":
			case "..":
				remove = filepath.Dir(dir)
			default:
				if err := os.WriteFile(filepath.Join(dir, tt.beside), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := start(t, program, "--remove-dir", remove)
			c := helper.NewClient(p.stream)
			if _, err := c.ReadFile(t.Context(), "/proc/self/stat", 1); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) != tt.gone {
				t.Errorf("the directory: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := p.Wait(); err != nil || (p.log.Len() > 0) == tt.gone {
				t.Errorf("%v: %q", err, p.log.String())
			}
		})
	}
}

// A host with pods keeps the program for the next connection, however this one ends.
func TestItsDirectoryIsKeptWithPods(t *testing.T) {
	content, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		pods string // the root has this directory
		gone bool
	}{
		"pods": {"uid-1", false}, "none": {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "pods")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.pods != "" {
				if err := os.MkdirAll(filepath.Join(root, tt.pods), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			program := filepath.Join(dir, "hosthelper")
			if err := os.WriteFile(program, content, 0o700); err != nil {
				t.Fatal(err)
			}
			p := start(t, program, "--keep-dir", dir, "--root", root)
			c := helper.NewClient(p.stream)
			if _, err := c.ReadFile(t.Context(), "/proc/self/stat", 1); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(program); err != nil {
				t.Errorf("while it runs: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := p.Wait(); err != nil || p.log.Len() > 0 {
				t.Errorf("%v: %q", err, p.log.String())
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) != tt.gone {
				t.Errorf("the directory afterwards: %v", err)
			}
		})
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"--unknown"}, {"word"}} {
		p := start(t, self(t), args...)
		if err := p.Wait(); err == nil || p.log.Len() == 0 {
			t.Errorf("%v: %v, %q", args, err, p.log.String())
		}
	}
}

// The program is copied to a host before anything can run there.
func TestItIsSmall(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		need.Missing(t, "the go tool is needed, to ask for dependencies: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), goTool, "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		for _, heavy := range []string{
			"k8s.io/", "sirupsen", "containerd/log", "google.golang.org", "sigs.k8s.io", "burstlet/backend\n",
		} {
			if strings.Contains(pkg, heavy) {
				t.Errorf("it depends on %s", strings.TrimSpace(pkg))
			}
		}
	}
}
