package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CommandSupervise runs a container of the pod: `supervise -- argv...`.
const CommandSupervise = "supervise"

// codeConfig is the exit code of a container whose command was not even tried
// (containerd: a container that could not be started).
const codeConfig = 128

// supervisor runs one container as a kubelet and its runtime would.
type supervisor struct {
	task Task
	spec Spec
	// stop ends the container; asked are the signals that ask for it.
	stop  syscall.Signal
	asked []syscall.Signal

	reaper    *reaper
	container *container
	checker   checker
	main      *process
	terminal  bool

	at         addresses
	state      state
	findings   chan finding
	hooked     chan *HookFailure
	preStopped chan *HookFailure
	shortened  chan time.Duration
	ending     ending
	// work is what goes on beside the container: sessions, probes, hooks.
	work sync.WaitGroup
	// trouble is what went wrong that the container does not know of.
	trouble error
	report  Report
	// started is when the command did.
	started time.Time
}

// Supervise runs the container to its end and returns its exit code, or that of the
// signal where a container that was ended for a probe says that all is well. out
// takes its report.
func (t Task) Supervise(ctx context.Context, argv []string, out io.Writer) (int, error) {
	terminal := leaveTerminal()
	signals := catchSignals()
	surviveBrokenLog()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kills := oomKills()
	s, err := t.prepare(ctx, argv, terminal)
	if err == nil {
		err = s.run(ctx, signals, argv)
	}
	if err != nil {
		return t.tell(out, startFailure(err), time.Time{}, 0)
	}
	s.reaper.killRest(ctx)
	s.rest(ctx)
	if s.report.Exit != 0 && oomKills() > kills {
		s.report.Reason = ReasonOOMKilled
	}
	s.words(&s.report)
	return t.tell(out, s.report, s.started, s.stop)
}

// startFailure is the report of a container whose command never ran.
func startFailure(err error) Report {
	r := Report{Exit: codeConfig, Reason: ReasonStartError, Message: err.Error()}
	var why *startError
	switch {
	case errors.As(err, &why):
		r.Exit = why.code()
	case errors.Is(err, errConfig):
		r.Reason = ReasonConfigError
	}
	return r
}

// tell writes a report, as the last thing, and returns the exit code. stop is the signal
// that ended the container, if a probe did.
func (t Task) tell(out io.Writer, r Report, started time.Time, stop syscall.Signal) (int, error) {
	code := r.Exit
	if code == 0 && r.Probe != "" {
		// It is to be restarted, which is decided before the report is read.
		code = 128 + int(stop)
	}
	// Where this fails ECS alone tells of the end, later.
	_ = Life{Started: started, Ended: &End{At: time.Now(), Exit: code, Report: r}}.write(t.runDir())
	line, err := r.line()
	if err == nil {
		_, err = io.WriteString(out, line)
	}
	return code, err
}

// prepare makes what the container finds when it starts.
func (t Task) prepare(ctx context.Context, argv []string, terminal bool) (*supervisor, error) {
	spec, err := decodeSpec(t.Env(EnvSupervise))
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 {
		return nil, errors.New("no command specified")
	}
	s := &supervisor{
		task: t, spec: spec, terminal: terminal,
		findings: make(chan finding), hooked: make(chan *HookFailure, 1), preStopped: make(chan *HookFailure, 1),
		shortened: make(chan time.Duration),
	}
	if err := s.signals(); err != nil {
		return nil, err
	}
	if err := t.clearRun(); err != nil {
		return nil, err
	}
	cred, err := s.credential()
	if err != nil {
		return nil, err
	}
	at, err := t.addressesFor(ctx, spec, argv)
	if err != nil {
		return nil, err
	}
	s.at = at
	if s.reaper, err = newReaper(ctx); err != nil {
		return nil, err
	}
	if s.container, err = s.processes(cred); err != nil {
		return nil, err
	}
	s.checker = checker{output: s.container.output, address: at.first()}
	return s, s.files()
}

// signals finds out what ends the container.
func (s *supervisor) signals() error {
	image, err := signalOf(s.spec.ImageStopSignal)
	if err != nil {
		return fmt.Errorf("STOPSIGNAL of the image: %w", err)
	}
	if s.stop, err = signalOf(s.spec.StopSignal); err != nil {
		return fmt.Errorf("lifecycle.stopSignal: %w", err)
	}
	if s.spec.StopSignal == "" {
		s.stop = image
	}
	s.asked = []syscall.Signal{syscall.SIGTERM, image, s.stop}
	return nil
}

