package bound

import (
	"container/list"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// kindConns names connections in metrics.
const kindConns = "connections"

// Conns bounds the connections of an http.Server: it accepts them by Listener, and is
// told of their states by State.
//
// When there are too many, a new one takes the place of one on which nothing happens: of
// the client that has the most of them the one that is idle for longest. So nobody can
// keep others out by connections that do nothing. A client does not take the place of one
// that has fewer connections.
//
// Connections whose first request has not arrived yet take turns, one for every two cores and
// at least one: what else the process does never waits behind a flood of TLS handshakes.
type Conns struct {
	most  int
	turns chan struct{} // full while as many compute as may

	mu      sync.Mutex
	open    map[*conn]struct{}
	clients map[string]*peer // by address
	refused int64
}

// peer is a client.
type peer struct {
	open int       // its connections
	idle list.List // those of them, *conn, that have no request under way, longest idle first
}

// NewConns bounds a server to so many connections.
func NewConns(most int) *Conns {
	return &Conns{
		most: most, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		open: make(map[*conn]struct{}), clients: make(map[string]*peer),
	}
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	owner  *Conns
	client string
	once   sync.Once
	closed chan struct{}

	// greeted is true from its first request on; computing while it has one of the owner's turns.
	greeted, computing atomic.Bool

	// The owner's lock guards these.
	idle  *list.Element // in its client's list; nil while a request is under way, and when it no longer counts
	since time.Time
}

// Listener returns l with the bound.
func (c *Conns) Listener(l net.Listener) net.Listener { return listener{l, c} }

type listener struct {
	net.Listener
	conns *Conns
}

// Accept returns the next connection that has a place.
func (l listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server looks at it
		}
		admitted, victim := l.conns.admit(accepted)
		if victim != nil {
			_ = victim.Close() // it is given up
		}
		if admitted != nil {
			return admitted, nil
		}
		_ = accepted.Close() // it was refused
	}
}

// State is for http.Server.ConnState. The server's own connection may be TLS above ours.
func (c *Conns) State(served net.Conn, state http.ConnState) {
	if t, ok := served.(interface{ NetConn() net.Conn }); ok {
		served = t.NetConn()
	}
	ours, ok := served.(*conn)
	if !ok {
		return
	}
	if state != http.StateNew {
		ours.greeted.Store(true)
		ours.endTurn()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, counted := c.open[ours]; counted {
		c.rest(ours, state == http.StateNew || state == http.StateIdle)
	}
}

// rest notes whether a connection is idle from now on. The lock is held.
func (c *Conns) rest(o *conn, idle bool) {
	p := c.clients[o.client]
	if o.idle != nil {
		p.idle.Remove(o.idle)
		o.idle = nil
	}
	if idle {
		o.idle, o.since = p.idle.PushBack(o), time.Now()
	}
}

// admit counts a new connection, and names the one that has to go for it. It returns nil
// for one that has no place.
func (c *Conns) admit(accepted net.Conn) (admitted, victim *conn) {
	client := Client(accepted.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most {
		c.refused++
		if victim = c.victim(client); victim == nil {
			return nil, nil
		}
		c.forget(victim)
	}
	admitted = &conn{Conn: accepted, owner: c, client: client, closed: make(chan struct{})}
	c.open[admitted] = struct{}{}
	p := c.clients[client]
	if p == nil {
		p = &peer{}
		c.clients[client] = p
	}
	p.open++
	c.rest(admitted, true)
	return admitted, victim
}

// victim is the connection that makes room for one of the client; nil if there is none.
// Floods bring many: it looks at clients, not at their connections.
func (c *Conns) victim(client string) *conn {
	mine := 0
	if p := c.clients[client]; p != nil {
		mine = p.open
	}
	var found *conn
	for _, p := range c.clients {
		first := p.idle.Front()
		if first == nil || p.open < mine {
			continue
		}
		o, _ := first.Value.(*conn)
		if found == nil || p.open > c.clients[found.client].open ||
			p.open == c.clients[found.client].open && o.since.Before(found.since) {
			found = o
		}
	}
	return found
}

// forget stops counting a connection. The lock is held.
func (c *Conns) forget(o *conn) {
	if _, counted := c.open[o]; !counted {
		return
	}
	c.rest(o, false)
	delete(c.open, o)
	p := c.clients[o.client]
	if p.open--; p.open == 0 {
		delete(c.clients, o.client)
	}
}

// Read returns what has arrived, before the first request in turn: handshakes compute between what
// they read and what they write.
func (o *conn) Read(p []byte) (int, error) {
	o.endTurn()
	n, err := o.Conn.Read(p)
	if n > 0 && !o.greeted.Load() {
		select {
		case o.owner.turns <- struct{}{}:
			o.computing.Store(true)
		case <-o.closed: // what it brought is worth no work any more
			return 0, net.ErrClosed
		}
	}
	return n, err //nolint:wrapcheck // the connection's own
}

// Write sends, which ends a turn: it may have to wait for the client.
func (o *conn) Write(p []byte) (int, error) {
	o.endTurn()
	return o.Conn.Write(p) //nolint:wrapcheck // the connection's own
}

// endTurn lets another connection compute.
func (o *conn) endTurn() {
	if o.computing.CompareAndSwap(true, false) {
		<-o.owner.turns
	}
}

// Close ends the connection.
func (o *conn) Close() error {
	o.endTurn()
	o.once.Do(func() {
		close(o.closed)
		o.owner.mu.Lock()
		defer o.owner.mu.Unlock()
		o.owner.forget(o)
	})
	return o.Conn.Close() //nolint:wrapcheck // the connection's own
}

func (c *Conns) reading() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return reading{kindConns, int64(c.most), int64(len(c.open)), c.refused}
}

// Client is what tells clients apart by an address: the address without its port.
func Client(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
