package sshlink

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
)

var (
	errNotRunning = backend.Errorf(backend.ErrUnavailable, "the link to the pods' host is not running")
	errConnecting = backend.Errorf(backend.ErrUnavailable, "the pods' host is not connected yet")
	errStopped    = errors.New("the link to the pods' host was stopped")
)

// line is one connection to the host, made again whenever it ends.
type line struct {
	name   string
	cfg    Config
	dial   dialFunc
	signal *signal
	// work are the goroutines of its connections.
	work sync.WaitGroup

	traffic traffic

	mu     sync.Mutex
	live   *connection
	reason error
	counts counts
}

func newLine(name string, cfg Config, dial dialFunc, signal *signal) *line {
	return &line{name: name, cfg: cfg, dial: dial, signal: signal, reason: errNotRunning}
}

// current is the connection that is up, else the reason why none is.
func (l *line) current() (*connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == nil {
		return nil, l.reason
	}
	return l.live, nil
}

func (l *line) err() error {
	_, err := l.current()
	return err
}

func (l *line) set(live *connection, reason error) {
	l.mu.Lock()
	l.live, l.reason = live, reason
	l.mu.Unlock()
	l.signal.raise()
}

// run connects, holds, and connects again.
func (l *line) run(ctx context.Context) {
	defer l.work.Wait()
	defer l.set(nil, errNotRunning)
	l.set(nil, errConnecting)
	logger := log.G(ctx).WithField("host", l.cfg.Address).WithField("connection", l.name)
	var pauses backoff
	for told := ""; ctx.Err() == nil; {
		began := time.Now()
		c, err := l.connect(ctx)
		connected := err == nil
		if connected {
			logger.Info("connected to the pods' host")
			told = ""
			err = l.hold(ctx, c)
			if time.Since(began) > longestPause {
				pauses.reset()
			}
		}
		if ctx.Err() != nil {
			return
		}
		l.count(connected, err)
		l.set(nil, err)
		if told != err.Error() {
			logger.WithError(err).Warn("the pods' host cannot be reached")
			told = err.Error()
		}
		_ = pause.For(ctx, pauses.pause(err)) // the loop ends with the context
	}
}

// hold lends the connection until it dies or the context ends, and says why.
func (l *line) hold(ctx context.Context, c *connection) error {
	l.countConnect()
	l.set(c, nil)
	select {
	case <-c.dead:
	case <-ctx.Done():
		c.fail(errStopped)
	}
	return c.lost()
}
