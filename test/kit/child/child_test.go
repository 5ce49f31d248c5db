package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

const patience = time.Minute

// run starts a shell with a script, and returns when it has printed "ready".
func run(t *testing.T, grace time.Duration, script string) (*Child, *logs.Buffer) {
	t.Helper()
	log := &logs.Buffer{}
	c, err := Start(Config{Name: "it", Program: "sh", Args: []string{"-c", script}, Log: log, Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Kill() }) // it has mostly ended
	if strings.Contains(script, "ready") {
		wait.For(t, patience, "ready", func() error {
			if !strings.Contains(log.String(), "ready") {
				return errors.New(log.String())
			}
			return nil
		})
	}
	return c, log
}

const (
	waits = "; while :; do sleep 0.01; done"
	race  = "echo WARNING: DATA; printf 'WARNING: DATA '; sleep 0.05; echo RACE; echo by goroutine 7; "
)

func TestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		end    func(*Child) error
		want   string // of the error, with "|" between parts; "" for none
		is     error
	}{
		"stopped": {"trap 'exit 0' TERM; echo ready" + waits, stop, "", nil},
		"stopped, badly": {
			"trap 'exit 3' TERM; echo ready" + waits, stop, "it: ended with a failure after terminated: exit status 3", ErrExit,
		},
		"stopped, a race": {race + "trap 'exit 0' TERM; echo ready" + waits, stop, "data race|by goroutine 7", ErrRace},
		"does not stop":   {"trap '' TERM; echo ready" + waits, stop, "it did not end within 200ms of SIGTERM", nil},
		"killed":          {"echo ready" + waits, (*Child).Kill, "", nil},
		"killed, a race": {
			race + "echo ready" + waits, (*Child).Kill, "it: the race detector found a data race|by goroutine 7", ErrRace,
		},
		"by itself":           {"exit 0", end, "it ended by itself", nil},
		"by itself, badly":    {"exit 4", end, "it ended by itself: exit status 4", nil},
		"by itself, then ask": {"exit 0", func(c *Child) error { <-c.Done(); return stop(c) }, "it ended by itself", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := run(t, 200*time.Millisecond, tt.script)
			err := tt.end(c)
			if tt.want == "" && err != nil || tt.want != "" && err == nil {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			for part := range strings.SplitSeq(tt.want, "|") {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("error %v, want %q", err, part)
				}
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v is not %v", err, tt.is)
			}
			if again := stop(c); tt.want != "" && again == nil && name != "does not stop" || tt.want == "" && again != nil {
				t.Errorf("asked again it says %v, not %v", again, err)
			}
		})
	}
}

func stop(c *Child) error { return c.Stop(context.Background()) }

func end(c *Child) error {
	<-c.Done()
	return c.Err()
}

func TestStopEndsWithItsContext(t *testing.T) {
	c, _ := run(t, time.Hour, "trap '' TERM; echo ready"+waits)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-c.Done()
}

func TestOutput(t *testing.T) {
	var out, log logs.Buffer
	c, err := Start(
		Config{
			Program: "sh", Args: []string{"-c", "pwd; echo $A >&2"}, Env: []string{"A=b"}, Dir: "/", Log: &log, Stdout: &out,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if out.String() != "/\n" || log.String() != "b\n" {
		t.Errorf("prints %q, logs %q", out.String(), log.String())
	}
}

// What a program prints is added to its file, and its end waited for or not.
func TestLogFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 2 {
		c, err := Start(Config{Program: "sh", Args: []string{"-c", "echo out; echo err >&2; exit 3"}, LogFile: file})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context()); err == nil || err.Error() != "sh ended by itself: exit status 3" {
			t.Errorf("error %v", err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "out\nerr\nout\nerr\n" {
		t.Errorf("the log has %q, %v", text, err)
	}
	if _, err := Start(Config{Program: "sh", LogFile: filepath.Join(file, "log")}); err == nil ||
		!strings.Contains(err.Error(), "start sh: ") {
		t.Errorf("without a directory for the log: %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	c, _ := run(t, time.Hour, "echo ready"+waits)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); err != nil {
		t.Error(err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := Start(Config{Program: "/nonexistent/program"}); err == nil ||
		!strings.Contains(err.Error(), "start program: ") {
		t.Errorf("error %v", err)
	}
}

// TestKilledOwner: nothing is left of the children of a test that is killed.
func TestKilledOwner(t *testing.T) {
	const asOwner = "BURSTLET_TEST_AS_OWNER"
	if os.Getenv(asOwner) != "" {
		c, err := Start(Config{Program: "sleep", Args: []string{"1000"}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(c.Pid()) + "\n")
		<-c.Done()
	}
	owner := exec.Command(os.Args[0], "-test.run=^TestKilledOwner$")
	owner.Env = append(os.Environ(), asOwner+"=1")
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 20)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	_ = owner.Wait() // it was killed
	wait.For(t, patience, "the child is gone", func() error {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
			!strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("process %d: %s", pid, state)
		}
		return nil
	})
}

// noting is a test that notes its errors.
type noting struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (n *noting) Helper()           {}
func (n *noting) Failed() bool      { return false }
func (n *noting) Cleanup(f func())  { n.cleanups = append(n.cleanups, f) }
func (n *noting) Error(args ...any) { n.errors = append(n.errors, fmt.Sprint(args...)) }

// A race in a process that a test kills fails the test.
func TestARaceInAKilledChildFailsItsTest(t *testing.T) {
	test := &noting{TB: t}
	var log logs.Buffer
	c := ForTest(test, Config{Program: "sh", Args: []string{"-c", race + "echo ready" + waits}, Log: &log})
	wait.For(t, patience, "ready", func() error {
		if !strings.Contains(log.String(), "ready") {
			return errors.New(log.String())
		}
		return nil
	})
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	for _, f := range test.cleanups {
		f()
	}
	if len(test.errors) != 1 || !strings.Contains(test.errors[0], "data race") {
		t.Errorf("the test has errors %q", test.errors)
	}
}
