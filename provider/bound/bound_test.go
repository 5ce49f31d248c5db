package bound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSlots(t *testing.T) {
	s := NewSlots("requests", 2)
	free, err := s.Take()
	_, err2 := s.Take()
	if _, full := s.Take(); err != nil || err2 != nil || !errors.Is(full, ErrFull) {
		t.Fatalf("two of two: %v, %v; a third: %v", err, err2, full)
	}
	free()
	if _, err := s.Take(); err != nil {
		t.Errorf("a place was given back: %v", err)
	}
}

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares("authentications", 1, 1)
		take := func(client string) <-chan func() {
			got := make(chan func(), 1)
			go func() {
				free, err := s.Take(t.Context(), client)
				if err != nil {
					t.Errorf("%s: %v", client, err)
				}
				got <- free
			}()
			synctest.Wait()
			return got
		}
		free := <-take("a")
		waits := take("a")
		if _, err := s.Take(t.Context(), "a"); !errors.Is(err, ErrFull) {
			t.Errorf("a third of one client: %v", err)
		}
		other := <-take("b") // others do not wait for it
		select {
		case <-waits:
			t.Error("two of one client at once")
		default:
		}
		free()
		again := <-waits
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Take(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("one that gave up: %v", err)
		}
		again()
		other()
		if len(s.lanes) != 0 || s.used != 0 {
			t.Errorf("left behind: %v, %d", s.lanes, s.used)
		}
	})
}

// fakeConn is a connection of a client.
type fakeConn struct {
	net.Conn
	client string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return addr(c.client) }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) + ":1" }

func TestConns(t *testing.T) {
	type step struct {
		client string
		state  http.ConnState
	}
	idle, active := http.StateIdle, http.StateActive
	for _, tt := range []struct {
		name string
		open []step
		come string
		gone int // of open; -1: what comes is refused
	}{
		{"the one that is idle for longest", []step{{"a", active}, {"a", idle}, {"a", idle}}, "a", 1},
		{"one of a client that has many", []step{{"b", idle}, {"a", idle}, {"a", idle}}, "b", 1},
		{"one that sent nothing yet", []step{{"a", active}, {"a", http.StateNew}, {"a", idle}}, "b", 1},
		{"none that is used", []step{{"a", active}, {"a", active}, {"a", http.StateHijacked}}, "b", -1},
		{"none of a client that has fewer", []step{{"b", idle}, {"a", active}, {"a", active}}, "a", -1},
		{"the only one that is idle", []step{{"b", active}, {"a", idle}, {"c", active}}, "d", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewConns(len(tt.open))
				var below []*fakeConn
				for _, s := range tt.open {
					below = append(below, &fakeConn{client: s.client})
					served, _ := c.admit(below[len(below)-1])
					c.State(served, s.state)
					time.Sleep(time.Second)
				}
				admitted, victim := c.admit(&fakeConn{client: tt.come})
				if victim != nil {
					_ = victim.Close()
				}
				gone := -1
				for i, b := range below {
					if b.closed {
						gone = i
					}
				}
				if gone != tt.gone || (admitted == nil) != (tt.gone < 0) {
					t.Errorf("closed %d, want %d; admitted %v", gone, tt.gone, admitted != nil)
				}
				for o := range c.open {
					_ = o.Close()
					_ = o.Close() // net/http does, too
				}
				if len(c.open)+len(c.clients) != 0 {
					t.Errorf("still counted: %v %v", c.open, c.clients)
				}
			})
		})
	}
}

// TestHandshakesTakeTurns: what arrives before a first request is worked on in turn, and a turn ends
// with what its connection does next, whatever that is.
func TestHandshakesTakeTurns(t *testing.T) {
	end := map[string]func(*Conns, *conn){
		"reads on":        func(_ *Conns, o *conn) { go func() { _, _ = o.Read(make([]byte, 1)) }() },
		"answers":         func(_ *Conns, o *conn) { go func() { _, _ = o.Write([]byte("x")) }() },
		"is closed":       func(_ *Conns, o *conn) { _ = o.Close() },
		"has its request": func(c *Conns, o *conn) { c.State(o, http.StateActive) },
	}
	for name, end := range end {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewConns(10)
				most := cap(c.turns)
				arrived := make(chan *conn, most+2)
				var clients []net.Conn
				come := func() *conn {
					ours, client := net.Pipe()
					clients = append(clients, client)
					o, _ := c.admit(ours)
					go func() {
						if n, err := o.Read(make([]byte, 1)); n > 0 {
							arrived <- o
						} else if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
							t.Errorf("what waits for a turn reads %d bytes, %v", n, err)
						}
					}()
					_, _ = client.Write([]byte("h"))
					synctest.Wait()
					return o
				}
				for range most {
					come()
				}
				come()
				given := come()
				if len(arrived) != most {
					t.Fatalf("%d handshakes at once, want %d", len(arrived), most)
				}
				_ = given.Close() // it waits no longer
				first := <-arrived
				end(c, first)
				synctest.Wait()
				if len(arrived) != most {
					t.Errorf("%d handshakes at once after one that ended its turn, want %d", len(arrived), most)
				}
				for o := range c.open {
					_ = o.Close()
				}
				for _, client := range clients {
					_ = client.Close()
				}
				synctest.Wait()
				if len(c.turns) != 0 {
					t.Errorf("%d turns are still taken", len(c.turns))
				}
			})
		})
	}
	t.Run("requests need none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := NewConns(10)
			ours, client := net.Pipe()
			o, _ := c.admit(ours)
			c.State(o, http.StateActive)
			go func() { _, _ = client.Write([]byte("x")) }()
			if _, err := o.Read(make([]byte, 1)); err != nil || len(c.turns) != 0 {
				t.Errorf("%v, %d turns are taken", err, len(c.turns))
			}
			_ = o.Close()
			_ = client.Close()
		})
	})
}

func TestMetrics(t *testing.T) {
	s, c, sh := NewSlots("requests", 1), NewConns(3), NewShares("authentications", 2, 3)
	if _, err := s.Take(); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Take()
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewMetrics("kubelet_api", s, c, sh))
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP burstlet_http_refused_total Cumulative number of times that there was too much of it: a request was refused, or for a new connection an idle one or itself was closed.
# TYPE burstlet_http_refused_total counter
burstlet_http_refused_total{kind="authentications",server="kubelet_api"} 0
burstlet_http_refused_total{kind="connections",server="kubelet_api"} 0
burstlet_http_refused_total{kind="requests",server="kubelet_api"} 1
`), "burstlet_http_refused_total"); err != nil {
		t.Error(err)
	}
}