// clearRun makes the run directory root's, without what a container left that ran
// before in the same place.
func (t Task) clearRun() error {
	dir := t.runDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("prepare %s: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("prepare %s: %w", dir, err)
	}
	for _, name := range []string{healthFile, lifeFile, AgentSocket} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("prepare %s: %w", dir, err)
		}
	}
	return nil
}

// credential is who the container's processes are, with what they may.
func (s *supervisor) credential() (credential, error) {
	cred, err := credentialOf(s.task.etc(), s.spec.Identity)
	if err != nil {
		return cred, err
	}
	has, err := boundingSet()
	if err != nil {
		return cred, err
	}
	cred.Keep, err = keptCapabilities(has, s.spec.Identity.Drop, s.spec.Identity.Add)
	return cred, err
}

// addressesFor are the task's, if somebody needs to know them.
func (t Task) addressesFor(ctx context.Context, spec Spec, argv []string) (addresses, error) {
	needed := spec.Hosts != nil || late(argv) || late(t.Environ)
	for _, p := range []*Probe{spec.Startup, spec.Liveness, spec.Readiness} {
		needed = needed || p != nil && p.Exec == nil
	}
	for _, h := range []*Handler{spec.PostStart, spec.PreStop} {
		needed = needed || h != nil && h.HTTP != nil
	}
	if !needed {
		return nil, nil
	}
	return t.addresses(ctx)
}

// processes is where the container's processes come from.
func (s *supervisor) processes(cred credential) (*container, error) {
	encoded, err := json.Marshal(cred)
	if err != nil {
		return nil, fmt.Errorf("encode the credential: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	host := namesIn(s.task.Env(EnvHostname)).host
	return &container{
		reaper: s.reaper, credential: string(encoded), uid: cred.UID, dir: dir,
		env: childEnv(s.task.Environ, s.spec.Kept, s.at, cred, host),
	}, nil
}

// files makes those that are the pod's.
func (s *supervisor) files() error {
	if s.spec.Hosts != nil {
		if err := s.hosts(*s.spec.Hosts); err != nil {
			return err
		}
	}
	if s.spec.DNS != nil {
		if err := writeResolver(s.task.etc(), *s.spec.DNS); err != nil {
			return fmt.Errorf("dnsPolicy and dnsConfig: %w", err)
		}
	}
	if s.spec.InMemory != nil {
		if err := s.spec.InMemory.give(); err != nil {
			return err
		}
	}
	for _, p := range s.spec.SubPaths {
		if err := p.link(s.container.env); err != nil {
			return err
		}
	}
	return makeMessage(s.messagePath())
}

// hosts makes /etc/hosts the pod's. Where it cannot be written to, because the root
// file system is read-only, a pod without hostAliases goes without its own name there:
// the task's stands in it.
func (s *supervisor) hosts(h Hosts) error {
	kernel, err := os.Hostname()
	if err != nil {
		return err
	}
	err = writeHosts(s.task.etc(), h, s.at, namesIn(s.task.Env(EnvHostname)), kernel)
	if errors.Is(err, unix.EROFS) && len(h.Aliases) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hostAliases: %w", err)
	}
	return nil
}

// run starts the command and watches over it until it ends. An error is that it
// never ran.
func (s *supervisor) run(ctx context.Context, signals <-chan os.Signal, argv []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	socket, err := ListenAgent(filepath.Join(s.task.runDir(), AgentSocket))
	if err != nil {
		return fmt.Errorf("prepare sessions: %w", err)
	}
	argv = slices.Clone(argv)
	for i := range argv {
		argv[i] = s.at.replace(argv[i])
	}
	s.main, err = s.container.start(Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		&syscall.SysProcAttr{Setsid: true, Setctty: s.terminal})
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	s.started = time.Now()
	s.work.Go(func() {
		server := Server{
			Starter: s.container, Shorten: s.askedToShorten, Log: log.New(io.Discard, "", 0), // stderr is the container's
		}
		// Nobody is there to be told; the container goes on without sessions.
		_ = server.Serve(ctx, socket)
	})
	if err := s.watch(ctx, signals); err != nil {
		return err
	}
	s.report.Exit = s.main.Wait()
	s.changed(func(st *state) { st.ended = true })
	return nil
}

// rest waits a moment for what goes on beside a container that has ended.
func (s *supervisor) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftOver)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
