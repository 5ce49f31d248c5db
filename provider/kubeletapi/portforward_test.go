package kubeletapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/burstlet/burstlet/backend"
)

// ports are what listens in a pod; others refuse.
type ports map[uint16]func(*net.TCPConn)

// forward connects to the pod's ports over loopback.
func (p ports) forward(t *testing.T) func(context.Context, backend.Ref, uint16) (net.Conn, error) {
	t.Helper()
	addrs := map[uint16]string{}
	for port, handle := range p {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		addrs[port] = listener.Addr().String()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					handle(conn.(*net.TCPConn))
				}()
			}
		}()
	}
	return func(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
		if pod.Namespace != "ns" || pod.Name != "p" {
			t.Errorf("pod %+v", pod)
		}
		addr, ok := addrs[port]
		if !ok {
			return nil, fmt.Errorf("dial tcp4 127.0.0.1:%d: %w", port, syscall.ECONNREFUSED)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// atEnd answers when the client has said all.
func atEnd(conn *net.TCPConn) {
	if data, err := io.ReadAll(conn); err == nil {
		_, _ = conn.Write(bytes.ToUpper(data))
	}
}

// greeting speaks first, and goes.
func greeting(conn *net.TCPConn) { _, _ = io.WriteString(conn, "220 welcome\r\n") }

// endless speaks until it is no longer heard.
func endlessPort(ended chan<- struct{}) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		defer close(ended)
		for {
			if _, err := conn.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}
}

func (s *served) dialer(t *testing.T, path string) httpstream.Dialer {
	t.Helper()
	rt, upgrader, err := spdy.RoundTripperFor(s.client())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: rt}, http.MethodPost, u)
}

// TestPortForward: two ports with the client of kubectl.
func TestPortForward(t *testing.T) {
	engine := &fakeEngine{}
	engine.forward = ports{80: atEnd, 25: greeting}.forward(t)
	s := streaming(t, engine, nil)
	stop, ready := make(chan struct{}), make(chan struct{})
	client, err := portforward.NewForStreaming(
		s.dialer(t, "/portForward/ns/p"), []string{"0:80", "0:25"}, stop, ready, io.Discard, io.Discard,
	)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- client.ForwardPorts() }()
	await(t, "the listeners", ready)
	local, err := client.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // over one connection
		for i, want := range []string{"HELLO", "220 welcome\r\n"} {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local[i].Local))
			if err != nil {
				t.Fatal(err)
			}
			if local[i].Remote == 80 {
				if _, err := io.WriteString(conn, "hello"); err != nil {
					t.Fatal(err)
				}
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(conn); err != nil || string(got) != want {
				t.Errorf("port %d: got %q, %v", local[i].Remote, got, err)
			}
			conn.Close()
		}
	}
	close(stop)
	if err := await(t, "the client's end", done); err != nil {
		t.Error(err)
	}
}

// open opens the two streams of a forwarded connection.
func open(t *testing.T, conn httpstream.Connection, port, id string) (data, errs httpstream.Stream) {
	t.Helper()
	headers := http.Header{}
	headers.Set("port", port)
	headers.Set("requestID", id)
	headers.Set("streamType", "error")
	errs, err := conn.CreateStream(headers)
	if err != nil {
		t.Fatal(err)
	}
	headers.Set("streamType", "data")
	if data, err = conn.CreateStream(headers); err != nil {
		t.Fatal(err)
	}
	return data, errs
}

