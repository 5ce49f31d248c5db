package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
	"github.com/burstlet/burstlet/backend/cri/host/local"
)

// residentExit is how long the end of the process is waited for that has nothing to do.
const residentExit = time.Second

// residentHost is this machine, whose runtime is called by a process of its own: that
// one outlives burstlet for as long as a call takes. In a container it ends with the
// container, as all there does.
type residentHost struct {
	host.Host
	program func(goarch string) ([]byte, error)
	args    []string

	mu     sync.Mutex
	client *helper.Client // nil while none runs
	ended  bool
	exits  sync.WaitGroup
}

func newResidentHost(root string) *residentHost {
	return &residentHost{
		Host: local.New(local.Options{Root: root}), program: binary.For, args: []string{"--root", root},
	}
}

// Call implements [host.Host]. A burstlet that was built without the helper makes the
// call itself, as it does one that is to end with burstlet.
func (r *residentHost) Call(ctx context.Context, c host.Call) ([]byte, error) {
	if c.Bound {
		return r.Host.Call(ctx, c)
	}
	client, err := r.current(ctx)
	if errors.Is(err, binary.ErrMissing) {
		return r.Host.Call(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return client.Call(ctx, c)
}

// run ends the process when ctx ends: it finishes its calls before.
func (r *residentHost) run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.ended = true
	client := r.client
	r.mu.Unlock()
	if client == nil {
		return nil
	}
	if err := client.Close(); err != nil {
		log.G(ctx).WithError(err).Debug("close the stream of the process that calls the runtime")
	}
	idle := make(chan struct{})
	go func() { // it ends with the process, which nobody may cut short
		r.exits.Wait()
		close(idle)
	}()
	timer := time.NewTimer(residentExit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	return nil
}

// current is the process that runs, started where none does.
func (r *residentHost) current(ctx context.Context) (*helper.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, backend.Errorf(backend.ErrUnavailable, "the cri backend is not running")
	}
	if r.client != nil {
		select {
		case <-r.client.Done():
		default:
			return r.client, nil
		}
	}
	program, err := r.program(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	client, err := r.start(ctx, program)
	if err != nil {
		return nil, backend.Errorf(backend.ErrUnavailable, "start the process that calls the container runtime: %w", err)
	}
	r.client = client
	return client, nil
}

// start starts the program from memory: it needs no place on a disk that may be
// read-only or mounted noexec.
func (r *residentHost) start(ctx context.Context, program []byte) (*helper.Client, error) {
	file, err := inMemory(program)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the process has a copy of its own
	cmd := exec.Command("/proc/self/fd/3", r.args...)
	cmd.ExtraFiles = []*os.File{file}
	// In a session of its own, signals of a terminal are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	client := helper.NewClient(pipes{out, in})
	logger := log.G(ctx)
	r.exits.Go(func() {
		<-client.Done() // Wait closes the pipes
		if err := cmd.Wait(); err != nil {
			logger.WithError(err).Warn("the process that calls the container runtime ended")
		}
	})
	return client, nil
}

// inMemory is a file that holds a program and has no place.
func inMemory(program []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("burstlet-hosthelper", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "burstlet-hosthelper")
	if _, err := file.Write(program); err != nil {
		return nil, errors.Join(fmt.Errorf("write the program: %w", err), file.Close())
	}
	return file, nil
}

// pipes are a process's output and input as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }
