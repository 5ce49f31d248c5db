package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// firstSize is how long the size of a terminal is waited for before its command is
// started without.
const firstSize = 200 * time.Millisecond

// farewellLimit is how long a command is waited for whose call has ended.
const farewellLimit = 5 * time.Second

// commands implements backend.Exec by sessions. A command is killed when its call
// ends.
type commands struct{ *Pool }

// Exec runs a command.
func (c commands) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	op := "run command in container " + ref.Name
	if len(spec.Command) == 0 {
		return 0, backend.Errorf(backend.ErrInvalid, "%s: the command is empty", op)
	}
	code, err := c.exec(ctx, ref, spec)
	if err != nil {
		return 0, ended(ctx, op, err)
	}
	return code, nil
}

func (c commands) exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	arn, err := c.runningContainer(ctx, ref)
	if err != nil {
		return 0, err
	}
	t, done, err := c.use(ctx, arn, ref.Name)
	if err != nil {
		return 0, err
	}
	defer done()
	client, err := t.container(ctx, ref.Name)
	if err != nil {
		return 0, c.stillRuns(ctx, ref, err)
	}
	limited, cancel := spec.Within(ctx)
	defer cancel()
	return c.runCommand(limited, client, spec)
}

// stillRuns is err, or NotFound where the container has ended since ECS was read.
func (c commands) stillRuns(ctx context.Context, ref backend.ContainerRef, err error) error {
	if _, aerr := c.tasks.Inspect(ctx, []ktypes.UID{ref.Pod.UID}); aerr == nil {
		if _, aerr = c.runningContainer(ctx, ref); errors.Is(aerr, backend.ErrNotFound) {
			return aerr
		}
	}
	return err
}

// command is one that runs.
type command struct {
	spec     backend.ExecSpec
	channel  ssh.Channel
	requests <-chan *ssh.Request

	// over is closed when nothing is carried any more.
	over           chan struct{}
	stdout, stderr *passing

	// failed is why its streams could not be carried.
	failed error
	// exit is nil until the server told it; invalid is why it did not start.
	exit    *uint32
	invalid string
}

// runCommand runs a command on a channel of its own, to its end.
func (s *Pool) runCommand(ctx context.Context, client *ssh.Client, spec backend.ExecSpec) (int32, error) {
	channel, requests, err := s.openChannel(ctx, client, "session", nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = channel.Close() }() // closed already, or of no use any more
	c := &command{
		spec: spec, channel: channel, requests: requests, over: make(chan struct{}),
		stdout: &passing{to: spec.Stdout}, stderr: &passing{to: spec.Stderr},
	}
	done := make(chan struct{})
	if !s.start(func() {
		defer close(done)
		c.failed = c.run(ctx)
	}) {
		return 0, errEnded
	}
	select {
	case <-done:
		return c.outcome(ctx)
	case <-ctx.Done():
	}
	_ = channel.Close() // the server kills the command, and tells what is left
	limit := time.NewTimer(farewellLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C: // nobody answers
		c.stdout.stop()
		c.stderr.stop()
	}
	return 0, ctx.Err()
}

// run starts the command and carries its streams, until the server has told all.
func (c *command) run(ctx context.Context) error {
	var sizes sync.WaitGroup
	defer sizes.Wait()
	defer close(c.over)
	var requests sync.WaitGroup
	requests.Go(c.readRequests)
	defer requests.Wait()
	ok, err := c.start(ctx)
	if err == nil && !ok {
		err = errors.New("the server in the container refused it")
	}
	if err != nil {
		_ = c.channel.Close() // readRequests ends with it
		return backend.Errorf(backend.ErrUnavailable, "start: %w", err)
	}
	sizes.Go(c.resize)
	return c.carry()
}

