package sim

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
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
	k.tty.resizing(spec.Resize, quit)
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
	spec := &k.container.spec.Container
	argv := slices.Concat(spec.Command, spec.Args)
	if len(argv) == 0 {
		argv = []string{"sh"} // as a busybox image has it
	}
	p := newProcess(k, k.container)
	if p.runArgv(argv) == stays {
		return // until somebody stops it
	}
	now := k.remote.lock()
	defer k.remote.mu.Unlock()
	if !k.container.runs(k.attempt, now) {
		return
	}
	life := &k.container.program.Life
	life.RunFor, life.ExitCode = now.Sub(k.container.started), p.status
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
		k.live.sleep(left)
	}
}

func (k *console) next() ([]byte, bool) {
	k.arrive()
	return k.live.next()
}

func (k *console) interactive() *terminal {
	k.arrive()
	return k.tty
}

func (k *console) terminal() *terminal {
	if k.replay != nil {
		return nil // as it was on paper
	}
	return k.tty
}

// listen is for as long as the container runs: it is its own program.
func (k *console) listen(l listener) {
	if k.replay != nil {
		return // it does already
	}
	now := k.remote.lock()
	defer k.remote.mu.Unlock()
	ran := now.Sub(k.container.started)
	l.from += ran
	if l.failing > 0 {
		l.failing += ran
	}
	k.container.program.listeners = append(k.container.program.listeners, l)
}

func (k *console) sleep(d time.Duration) bool {
	if k.replay != nil {
		return k.replay.sleep(d)
	}
	return k.live.sleep(d)
}

func (k *console) emit(fd int, text string) {
	if k.replay == nil {
		k.live.emit(fd, text)
	}
}

func (k *console) look(name string) entry {
	if k.replay == nil {
		return k.live.look(name)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.look(name)
}

func (k *console) list(dir string) ([]string, bool) {
	if k.replay == nil {
		return k.live.list(dir)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.list(dir)
}

func (k *console) change(name string, op writeOp, data string) string {
	if k.replay == nil {
		return k.live.change(name, op, data)
	}
	k.remote.lock()
	defer k.remote.mu.Unlock()
	return k.replay.change(name, op, data)
}

func (k *console) uses(change func(*load)) {
	if k.replay == nil {
		k.live.uses(change)
	}
}

func (k *console) clock() time.Time {
	if k.replay != nil {
		return k.replay.clock()
	}
	return k.live.clock()
}

// unknown is beyond the convention: on paper such a program runs until it is
// stopped.
func (k *console) unknown(name string, shell bool) (int32, flow) {
	if k.replay != nil {
		return 0, stays
	}
	return k.live.unknown(name, shell)
}
