package launch

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// simPatience bounds how long a simulated remote may take to listen.
const simPatience = 3 * time.Minute

// Sim is a "burstlet sim", a simulated remote, which can be killed and started again.
type Sim struct {
	// Socket is the path where it listens.
	Socket string

	t    testing.TB
	args []string
	log  logs.Buffer
	ran  *child.Child
}

// NewSim starts one that lives as long as the test; args are further flags.
func NewSim(t testing.TB, args ...string) *Sim {
	t.Helper()
	dir, err := os.MkdirTemp("", "burstlet-sim-") // that of a test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &Sim{Socket: filepath.Join(dir, "sim.sock"), t: t, args: args}
	s.log.ShowAtFailure(t, "burstlet sim")
	t.Cleanup(func() {
		if s.ran != nil {
			if err := s.ran.Stop(context.Background()); err != nil { // bounded by its grace
				t.Error(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	return s
}

// Start starts the process and returns when it listens.
func (s *Sim) Start() {
	s.t.Helper()
	var err error
	s.ran, err = child.Start(child.Config{
		Name: "burstlet sim", Program: Program(s.t), Args: append([]string{"sim", "--socket", s.Socket}, s.args...),
		Env: Environ(os.Environ()), Log: &s.log,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	wait.For(s.t, simPatience, "the simulated remote listens", func() error {
		conn, err := net.Dial("unix", s.Socket)
		if err != nil {
			return errors.Join(err, s.ran.Err())
		}
		return conn.Close()
	})
}

// Kill ends the process with SIGKILL, and its pods with it.
func (s *Sim) Kill() {
	s.t.Helper()
	if err := s.ran.Kill(); err != nil {
		s.t.Error(err)
	}
	s.ran = nil
}