// outcome is how a command ended whose streams were carried.
func (c *command) outcome(ctx context.Context) (int32, error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case c.failed != nil:
		return 0, c.failed
	case c.invalid != "":
		return 0, backend.Errorf(backend.ErrInvalid, "%s", c.invalid)
	case c.exit == nil:
		return 0, backend.Errorf(backend.ErrUnavailable, "the session broke before the command ended")
	}
	return int32(*c.exit), nil //nolint:gosec // 0 to 255
}

// start asks for the command, on a terminal if it wants one.
func (c *command) start(ctx context.Context) (ok bool, err error) {
	text, err := json.Marshal(intask.ExecRequest{Argv: c.spec.Command})
	if err != nil {
		return false, fmt.Errorf("encode the command: %w", err)
	}
	if c.spec.TTY {
		size := c.size(ctx)
		terminal := struct {
			Term                      string
			Cols, Rows, Width, Height uint32
			Modes                     string
		}{"xterm", uint32(size.Width), uint32(size.Height), 0, 0, "\x00"}
		if ok, err = c.channel.SendRequest("pty-req", true, ssh.Marshal(terminal)); err != nil || !ok {
			return ok, err
		}
	}
	return c.channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{string(text)}))
}

// size is the terminal's first, or nothing where none comes.
func (c *command) size(ctx context.Context) backend.TerminalSize {
	limit := time.NewTimer(firstSize)
	defer limit.Stop()
	select {
	case size := <-c.spec.Resize:
		return size
	case <-limit.C:
	case <-ctx.Done():
	}
	return backend.TerminalSize{}
}

// readRequests reads what the server says of the command, until the channel ends.
func (c *command) readRequests() {
	for r := range c.requests {
		var status struct{ Status uint32 }
		var failed intask.StartError
		switch {
		case r.Type == "exit-status" && ssh.Unmarshal(r.Payload, &status) == nil:
			c.exit = &status.Status
		case r.Type == intask.RequestStartError && ssh.Unmarshal(r.Payload, &failed) == nil:
			c.invalid = failed.Text
		}
		if r.WantReply {
			_ = r.Reply(false, nil) // fails when the connection has
		}
	}
}

// carry carries the streams until the output has ended. What is typed is not waited
// for: the goroutine that reads it ends with Stdin, which is its caller's to end.
func (c *command) carry() error {
	go func() {
		if c.spec.Stdin != nil {
			_, _ = io.Copy(c.channel, c.spec.Stdin) // ends with the command at the latest
		}
		_ = c.channel.CloseWrite() // the command may have ended
	}()
	var output sync.WaitGroup
	output.Go(func() { c.pass(c.stderr, c.channel.Stderr()) })
	c.pass(c.stdout, c.channel)
	output.Wait()
	return errors.Join(c.stdout.failed(), c.stderr.failed())
}

// pass passes output on. If that fails the command is of no use any more.
func (c *command) pass(to *passing, from io.Reader) {
	_, _ = io.Copy(to, from) // the end of a channel is told by its requests
	if to.failed() != nil {
		_ = c.channel.Close()
	}
}

// passing passes output on to a writer, until it fails or is stopped.
type passing struct {
	mu  sync.Mutex
	to  io.Writer // nil: it is dropped
	err error
}

var errStopped = errors.New("the call has ended")

// Write writes.
func (w *passing) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if w.to == nil {
		return len(b), nil
	}
	n, err := w.to.Write(b)
	if err != nil {
		w.err = fmt.Errorf("pass on output: %w", err)
	}
	return n, w.err
}

func (w *passing) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *passing) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errStopped
}

// resize tells the terminal's sizes.
func (c *command) resize() {
	for c.spec.TTY {
		select {
		case size, ok := <-c.spec.Resize:
			if !ok {
				return
			}
			change := struct{ Cols, Rows, Width, Height uint32 }{uint32(size.Width), uint32(size.Height), 0, 0}
			if _, err := c.channel.SendRequest("window-change", false, ssh.Marshal(change)); err != nil {
				return
			}
		case <-c.over:
			return
		}
	}
}
