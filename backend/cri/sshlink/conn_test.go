package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sshchannel"
)

// connected is a connection to an endpoint of the host that serve plays.
func connected(t *testing.T, serve func(io.ReadWriteCloser)) net.Conn {
	t.Helper()
	w := newWorld(t)
	w.server.endpoints["10.0.0.9:9"] = serve
	conn, err := w.up(t).Control().DialContext(t.Context(), "tcp", "10.0.0.9:9")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// never reads nor writes, until the channel ends.
func never(t *testing.T) func(io.ReadWriteCloser) {
	ctx := t.Context()
	return func(io.ReadWriteCloser) { <-ctx.Done() }
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) && errors.As(err, &netErr) && netErr.Timeout()
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, echoBack)
		began := time.Now()
		if err := conn.SetReadDeadline(began.Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !isTimeout(err) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := conn.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("a passed deadline holds no more: %v", err)
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		roundTrip(t, conn, "nothing was lost")
	})
}

func TestDeadlineEndsAWaitingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, echoBack)
		read := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !isTimeout(err) {
			t.Error(err)
		}
	})
}

func TestWriteDeadlineWhenNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, never(t))
		began := time.Now()
		if err := conn.SetWriteDeadline(began.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Write(make([]byte, 16<<20))
		if !isTimeout(err) || time.Since(began) != time.Second || n == 0 || n == 16<<20 {
			t.Errorf("wrote %d in %v: %v", n, time.Since(began), err)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); !isTimeout(err) {
			t.Errorf("behind what is stuck: %v", err)
		}
	})
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, never(t))
		ended := make(chan error, 2)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
		go func() {
			_, err := conn.Write(make([]byte, 16<<20))
			ended <- err
		}()
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		if _, err := conn.Read(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
		if err := conn.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("deadline after close: %v", err)
		}
	})
}

func TestClosedChannelsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ended := make(chan struct{}, 100)
		w.server.endpoints["10.0.0.9:9"] = func(rw io.ReadWriteCloser) {
			echoBack(rw)
			ended <- struct{}{}
		}
		l := w.up(t)
		for range 100 {
			conn, err := l.Control().DialContext(t.Context(), "tcp", "10.0.0.9:9")
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, conn, "x")
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			<-ended
			synctest.Wait()
			select {
			case <-conn.(*sshchannel.Conn).Gone():
			default:
				t.Fatal("the channel is still open")
			}
		}
	})
}

func TestOtherSideHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, func(rw io.ReadWriteCloser) { _, _ = io.WriteString(rw, "bye") })
		got, err := io.ReadAll(conn)
		if string(got) != "bye" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		synctest.Wait()
		if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestCloseWriteEndsOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connected(t, func(rw io.ReadWriteCloser) {
			data, _ := io.ReadAll(rw)
			_, _ = fmt.Fprintf(rw, "got %d", len(data))
		})
		if _, err := conn.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); string(got) != "got 100000" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestDialFailuresAreTheHosts(t *testing.T) {
	for name, tc := range map[string]struct {
		network, address, text, word string
		change                       func(*sshServer)
		is                           error
		want                         string
	}{
		"refused": {
			"tcp", "10.0.0.2:80", "Connection refused", "", nil, syscall.ECONNREFUSED,
			"dial tcp 10.0.0.2:80: connect: connection refused",
		},
		"no route": {
			"tcp", "10.0.0.2:80", "No route to host", "", nil, syscall.EHOSTUNREACH,
			"dial tcp 10.0.0.2:80: connect: no route to host",
		},
		"musl": {
			"tcp", "10.0.0.2:80", "Host is unreachable", "", nil, syscall.EHOSTUNREACH,
			"dial tcp 10.0.0.2:80: connect: no route to host",
		},
		"timed out": {
			"tcp", "10.0.0.2:80", "Connection timed out", "", nil, syscall.ETIMEDOUT,
			"dial tcp 10.0.0.2:80: connect: connection timed out",
		},
		"no network": {
			"tcp", "[2001:db8::2]:80", "Network is unreachable", "", nil, syscall.ENETUNREACH,
			"dial tcp [2001:db8::2]:80: connect: network is unreachable",
		},
		"no name": {
			"tcp", "nowhere:80", "Name or service not known", "", nil, nil,
			"dial tcp nowhere:80: lookup nowhere: Name or service not known",
		},
		"other words": {"tcp", "10.0.0.2:80", "out of cheese", "", nil, nil, "dial tcp 10.0.0.2:80: connect: out of cheese"},
		"prohibited": {
			"tcp", "10.0.0.1:80", "", "", func(s *sshServer) { s.noTCP = true }, backend.ErrDenied,
			"does not forward to 10.0.0.1:80: allow it with AllowTcpForwarding yes",
		},

		"socket missing": {
			"unix", "/x", "", "missing", nil, os.ErrNotExist, "dial unix /x: connect: no such file or directory",
		},
		"socket denied": {"unix", "/x", "", "denied", nil, os.ErrPermission, "dial unix /x: connect: permission denied"},
		"socket refused": {
			"unix", "/x", "", "refused", nil, syscall.ECONNREFUSED, "dial unix /x: connect: connection refused",
		},
		"socket prohibited": {
			"unix", "/run/runtime.sock", "", "listening", func(s *sshServer) { s.noSockets = true }, backend.ErrDenied,
			"does not forward /run/runtime.sock: allow it with AllowStreamLocalForwarding yes",
		},
		"socket unknown": {"unix", "/x", "", "", nil, backend.ErrUnavailable, "dial unix /x: connect: open failed"},
		"no shell": {
			"unix", "/x", "", "", func(s *sshServer) { s.noExec = true }, backend.ErrDenied,
			"dial unix /x: connect: open failed (and the host cannot be asked why: the host runs no command for this user)",
		},
		"bad network": {"udp", "10.0.0.1:53", "", "", nil, nil, "dial udp: unknown network udp"},
		"bad address": {"tcp", "10.0.0.1", "", "", nil, nil, "missing port in address"},
		"bad port":    {"tcp", "10.0.0.1:99999", "", "", nil, nil, "invalid port"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if tc.text != "" {
					w.server.failures[tc.address] = tc.text
				}
				w.server.socketWord = tc.word
				if tc.change != nil {
					tc.change(w.server)
				}
				l := w.link(t)
				time.Sleep(time.Second)
				_, err := l.Control().DialContext(t.Context(), tc.network, tc.address)
				if tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(fmt.Sprint(err), tc.want) {
					t.Errorf("error %v, want %s", err, tc.want)
				}
				var opErr *net.OpError
				if !errors.As(err, &opErr) {
					t.Errorf("not a *net.OpError: %T", err)
				}
				if tc.is == nil && errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("%v is the host's failure, not the link's", err)
				}
			})
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		w.network.interrupt()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Control().DialContext(ctx, "tcp", "10.0.0.1:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		w.network.mend()
		synctest.Wait()
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Error(l.Err())
		}
	})
}
