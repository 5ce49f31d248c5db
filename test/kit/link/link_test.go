package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// patience is how long a test waits for what comes at once on an idle machine.
const patience = time.Minute

// A second is forever on a loopback, and hush is as long as nothing must happen.
const hush = 100 * time.Millisecond

// newTestLink leads to a server on the machine that a test plays.
func newTestLink(t *testing.T) (*Link, net.Listener) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return ForTest(t, To(server.Addr().String())), server
}

// through opens a connection and returns both its ends.
func through(t *testing.T, link *Link, server net.Listener) (client, host *net.TCPConn) {
	t.Helper()
	conn, err := net.Dial("tcp", link.Address())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); accepted.Close() })
	return conn.(*net.TCPConn), accepted.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if err := conn.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("received %q, %v; want %q", got, err, text)
	}
}

// receiveNothing says whether the connection neither carries anything nor ends.
func receiveNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(hush)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %d bytes, %v; want nothing", n, err)
	}
}

func TestLinkPassesHalfCloseOn(t *testing.T) {
	link, server := newTestLink(t)
	client, host := through(t, link, server)
	send(t, client, "question")
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(host); err != nil || string(got) != "question" {
		t.Errorf("the host read %q, %v", got, err)
	}
	send(t, host, "the answer")
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "the answer" {
		t.Errorf("the client read %q, %v", got, err)
	}
	wait.For(t, patience, "connection to end", func() error {
		if counts := link.Counts(); counts != (Counts{Connections: 1, Sent: 8, Received: 10}) {
			return errors.New("open")
		}
		return nil
	})
}

func TestCutIsABlackHole(t *testing.T) {
	link, server := newTestLink(t)
	client, host := through(t, link, server)
	send(t, client, "a")
	receive(t, host, "a")
	link.Cut()
	link.Cut() // once more changes nothing
	send(t, client, "to host")
	send(t, host, "from host")
	if err := host.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	receiveNothing(t, host)
	receiveNothing(t, client)
	late, err := net.Dial("tcp", link.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	receiveNothing(t, late)
	wait.For(t, patience, "the counts of a cut link", func() error {
		if counts := link.Counts(); counts != (Counts{Connections: 2, Open: 2, Sent: 1}) {
			return fmt.Errorf("%+v", counts)
		}
		return nil
	})
	link.Restore()
	receive(t, host, "to host")
	receive(t, client, "from host")
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the host's end: %d bytes, %v", n, err)
	}
	second, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	send(t, second, "banner")
	receive(t, late, "banner")
}

func TestHostNeverHearsOfWhoGaveUp(t *testing.T) {
	link, server := newTestLink(t)
	link.Cut()
	client, err := net.Dial("tcp", link.Address())
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "who gave up")
	client.Close()
	wait.For(t, patience, "connection to be forgotten", func() error {
		if counts := link.Counts(); counts != (Counts{Connections: 1}) {
			return fmt.Errorf("%+v", counts)
		}
		return nil
	})
	link.Restore()
	later, host := through(t, link, server)
	send(t, later, "who came later")
	receive(t, host, "who came later")
}

func TestResetReachesBothSides(t *testing.T) {
	for _, cut := range []bool{false, true} {
		link, server := newTestLink(t)
		client, host := through(t, link, server)
		send(t, client, "a")
		receive(t, host, "a")
		if cut {
			link.Cut()
		}
		link.Reset()
		for side, conn := range map[string]net.Conn{"client": client, "host": host} {
			if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("cut %v: the %s read %d bytes, %v; want a reset", cut, side, n, err)
			}
		}
		link.Restore()
		client, host = through(t, link, server)
		send(t, host, "b")
		receive(t, client, "b")
	}
}

func TestResetOfOneSideIsPassedOn(t *testing.T) {
	link, server := newTestLink(t)
	client, host := through(t, link, server)
	send(t, client, "a")
	receive(t, host, "a")
	if err := host.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	host.Close()
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client read %d bytes, %v; want a reset", n, err)
	}
}

func TestNobodyBehindALink(t *testing.T) {
	link, err := Listen(
		t.Context(), netip.Addr{}, func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, err := net.Dial("tcp", link.Address())
	if err == nil {
		defer client.Close()
		_, err = client.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
}

func TestDelayIsEachWay(t *testing.T) {
	const eachWay = 40 * time.Millisecond
	link, server := newTestLink(t)
	link.Delay(eachWay)
	started := time.Now()
	client, host := through(t, link, server)
	if took := time.Since(started); took < 2*eachWay {
		t.Errorf("a connection takes %v, less than a round trip", took)
	}
	started = time.Now()
	send(t, client, "ping")
	receive(t, host, "ping")
	if took := time.Since(started); took < eachWay {
		t.Errorf("one way takes %v", took)
	}
	send(t, host, "pong")
	receive(t, client, "pong")
	if took := time.Since(started); took < 2*eachWay {
		t.Errorf("a round trip takes %v", took)
	}
}

func TestDelayIsNotBandwidth(t *testing.T) {
	link, server := newTestLink(t)
	client, host := through(t, link, server)
	const eachWay = 2 * time.Second
	link.Delay(eachWay)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	started := time.Now()
	go func() {
		_, _ = client.Write(content) // what was lost shows at the other end
		_ = client.CloseWrite()
	}()
	got, err := io.ReadAll(host)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v; want %d in their order", len(got), err, len(content))
	}
	// Segments follow each other closely, each of them late by one delay; one
	// after the other they would take 32 of them, about a minute.
	if took := time.Since(started); took > 20*eachWay {
		t.Errorf("a transfer takes %v", took)
	}
}

func TestLinkListensWhereItIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		at   netip.Addr
		want string
	}{
		"by default": {want: "127.0.0.1"},
		"elsewhere":  {at: netip.MustParseAddr("127.0.0.9"), want: "127.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := Listen(t.Context(), tt.at, func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
			if err != nil {
				t.Fatal(err)
			}
			if host, _, err := net.SplitHostPort(link.Address()); err != nil || host != tt.want {
				t.Errorf("it listens at %s (%v), want %s", link.Address(), err, tt.want)
			}
			if err := link.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBreak(t *testing.T) {
	link, server := newTestLink(t)
	client, host := through(t, link, server)
	send(t, client, "hello")
	receive(t, host, "hello")
	link.Break()
	for side, conn := range map[string]net.Conn{"client": client, "host": host} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %v, want a reset", side, err)
		}
	}
	refused, err := net.Dial("tcp", link.Address())
	if err == nil { // the reset may come before the connection is one
		_, err = refused.Read(make([]byte, 1))
		refused.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection of a broken link: %v, want a reset", err)
	}
	link.Restore()
	client, host = through(t, link, server)
	send(t, client, "hello")
	receive(t, host, "hello")
}
