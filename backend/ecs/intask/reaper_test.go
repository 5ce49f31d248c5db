package intask

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// What the agent of ECS Exec runs in a container is none of the container's: AWS starts it
// from outside, where its parent is not seen.
func TestWhatDescendsFromASupervisor(t *testing.T) {
	const supervisor, main, child, orphan, agent, worker, stranger = 1, 10, 11, 12, 20, 21, 30
	parents := map[int]int{
		supervisor: 0, main: supervisor, child: main, orphan: supervisor, agent: 0, worker: agent, stranger: 31, 31: 30,
	}
	for pid, want := range map[int]bool{
		supervisor: false, main: true, child: true, orphan: true, agent: false, worker: false, stranger: false,
	} {
		if got := descends(parents, pid, supervisor); got != want {
			t.Errorf("%d: %t", pid, got)
		}
	}
}

// blocked is a pipe that is full, to write to, and its other end.
func blocked(t *testing.T) (to, from *os.File) {
	t.Helper()
	var pipe [2]int
	must(t, syscall.Pipe2(pipe[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK))
	for {
		if _, err := syscall.Write(pipe[1], make([]byte, 4096)); err == nil {
			continue
		} else if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		break
	}
	for _, fd := range pipe {
		must(t, syscall.SetNonblock(fd, false))
	}
	return os.NewFile(uintptr(pipe[1]), "full"), os.NewFile(uintptr(pipe[0]), "full")
}

// The agent of ECS Exec, which comes into a container from outside, lives on when the
// supervisor kills what the container's command has left behind.
func TestTheRestEndsWithoutTheAgentOfECSExec(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	mark, fifo := b.path("sleep-forever"), b.path("fifo")
	must(t, os.Symlink("/bin/sleep", mark))
	must(t, syscall.Mkfifo(fifo, 0o666))
	orders, err := Spec{Grace: 5, MessagePath: b.path("termination-log")}.Encode()
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	// Until its last words can be written it lives, and the rest has been killed.
	stderr, unread := blocked(t)
	b.cmd = exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", self, CommandSupervise, "--",
		"sh", "-c", "(setsid "+mark+" 1000 &); echo up; read x <"+fifo+"; exit 4")
	b.cmd.Env = append(b.env, EnvSupervise+"="+orders)
	b.cmd.Stdout, b.cmd.Stderr, b.cmd.WaitDelay = b.stdout, stderr, patience
	must(t, b.cmd.Start())
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill() // it has mostly ended
		_ = b.cmd.Wait()
	})
	must(t, stderr.Close())
	b.says("up")
	supervisor := children(t, b.cmd.Process.Pid)[0]

	agent := exec.Command("nsenter", "--target", supervisor, "--pid", "--mount", "/bin/sleep", "1000")
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, agent.Start())
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	inside := ""
	wait.Holds(t, patience, "the agent runs", func() bool {
		inside = strings.Join(children(t, agent.Process.Pid), "")
		return inside != ""
	})

	must(t, os.WriteFile(fifo, []byte("\n"), 0))
	wait.Holds(t, patience, "the container has ended", func() bool {
		_, err := os.Stat(b.path("run/" + lifeFile))
		return err == nil
	})
	if exec.Command("pgrep", "-f", "^"+mark).Run() == nil {
		t.Error("what the command left behind lives")
	}
	if status, err := os.ReadFile("/proc/" + inside + "/status"); err != nil || strings.Contains(string(status), "\tZ") {
		t.Errorf("the agent ended with it: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, unread) }() // until the supervisor ends
	var exit *exec.ExitError
	if err := b.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("%v", err)
	}
	if err := <-ended; err == nil { // the kernel ends it with the container
		t.Error("the agent ended by itself")
	}
	must(t, unread.Close())
}
