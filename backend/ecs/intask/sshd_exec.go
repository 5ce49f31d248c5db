package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// drain is how long output is waited for after its command has ended: what it left
// behind may hold it open for ever.
const drain = 500 * time.Millisecond

// execution is a session channel.
type execution struct {
	server  *Server
	channel ssh.Channel
	running sync.WaitGroup

	// term and size are of the terminal that was asked for; empty for none.
	term string
	size unix.Winsize
	// master is its side that is ours.
	master  *os.File
	process Process
	begun   bool
}

// session runs what is asked for on a channel, until it ends or is closed.
func (s *Server) session(ctx context.Context, c ssh.NewChannel) error {
	channel, requests, err := c.Accept()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	e := &execution{server: s, channel: channel}
	for r := range requests {
		ok, then := e.request(ctx, r)
		if r.WantReply {
			if err := r.Reply(ok, nil); err != nil {
				break
			}
		}
		if then != nil {
			e.running.Go(then)
		}
	}
	if e.process != nil {
		err = e.process.Signal(syscall.SIGKILL)
	}
	_ = channel.Close() // mostly closed already
	e.running.Wait()
	if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end a command: %w", err)
	}
	return nil
}

// request does what a request asks for; then is what follows the reply.
func (e *execution) request(ctx context.Context, r *ssh.Request) (ok bool, then func()) {
	switch r.Type {
	case "pty-req":
		var p struct {
			Term                      string
			Cols, Rows, Width, Height uint32
			Modes                     string
		}
		if ssh.Unmarshal(r.Payload, &p) != nil || e.begun {
			return false, nil
		}
		e.term, e.size = p.Term, winsize(p.Cols, p.Rows)
		return true, nil
	case "window-change":
		var p struct{ Cols, Rows, Width, Height uint32 }
		return ssh.Unmarshal(r.Payload, &p) == nil && e.resize(winsize(p.Cols, p.Rows)), nil
	case "exec", "subsystem":
		return e.begin(ctx, r)
	default:
		return false, nil
	}
}

// begin starts what the channel is for, once.
func (e *execution) begin(ctx context.Context, r *ssh.Request) (ok bool, then func()) {
	var p struct{ Text string }
	if e.begun || ssh.Unmarshal(r.Payload, &p) != nil {
		return false, nil
	}
	if r.Type == "subsystem" {
		if e.begun = p.Text == SubsystemStats && e.server.Stats != nil; !e.begun {
			return false, nil
		}
		return true, func() { e.stats(ctx) }
	}
	var asked ExecRequest
	if json.Unmarshal([]byte(p.Text), &asked) != nil || len(asked.Argv) == 0 {
		return false, nil
	}
	e.begun = true
	return true, e.start(asked.Argv)
}

func winsize(cols, rows uint32) unix.Winsize {
	const most = 1<<16 - 1
	return unix.Winsize{Col: uint16(min(cols, most)), Row: uint16(min(rows, most))} //nolint:gosec // bounded
}

func (e *execution) resize(to unix.Winsize) bool {
	e.size = to
	return e.master == nil || resizeTerminal(e.master, to) == nil
}

// start starts a command and returns what carries its streams.
func (e *execution) start(argv []string) (carry func()) {
	p, err := e.pipes()
	var process Process
	if err == nil {
		command := Command{Argv: argv, Stdin: p.theirs[0], Stdout: p.theirs[1], Stderr: p.theirs[2], Terminal: e.term != ""}
		if e.term != "" {
			command.Env = []string{"TERM=" + e.term}
		}
		process, err = e.server.Starter.Start(command)
		p.started()
	}
	if err != nil {
		p.close()
		return func() {
			// Both fail only when the client has gone.
			_, _ = e.channel.SendRequest(RequestStartError, false, ssh.Marshal(StartError{Text: err.Error()}))
			_ = e.channel.Close()
		}
	}
	e.process = process
	return func() { e.carry(process, p) }
}

// pipes are both ends of a command's streams.
type pipes struct {
	// theirs are the command's: standard input, output and error.
	theirs [3]*os.File
	// in, out and err are ours. With a terminal in and out are the same, and err nil.
	in, out, err *os.File
}

// pipes makes them, of a terminal where one was asked for.
func (e *execution) pipes() (p *pipes, err error) {
	p = &pipes{}
	if e.term != "" {
		var slave *os.File
		if p.in, slave, err = openTerminal(); err != nil {
			return p, err
		}
		p.out, p.theirs, e.master = p.in, [3]*os.File{slave, slave, slave}, p.in
		return p, resizeTerminal(p.in, e.size)
	}
	if p.theirs[0], p.in, err = os.Pipe(); err == nil {
		p.out, p.theirs[1], err = os.Pipe()
	}
	if err == nil {
		p.err, p.theirs[2], err = os.Pipe()
	}
	if err != nil {
		return p, fmt.Errorf("make a pipe: %w", err)
	}
	return p, nil
}

// started lets go of the command's ends.
func (p *pipes) started() {
	for i, f := range p.theirs {
		if f != nil && (i == 0 || f != p.theirs[0]) {
			_ = f.Close() // nothing was written here
		}
	}
	p.theirs = [3]*os.File{}
}

// close lets go of all that is left.
func (p *pipes) close() {
	p.started()
	for _, f := range []*os.File{p.in, p.err, p.out} {
		if f != nil {
			_ = f.Close() // in and out may be one
		}
	}
}

// carry carries a command's streams, and says how it ended.
func (e *execution) carry(process Process, p *pipes) {
	var output, input sync.WaitGroup
	input.Go(func() {
		_, _ = io.Copy(p.in, e.channel) // ends with the command or the client
		if p.err != nil {
			_ = p.in.Close()
		}
	})
	output.Go(func() { carryOutput(e.channel, p.out) })
	if p.err != nil {
		output.Go(func() { carryOutput(e.channel.Stderr(), p.err) })
	}
	code := process.Wait()
	for _, f := range []*os.File{p.out, p.err} {
		if f != nil {
			_ = f.SetReadDeadline(time.Now()) // where there is none, the end is waited for
		}
	}
	output.Wait()
	// These fail only when the client has gone.
	_ = e.channel.CloseWrite()
	//nolint:gosec // 0 to 255
	_, _ = e.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
	_ = e.channel.Close()
	p.close()
	input.Wait()
}

// carryOutput copies until the end, or, once the deadline was set because the
// command has ended, until nothing more is there.
func carryOutput(to io.Writer, from *os.File) {
	buf := make([]byte, 32<<10)
	ended := false
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !ended {
			ended, err = true, nil
		}
		if err != nil {
			return // a terminal ends with EIO
		}
		if ended {
			_ = from.SetReadDeadline(time.Now().Add(drain)) // it could be set before
		}
	}
}

// stats answers with the task's.
func (e *execution) stats(ctx context.Context) {
	text, err := e.server.Stats(ctx)
	if err == nil {
		_, err = e.channel.Write(text)
	}
	status := uint32(0)
	if err != nil {
		status = 1
		_, _ = io.WriteString(e.channel.Stderr(), err.Error()) // fails when the client has gone
	}
	_ = e.channel.CloseWrite()
	_, _ = e.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
	_ = e.channel.Close()
}
