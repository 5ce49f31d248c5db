package simrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/pause"
)

const (
	// handshakeTimeout bounds one attempt to connect.
	handshakeTimeout = 10 * time.Second
	// firstRetry and lastRetry are the pauses between attempts to reconnect,
	// each twice the one before.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// maxConns is how many calls are under way at once; more wait. It is below the
	// usual backlog of a listener (somaxconn), beyond which connect fails.
	maxConns = 1024
	// idleConns is how many connections are kept for the next calls.
	idleConns = 128
	// idleTimeout is for how long they are.
	idleTimeout = time.Minute
)

// Config says which server to connect to, and as whom.
type Config struct {
	// Socket is the path that the server listens on.
	Socket string
	// Node is the identity under which pods are owned.
	Node string
	// Leader names the leader of the node whose changes these are: the server makes those
	// of the last one alone. Empty: there is no election.
	Leader string
	// May is asked of each request that changes something at the moment it is sent. Nil
	// permits none.
	May backend.Permit
	// Version is the program's, for the message of a version mismatch.
	Version string
	// Check is the remote's checker, which is pure: it runs here. Required.
	Check backend.Checker

	// dial replaces the socket in tests.
	dial func(context.Context) (net.Conn, error)
}

// Connect asks the server what it lends and returns a backend that lends the
// same. Its Run keeps the connection, and makes it anew when the server has
// gone; meanwhile calls fail as Unavailable. Errors: Unavailable when nobody
// answers, Unsupported when the server is of another version.
//
// Run ends with an error when a server comes back that lends something else
// than the one before: the engine has planned with that.
func Connect(ctx context.Context, cfg Config) (backend.Backend, error) {
	if cfg.Check == nil {
		return backend.Backend{}, backend.Errorf(backend.ErrInvalid, "connect to the sim: no checker is given")
	}
	if cfg.dial == nil {
		cfg.dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", cfg.Socket)
		}
	}
	c := &client{cfg: cfg, changes: changing(), down: errors.New("it is not running")}
	if cfg.Leader != "" {
		c.leader = fence.NewTaker(cfg.Leader, cfg.May.Ask, c.askLeader)
	}
	c.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return cfg.dial(ctx) },
		MaxConnsPerHost:     maxConns,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	s, shaken, err := c.shake(ctx, false)
	if err != nil {
		return backend.Backend{}, fmt.Errorf("connect to the sim: %w", err)
	}
	s.close()
	c.agreed = shaken
	return c.backend(), nil
}

// client is the near side of the connection.
type client struct {
	cfg       Config
	transport *http.Transport // of unary calls
	leader    *fence.Taker    // nil: there is no election
	changes   map[intercept.Name]string
	agreed    handshake

	mu   sync.RWMutex
	down error // why there is no connection; nil while there is one
}

// run keeps the connection until the context ends.
func (c *client) run(ctx context.Context) error {
	defer c.transport.CloseIdleConnections()
	defer c.setDown(errors.New("it is not running"))
	retry := firstRetry
	for {
		connected, err := c.stay(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, backend.ErrUnsupported):
			return fmt.Errorf("reconnect to the sim: %w", err)
		case connected:
			log.G(ctx).WithField("socket", c.cfg.Socket).WithError(err).Warn("the sim has gone, trying to reconnect")
			retry = firstRetry
		}
		c.setDown(err)
		if pause.For(ctx, retry) != nil {
			return nil
		}
		retry = min(2*retry, lastRetry)
	}
}

// stay is connected until the connection breaks, which is its error.
func (c *client) stay(ctx context.Context) (connected bool, err error) {
	s, shaken, err := c.shake(ctx, true)
	if err != nil {
		return false, err
	}
	defer s.close()
	was := c.agreed
	was.Version = shaken.Version
	if !reflect.DeepEqual(was, shaken) {
		return false, backend.Errorf(backend.ErrUnsupported,
			"it lends something else than the one before (%+v, before %+v): restart to use it", shaken, was)
	}
	c.setDown(nil)
	c.lead(ctx)
	log.G(ctx).WithField("socket", c.cfg.Socket).Debug("connected to the sim")
	if _, err = s.in.Peek(1); err == nil {
		err = errors.New("the server says more than the handshake")
	}
	return true, lost(ctx, "stay connected", err)
}

// shake asks the server what it lends. With hold the stream stays open.
func (c *client) shake(ctx context.Context, hold bool) (*stream, handshake, error) {
	inner, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(handshakeTimeout, cancel)
	s, shaken, err := c.shakeUntil(inner, hold)
	if !timer.Stop() && ctx.Err() == nil {
		if err == nil {
			s.close()
		}
		err = backend.Errorf(backend.ErrUnavailable, "no answer within %v", handshakeTimeout)
	}
	if err != nil {
		cancel()
		return nil, handshake{}, err
	}
	s.end = cancel
	return s, shaken, nil
}

func (c *client) shakeUntil(ctx context.Context, hold bool) (*stream, handshake, error) {
	var shaken handshake
	s, err := c.open(ctx, handshakePath, warrant{}, handshakeRequest{Hold: hold}, http.StatusOK)
	if err != nil {
		return nil, shaken, err
	}
	var data json.RawMessage
	if err = json.NewDecoder(s.resp.Body).Decode(&data); err != nil {
		s.close()
		return nil, shaken, lost(ctx, "read handshake", err)
	}
	if err = c.agree(data, &shaken); err != nil {
		s.close()
		return nil, shaken, err
	}
	return s, shaken, nil
}

// agree reads a handshake of this protocol.
func (c *client) agree(data []byte, shaken *handshake) error {
	var version struct {
		Protocol int
		Version  string
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return backend.Errorf(backend.ErrUnsupported, "read handshake: %w", err)
	}
	if version.Protocol != protocol {
		return backend.Errorf(backend.ErrUnsupported,
			"the server (version %q) speaks protocol %d, this program (version %q) %d: run both from one version",
			version.Version, version.Protocol, c.cfg.Version, protocol)
	}
	if err := json.Unmarshal(data, shaken); err != nil {
		return backend.Errorf(backend.ErrUnsupported, "read handshake: %w", err)
	}
	return nil
}

func (c *client) setDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

// ready is nil while there is a connection.
func (c *client) ready(call string) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.down != nil {
		return backend.Errorf(backend.ErrUnavailable, "%s: no connection to the sim: %w", call, c.down)
	}
	return nil
}
