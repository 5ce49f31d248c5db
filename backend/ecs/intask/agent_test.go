package intask

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
)

func TestTheAgentEndsWithTheLastAppContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &around{down: true, status: map[string]string{"a": "RUNNING", "b": "RUNNING", "burstlet-agent": "RUNNING"}}
		task, _, said := task(t, a, map[string]string{envMetadata: "http://metadata/v4/x", EnvWait: "a,b"})
		done := make(chan error, 1)
		go func() { done <- task.waitForAll(t.Context()) }()
		for _, step := range []func(){
			func() { a.down = false },
			func() { a.status["a"] = "STOPPED" },
			func() { delete(a.status, "b") }, // not shown: not known
		} {
			time.Sleep(5 * time.Second)
			a.mu.Lock()
			step()
			a.mu.Unlock()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("it ended early: %v", err)
			default:
			}
		}
		a.mu.Lock()
		a.status["b"] = "STOPPED"
		a.mu.Unlock()
		begun := time.Now()
		must(t, <-done)
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
		if n := strings.Count(said.String(), "metadata"); n == 0 || n > 3 {
			t.Errorf("it should say once that the endpoint is down: %q", said)
		}
	})
}

func TestTheAgentsWaitEndsWhenTheTaskIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &around{status: map[string]string{"a": "RUNNING"}}
		task, _, _ := task(t, a, map[string]string{envMetadata: "http://metadata/v4/x", EnvWait: "a"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		must(t, task.waitForAll(ctx))
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

// token is a payload with one file.
func token(text string, due int64) podfiles.Payload {
	p := tokenAt("token", text)
	p.Due = due
	return p
}

// tokenAt is a payload with one file, of the volume token.
func tokenAt[T string | []byte](path string, data T) podfiles.Payload {
	file := podfiles.File{Path: path, Data: []byte(data), Mode: 0o600}
	return podfiles.Payload{Volumes: []podfiles.Volume{{Name: "token", Files: []podfiles.File{file}}}}
}

// change puts other contents into the pod's secret, under the same key.
func change(t *testing.T, a *around, env map[string]string, p podfiles.Payload) {
	t.Helper()
	packed, err := p.Pack()
	must(t, err)
	sealed, err := podfiles.Seal(env[EnvPayloadKey], env[EnvPayload], packed)
	must(t, err)
	parts, err := podfiles.Split(sealed)
	must(t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[env[EnvPayload]] = parts[0]
}

func TestFilesAreRefreshedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &around{}
		env := ownPayload(t, a, token("one", 0))
		env[EnvRefresh] = "5m"
		task, dir, _ := task(t, a, env, "token")
		must(t, task.Materialize(t.Context()))
		first, err := os.Readlink(filepath.Join(dir, "token/..data"))
		must(t, err)
		r, err := task.refresher()
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); r.run(ctx) }()
		time.Sleep(16 * time.Minute)
		if now, _ := os.Readlink(filepath.Join(dir, "token/..data")); now != first {
			t.Error("contents that are the same were swapped")
		}
		// Renewed at a time that is told: looked for just then.
		change(t, a, env, token("two", time.Now().Add(6*time.Minute).Unix()))
		time.Sleep(5 * time.Minute)
		if got := read(t, filepath.Join(dir, "token/token")); got != "two" {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Minute)
		change(t, a, env, token("three", 0))
		time.Sleep(2 * dueRetry)
		if got := read(t, filepath.Join(dir, "token/token")); got != "three" {
			t.Errorf("got %q", got)
		}
		a.mu.Lock()
		a.secrets = nil // the pod is being removed
		a.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if got := read(t, filepath.Join(dir, "token/token")); got != "three" {
			t.Errorf("got %q", got)
		}
		cancel()
		<-done
	})
}

func TestRefreshingSurvivesWhatGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &around{}
		env := ownPayload(t, a, token("one", 0))
		task, dir, said := task(t, a, env, "token")
		must(t, task.Materialize(t.Context()))
		good := a.secrets
		a.secrets = map[string]string{env[EnvPayload]: "1/1:Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmFyeQ=="}
		r, err := task.refresher()
		must(t, err)
		for range 3 {
			_, err := r.once(t.Context())
			r.say(err)
		}
		if n := strings.Count(said.String(), "do not belong together"); n != 1 || strings.Contains(said.String(), "canary") {
			t.Errorf("said %q", said)
		}
		a.secrets = good
		_, err = r.once(t.Context())
		must(t, err)
		if got := read(t, filepath.Join(dir, "token/token")); got != "one" {
			t.Errorf("got %q", got)
		}
	})
}

func TestHowSoonFilesAreLookedFor(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &refresher{every: 5 * time.Minute}
	for due, want := range map[int64]time.Duration{
		0: 5 * time.Minute, 1060: time.Minute, 9999: 5 * time.Minute, 900: dueRetry,
	} {
		if got := r.next(now, due); got != want {
			t.Errorf("%d: %s", due, got)
		}
	}
}

func TestMaterializeInstallsTheSupervisor(t *testing.T) {
	t.Parallel()
	need.Root(t) // as in a task
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "run/web"), 0o777))
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for range 2 {
		cmd := exec.Command("/proc/self/exe", CommandMaterialize)
		cmd.Env = append(
			coverage(t), EnvRunDirs+"=web,db", testRun+"="+filepath.Join(dir, "run"), testBin+"="+filepath.Join(dir, "bin"),
		)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for path, want := range map[string]string{
		"run/web": "drwx------ 0:0", "run/db": "drwx------ 0:0", "bin/burstlet-task": "-rwxr-xr-x 0:0",
	} {
		if got := owner(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "bin/burstlet-task"), CommandHealth)
	cmd.Env = append(coverage(t), testRun+"="+dir)
	if out, err := cmd.Output(); err == nil || string(out) != "the container has not started\n" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestTheAgentServesUntilItIsStopped(t *testing.T) {
	need.Root(t) // as in a task
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", CommandAgent)
	cmd.Env = append(coverage(t), testRun+"="+dir)
	said := &logs.Buffer{}
	cmd.Stderr = said
	must(t, cmd.Start())
	socket := filepath.Join(dir, filepath.Base(AgentRunDir), AgentSocket)
	wait.Holds(t, patience, "it answers", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			must(t, conn.Close())
		}
		return err == nil
	})
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || strings.Contains(said.String(), "task: agent: ") {
		t.Errorf("%v, %s", err, said)
	}
}

func TestOtherCommandsAreRefused(t *testing.T) {
	task, _, _ := task(t, &around{}, nil)
	task.HTTPClient = &http.Client{}
	for _, args := range [][]string{
		nil, {"exec"}, {CommandMaterialize, "x"}, {CommandSupervise}, {CommandSupervise, "sh"},
	} {
		if code, err := task.Run(t.Context(), args); err == nil || code != 1 {
			t.Errorf("%q worked", args)
		}
	}
}

// TestAProxyOfThePodIsNotAsked: what a container has in its environment is for its
// own programs. A proxy would not be asked for the loopback address anyway.
func TestAProxyOfThePodIsNotAsked(t *testing.T) {
	own := ownAddresses()
	if len(own) == 0 {
		need.Missing(t, "this machine has no address but loopback's")
	}
	b := newBox(t)
	l, err := net.Listen("tcp", net.JoinHostPort(own.first(), "0"))
	must(t, err)
	ecs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Containers":[{"Networks":[{"IPv4Addresses":["10.0.1.8"]}]}]}`)
	}))
	must(t, ecs.Listener.Close())
	ecs.Listener = l
	ecs.Start()
	defer ecs.Close()
	b.env = append(b.env, "HTTP_PROXY=http://127.0.0.1:1", envMetadata+"="+ecs.URL)
	if code, r := b.runs(Spec{}, "echo", LatePodIP); code != 0 || b.stdout.String() != "10.0.1.8\n" {
		t.Errorf("%d, %q, %+v", code, b.stdout, r)
	}
}
