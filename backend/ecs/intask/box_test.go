package intask

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// patience is how long tests wait for what should come soon.
const patience = 3 * time.Minute

// box is a supervisor in processes of its own.
type box struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	// env is what the program alone is told.
	env []string
	// sharedPIDs is true where the supervisor is not PID 1 (shareProcessNamespace).
	sharedPIDs     bool
	stdout, stderr *logs.Buffer
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openDir is a directory that every user may enter and write to.
func openDir(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o777))
	return dir
}

// newBox prepares one; the container's files are those of a small image.
func newBox(t *testing.T) *box {
	need.Root(t) // as in a task
	b := &box{t: t, dir: openDir(t), stdout: &logs.Buffer{}, stderr: &logs.Buffer{}}
	must(t, os.Mkdir(b.path("etc"), 0o755))
	b.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:1001:app:/home/app:/bin/sh\n")
	b.write("etc/group", "root:x:0:\nwheel:x:10:root,app\napp:x:1001:\n")
	b.write("etc/resolv.conf", "search eu-central-1.compute.internal\nnameserver 10.0.0.2\n")
	b.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/root",
		testRun + "=" + b.path("run"), testEtc + "=" + b.path("etc"),
	}
	b.env = append(b.env, coverage(t)...)
	return b
}

// coverage is where the program writes which of its statements ran, if the tests count
// them: to GOCOVERDIR, whose contents go test adds to its own. Without a place for it the
// program says so on stderr, after its last words.
func coverage(t *testing.T) []string {
	const name = "GOCOVERDIR"
	switch dir := os.Getenv(name); {
	case testing.CoverMode() == "":
		return nil
	case dir != "":
		return []string{name + "=" + dir}
	}
	return []string{name + "=" + openDir(t)}
}

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

func (b *box) write(name, text string) {
	b.t.Helper()
	must(b.t, os.WriteFile(b.path(name), []byte(text), 0o644))
}

func (b *box) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	must(b.t, err)
	return string(text)
}

// start starts the supervisor: as PID 1, unless processes are shared.
func (b *box) start(spec Spec, argv ...string) {
	b.t.Helper()
	if spec.MessagePath == "" {
		spec.MessagePath = b.path("termination-log")
	}
	orders, err := spec.Encode()
	must(b.t, err)
	b.cmd = exec.Command("/proc/self/exe", append([]string{CommandSupervise, "--"}, argv...)...)
	b.cmd.Env = append(b.env, EnvSupervise+"="+orders)
	b.cmd.Stdout, b.cmd.Stderr = b.stdout, b.stderr
	b.cmd.WaitDelay = patience
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if !b.sharedPIDs {
		b.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	must(b.t, b.cmd.Start())
	b.t.Cleanup(func() {
		_ = b.cmd.Process.Kill() // it has mostly ended
		_ = b.cmd.Wait()
	})
}

// end waits for the end, and returns what the report said.
func (b *box) end() (code int, r Report) {
	b.t.Helper()
	err := b.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	lines := strings.SplitAfter(b.stderr.String(), "\n")
	if len(lines) < 2 {
		b.t.Fatalf("no report: %q", b.stderr)
	}
	_, r, ok := CutReport(lines[len(lines)-2])
	if !ok {
		b.t.Fatalf("the last line is no report: %q", b.stderr)
	}
	return b.cmd.ProcessState.ExitCode(), r
}

// runs does both.
func (b *box) runs(spec Spec, argv ...string) (int, Report) {
	b.t.Helper()
	b.start(spec, argv...)
	return b.end()
}

func (b *box) signal(s syscall.Signal) {
	b.t.Helper()
	must(b.t, b.cmd.Process.Signal(s))
}

// health is what the health check of the container says.
func (b *box) health() (healthy bool, text string) {
	b.t.Helper()
	cmd := exec.Command("/proc/self/exe", CommandHealth)
	cmd.Env = b.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if errs.Len() > 0 {
		b.t.Fatalf("health check on stderr: %s", &errs)
	}
	return err == nil, strings.TrimSpace(string(out))
}

// says waits for something on the container's stdout.
func (b *box) says(text string) {
	b.t.Helper()
	wait.For(b.t, patience, "stdout says "+text, func() error {
		if out := b.stdout.String(); !strings.Contains(out, text) {
			return fmt.Errorf("%s%s", out, b.stderr)
		}
		return nil
	})
}
