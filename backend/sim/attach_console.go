package sim

import (
	"io"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// console is a container's program from where it reads its input on: until then
// it ran on paper. It lives in a goroutine of its own from the first attachment
// until the container ends.
type console struct {
	*live
	// replay runs the way to the input again, without effect; nil once there.
	replay *paper
	in     chan []byte
	once   bool // container.stdinOnce
	// over is closed with the program; closing ends the input, once.
	over    chan struct{}
	closing func()
}

// newConsole is called with the remote's lock held.
func newConsole(w watched) *console {
	c := w.container
	before := *c
	before.program = program{}
	k := &console{
		live:   &live{watched: w},
		replay: &paper{container: &before, before: c.program.before, now: c.program.readAt},
		in:     make(chan []byte), once: c.spec.Container.StdinOnce, over: make(chan struct{}),
	}
	k.stdin = &input{open: func() <-chan []byte { return k.in }}
	k.out = map[int]io.Writer{1: consoleLog{w, 1}, 2: consoleLog{w, 2}}
	if c.spec.Container.TTY {
		k.onTerminal()
	}
	k.closing = sync.OnceFunc(func() { go k.send(nil, k.over) })
	return k
}

// start begins the program with the first that attaches.
func (k *console) start(spec backend.AttachSpec, quit <-chan struct{}) {
	k.join(spec, quit)
	go func() {
		defer close(k.over)
		k.main()
	}()
}

// join sends input and sizes of one that attaches, until quit.
func (k *console) join(spec backend.AttachSpec, quit <-chan struct{}) {
	k.tty.Follow(spec.Resize, quit)
	if spec.Stdin == nil {
		return
	}
	data := make(chan []byte)
	go pump(spec.Stdin, data, quit)
	go func() {
		k.forward(data, quit)
		if k.once {
			k.closing()
		}
	}()
}

// forward hands on parts until their end, or that of the attachment.
func (k *console) forward(data <-chan []byte, quit <-chan struct{}) {
	for {
		select {
		case part, ok := <-data:
			if !ok || !k.send(part, quit) {
				return
			}
		case <-quit:
			return
		case <-k.over:
			return
		}
	}
}

// send hands on one part, nil being the end; false when nobody will read it.
func (k *console) send(part []byte, quit <-chan struct{}) bool {
	select {
	case k.in <- part:
		return true
	case <-quit:
	case <-k.over:
	}
	return false
}

// main runs the program to its end, which is the container's.
func (k *console) main() {
	argv := k.container.argv()
	if len(argv) == 0 {
		argv = []string{"sh"} // as a busybox image has it
	}
	status, ended := shell.Run(k, k.container.forShell(), argv)
	if !ended {
		return // until somebody stops it
	}
	now := k.remote.lock()
	defer k.remote.mu.Unlock()
	if !k.container.runs(k.attempt, now) {
		return
	}
	life := &k.container.program.Life
	life.RunFor, life.ExitCode = now.Sub(k.container.started), status
	k.remote.project(k.attempt, now)
}

// consoleLog is one output of a console.
type consoleLog struct {
	watched
	fd int
}

// Write adds to the container's log.
func (l consoleLog) Write(data []byte) (int, error) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	if l.container.runs(l.attempt, now) {
		l.record(now, l.fd, string(data))
	}
	return len(data), nil
}

// arrive begins to live: the way to the input lies behind once it took its time.
func (k *console) arrive() {
	if k.replay == nil {
		return
	}
	took := k.replay.out.RunFor
	k.replay = nil
	if left := took - k.ran(); left > 0 {
		k.live.Sleep(left)
	}
}

// ReadInput waits for what those that are attached type.
func (k *console) ReadInput() ([]byte, bool) {
	k.arrive()
	return k.live.ReadInput()
}

// Interactive is where the program stops running on paper.
func (k *console) Interactive() *terminal.Terminal {
	k.arrive()
	return k.tty
}

// Terminal is the program's own once it runs in time.
func (k *console) Terminal() *terminal.Terminal {
	if k.replay != nil {
		return nil // as it was on paper
	}
	return k.tty
}

// Listen is for as long as the container runs: it is its own program.
func (k *console) Listen(l shell.Listener) {
	if k.replay != nil {
		return // it does already
	}
	now := k.remote.lock()
	defer k.remote.mu.Unlock()
	ran := now.Sub(k.container.started)
	l.From += ran
	if l.FailingFrom > 0 {
		l.FailingFrom += ran
	}
	k.container.program.listeners = append(k.container.program.listeners, l)
}

// Sleep passes time, on paper until the program comes to its input.
func (k *console) Sleep(d time.Duration) bool {
	if k.replay != nil {
		return k.replay.Sleep(d)
	}
	return k.live.Sleep(d)
}

// Write writes to the log what is not there yet.
func (k *console) Write(fd int, text string) {
	if k.replay == nil {
		k.live.Write(fd, text)
	}
}

// Lookup sees what the container does.
func (k *console) Lookup(name string) shell.Entry {
	if k.replay == nil {
		return k.live.Lookup(name)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.Lookup(name)
}

// ReadDir sees what the container does.
func (k *console) ReadDir(dir string) ([]string, bool) {
	if k.replay == nil {
		return k.live.ReadDir(dir)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.ReadDir(dir)
}

// Change writes as the container.
func (k *console) Change(name string, op shell.Op, data string) string {
	if k.replay == nil {
		return k.live.Change(name, op, data)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.Change(name, op, data)
}

// Use changes what the container uses.
func (k *console) Use(milliCPU, memory *uint64) {
	if k.replay == nil {
		k.live.Use(milliCPU, memory)
	}
}

// Now is the time, on paper that of the program.
func (k *console) Now() time.Time {
	if k.replay != nil {
		return k.replay.Now()
	}
	return k.live.Now()
}

// Unknown is beyond the convention: on paper such a program runs until it is
// stopped.
func (k *console) Unknown(name string, inShell bool) (int32, shell.Flow) {
	if k.replay != nil {
		return 0, shell.Stay
	}
	return k.live.Unknown(name, inShell)
}