func TestPortForwardStreams(t *testing.T) {
	engine := &fakeEngine{}
	ended := make(chan struct{})
	engine.forward = ports{80: atEnd, 7: endlessPort(ended)}.forward(t)
	s := streaming(t, engine, nil)
	conn, protocol, err := s.dialer(t, "/portForward/ns/p/the-uid").Dial("portforward.k8s.io")
	if err != nil || protocol != "portforward.k8s.io" {
		t.Fatal(protocol, err)
	}
	defer conn.Close()

	t.Run("a refused port tells why, and leaves the others alone", func(t *testing.T) {
		_, errs := open(t, conn, "81", "1")
		got, err := io.ReadAll(errs)
		const want = "error forwarding port 81 to pod p_ns, uid the-uid: dial tcp4 127.0.0.1:81: connection refused"
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		data, errs := open(t, conn, "80", "2")
		if _, err := io.WriteString(data, "still there"); err != nil {
			t.Fatal(err)
		}
		if err := data.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(data); err != nil || string(got) != "STILL THERE" {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := io.ReadAll(errs); err != nil || len(got) > 0 {
			t.Errorf("error %q, %v", got, err)
		}
	})
	t.Run("a stream that is given up ends its connection", func(t *testing.T) {
		data, _ := open(t, conn, "7", "3")
		if _, err := io.ReadFull(data, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := data.Reset(); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of the pod's connection", ended)
	})
}

// TestPortForwardEnds: with the client, when idle, and with the server.
func TestPortForwardEnds(t *testing.T) {
	for _, how := range []string{"client", "idle", "server"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			engine := &fakeEngine{}
			began, ended := make(chan struct{}), make(chan struct{})
			engine.forward = ports{80: func(conn *net.TCPConn) {
				close(began)
				_, _ = io.Copy(io.Discard, conn)
				close(ended)
			}}.forward(t)
			s := streaming(t, engine, func(c *Config) {
				if how == "idle" {
					c.StreamIdleTimeout = 4 * time.Second // the client pings each 5 s
				}
			})
			conn, _, err := s.dialer(t, "/portForward/ns/p").Dial("portforward.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			open(t, conn, "80", "1")
			await(t, "the pod's connection", began)
			switch how {
			case "client":
				conn.Close()
			case "server":
				s.stop()
			}
			await(t, "its end", ended)
		})
	}
}

// TestPortForwardOverWebSocket: ports stand in the query, channels in pairs.
func TestPortForwardOverWebSocket(t *testing.T) {
	engine := &fakeEngine{}
	ended := make(chan struct{})
	engine.forward = ports{80: func(conn *net.TCPConn) {
		defer close(ended)
		_, _ = io.Copy(conn, conn)
	}}.forward(t)
	s := streaming(t, engine, nil)
	conn := s.webSocket(t, "/portForward/ns/p?port=80&port=81", "v4.channel.k8s.io")
	got := map[byte]string{}
	read := func(channel byte, want string) {
		t.Helper()
		for !strings.HasPrefix(got[channel], want) {
			_, frame, err := conn.ReadMessage()
			if err != nil || len(frame) == 0 {
				t.Fatalf("frame %q, %v; so far %q", frame, err, got)
			}
			got[frame[0]] += string(frame[1:])
		}
	}
	read(0, "\x50\x00")
	read(1, "\x50\x00")
	read(2, "\x51\x00")
	read(3, "\x51\x00error forwarding port 81 to pod p_ns, uid : dial tcp4 127.0.0.1:81: connection refused")
	if err := conn.WriteMessage(binaryMessage, []byte("\x00echo")); err != nil {
		t.Fatal(err)
	}
	read(0, "\x50\x00echo")
	conn.(io.Closer).Close()
	await(t, "the end of the pod's connection", ended)
}

// TestRelayLingers: a user who hangs up ends one direction, and is not heard of
// again; nor must a pod be, for ever, that speaks on.
func TestRelayLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod, conn := net.Pipe()
		said := make(chan struct{})
		go func() {
			defer close(said)
			time.Sleep(time.Second / 2)
			for {
				if _, err := io.WriteString(pod, "tick\n"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		var heard bytes.Buffer
		begin := time.Now()
		if err := relay(t.Context(), stream{strings.NewReader(""), &heard}, halfConn{conn}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != halfCloseLinger || heard.Len() != 5*60 {
			t.Errorf("%d bytes came in %s", heard.Len(), took)
		}
		<-said
	})
}

// TestRelayTellsOfBrokenConnections, but only who still listens.
func TestRelayTellsOfBrokenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("connection reset by peer")
		hanging, hang := io.Pipe()
		defer hang.Close()
		pod, conn := net.Pipe()
		defer pod.Close()
		if err := relay(t.Context(), stream{hanging, io.Discard}, brokenConn{conn, broken, nil}); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		other, conn := net.Pipe()
		defer other.Close()
		client := stream{strings.NewReader(""), io.Discard}
		if err := relay(t.Context(), client, brokenConn{conn, broken, make(chan struct{})}); err != nil {
			t.Errorf("after the client's end: %v", err)
		}
	})
}

// stream is a client's: it ends at the end of its reader.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// halfConn is a connection that takes the end of one direction.
type halfConn struct{ net.Conn }

func (halfConn) CloseWrite() error { return nil }

// brokenConn fails to be read, where told so once its peer's end was passed on.
type brokenConn struct {
	net.Conn
	err   error
	after chan struct{}
}

func (c brokenConn) Read([]byte) (int, error) {
	if c.after != nil {
		<-c.after
		time.Sleep(time.Second)
	}
	return 0, c.err
}

func (c brokenConn) CloseWrite() error {
	if c.after != nil {
		close(c.after)
	}
	return nil
}
