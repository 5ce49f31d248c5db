package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

const (
	// greetTimeout bounds the helper's first answer.
	greetTimeout = 20 * time.Second
	// steady is how long a helper runs before its end counts as a first failure.
	steady = 30 * time.Second
	// longestLine bounds a line of the helper's log; maxLines the lines of one helper.
	longestLine = 1 << 10
	maxLines    = 1000
)

var errNoHelper = backend.Errorf(backend.ErrUnavailable, "the helper on the pods' host is not running yet")

// assistant keeps a helper running on a line's connection.
type assistant struct {
	line *line
	// wanted is closed when somebody wants a helper: one that nobody needs is not
	// brought to the host at every connection.
	wanted chan struct{}
	want   func()

	mu     sync.Mutex
	client Client
	reason error
}

func newAssistant(l *line) *assistant {
	wanted := make(chan struct{})
	return &assistant{line: l, wanted: wanted, want: sync.OnceFunc(func() { close(wanted) }), reason: errNotRunning}
}

// current is the helper that runs, else the reason why none does.
func (a *assistant) current() (Client, error) {
	if err := a.line.err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil {
		return nil, a.reason
	}
	return a.client, nil
}

// ready is current, after waiting for a helper that is being started.
func (a *assistant) ready(ctx context.Context) (Client, error) {
	return settled(ctx, a.line.signal, a.current)
}

func (a *assistant) err() error {
	_, err := a.current()
	return err
}

func (a *assistant) set(client Client, reason error) {
	a.mu.Lock()
	a.client, a.reason = client, reason
	a.mu.Unlock()
	a.line.signal.raise()
}

// run starts the helper whenever the connection is up and none runs.
func (a *assistant) run(ctx context.Context) {
	defer a.set(nil, errNotRunning)
	a.set(nil, errNoHelper)
	select {
	case <-a.wanted:
	case <-ctx.Done():
		return
	}
	logger := log.G(ctx).WithField("host", a.line.cfg.Address).WithField("connection", a.line.name)
	var pauses backoff
	for told := ""; ; {
		c, ok := a.line.next(ctx)
		if !ok {
			return
		}
		began := time.Now()
		err := a.serve(ctx, c)
		if ctx.Err() != nil {
			return
		}
		a.set(nil, errNoHelper)
		if c.dying() {
			// The line logs the reason; the next connection comes soon.
			pauses.reset()
			continue
		}
		if time.Since(began) > steady {
			told = ""
			pauses.reset()
		}
		a.set(nil, unavailable(fmt.Errorf("the helper on %s does not run: %w", c.hop.Address, err)))
		if told != err.Error() {
			logger.WithError(err).Warn("the helper on the pods' host does not run")
			told = err.Error()
		}
		if !a.rest(ctx, c, pauses.pause(err)) {
			return
		}
	}
}

// unavailable gives an error its class, unless it has the one that people act on.
func unavailable(err error) error {
	if errors.Is(err, backend.ErrDenied) {
		return err
	}
	return backend.Classed(backend.ErrUnavailable, err)
}

// next waits for a connection that is up.
func (l *line) next(ctx context.Context) (*connection, bool) {
	for {
		changed := l.signal.wait()
		if c, err := l.current(); err == nil && !c.dying() {
			return c, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// rest waits before the next try, unless there is a new connection before.
func (a *assistant) rest(ctx context.Context, c *connection, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.dead:
	case <-ctx.Done():
		return false
	}
	return true
}

// serve starts one helper and lends it until it ends, and says why.
func (a *assistant) serve(ctx context.Context, c *connection) error {
	h, err := startHelper(ctx, a.line.cfg, c, true)
	if err != nil {
		return err
	}
	a.set(h.client, nil)
	log.G(ctx).WithField("host", c.hop.Address).WithField("connection", a.line.name).Debug("the helper runs")
	select {
	case <-h.client.Done():
	case <-h.session.Gone():
	case <-c.dead:
	case <-ctx.Done():
	}
	a.set(nil, errNoHelper)
	return h.end(ctx)
}

// running is a helper with its session.
type running struct {
	client  Client
	session *session
	said    *complaints
	// offset is how far the host's clock is ahead; it may be wrong by the doubt.
	offset, doubt time.Duration
}

// startHelper brings a helper to the host if it is not there, starts it, and hears from it.
// Its file stays for later connections only if it is to be kept.
func startHelper(ctx context.Context, cfg Config, c *connection, keep bool) (*running, error) {
	m, err := c.identify(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.becomeRoot(ctx, m); err != nil {
		return nil, err
	}
	program, err := cfg.Helper(m.goarch)
	if err != nil {
		return nil, fmt.Errorf("get the helper for %s: %w", m.goarch, err)
	}
	helper := packedHelper(program)
	helper.keep = keep
	dir, unpacks, err := c.find(ctx, m, helper)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		h, err := startIn(ctx, cfg, c, m, dir, helper)
		if err == nil || ctx.Err() != nil || c.dying() {
			return h, err
		}
		log.G(ctx).WithError(err).WithField("dir", dir).Warn(
			"the helper that was on the host does not start, and is brought there again",
		)
	}
	if dir, err = c.upload(ctx, m, helper, unpacks); err != nil {
		return nil, err
	}
	return startIn(ctx, cfg, c, m, dir, helper)
}

// startIn starts the helper in a directory, and hears from it.
func startIn(ctx context.Context, cfg Config, c *connection, m machine, dir string, p packed) (*running, error) {
	h := &running{said: &complaints{entry: log.G(ctx).WithField("host", c.hop.Address).WithField("from", "helper")}}
	var err error
	if h.session, err = c.start(ctx, m.startHelper(dir, p, cfg.HelperArgs), h.said); err != nil {
		return nil, fmt.Errorf("start the helper: %w", err)
	}
	h.client = cfg.NewClient(h.session)
	greet, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	asked := time.Now()
	facts, err := h.client.Facts(greet)
	if err != nil {
		return nil, fmt.Errorf("hear from the helper: %w", errors.Join(err, h.end(ctx)))
	}
	h.doubt = time.Since(asked) / 2
	h.offset = facts.Now.Sub(asked.Add(h.doubt))
	return h, nil
}

// end ends the helper and says how it ended.
func (h *running) end(ctx context.Context) error {
	closeErr := h.client.Close()
	exit := errors.New("still ends")
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-h.session.Gone():
		exit = h.session.result()
	case <-h.session.on.dead:
		return h.session.on.lost()
	case <-ctx.Done():
	case <-timer.C:
	}
	h.session.hang()
	if exit == nil {
		exit = errors.New("ended")
	}
	if said := oneLine(h.said.last.String()); said != "" {
		exit = fmt.Errorf("%w: %s", exit, said)
	}
	if closeErr != nil && !h.session.on.dying() {
		log.G(ctx).WithError(closeErr).Debug("close the helper's stream")
	}
	return exit
}

// complaints log what a helper writes to its standard error, within bounds.
type complaints struct {
	entry *log.Entry
	last  tail
	// line is what has come of the line that is not complete; lines counts those
	// that were.
	line  []byte
	lines int
}

// Write takes a piece; it is called by one goroutine.
func (w *complaints) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			if len(w.line) < longestLine {
				w.line = append(w.line, b)
			}
			continue
		}
		w.tell()
	}
	return len(p), nil
}

func (w *complaints) tell() {
	text := string(bytes.TrimSpace(w.line))
	w.line = w.line[:0]
	if text == "" {
		return
	}
	w.last.keep(text)
	w.lines++
	switch {
	case w.lines < maxLines:
		w.entry.WithField("text", text).Warn("the helper on the pods' host says")
	case w.lines == maxLines:
		w.entry.Warn("the helper on the pods' host says too much: the rest is not logged")
	}
}
