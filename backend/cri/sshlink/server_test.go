package sshlink

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

// sshServer is an sshd in memory. Its commands are played, not run.
type sshServer struct {
	// kept is the helper's directory once it was brought; keptFails makes its next start
	// fail; noGzip is a host that unpacks nothing.
	kept              string
	keptFails, noGzip bool
	// weaken changes what it offers; nil: nothing.
	weaken func(*ssh.ServerConfig)

	t       *testing.T
	network *network
	address string
	hostKey ssh.Signer
	user    ssh.PublicKey

	// What it allows; changed only while nobody is connected.
	noPTY, noTCP, noSockets, noExec bool
	noSudo                          bool
	uid                             string
	maxSessions                     int
	helperFails                     string
	skew                            time.Duration
	failures                        map[string]string
	endpoints                       map[string]func(io.ReadWriteCloser)
	socketWord                      string

	mu       sync.Mutex
	commands []string
	logins   int
	helpers  []ssh.Channel
	uploads  int
}

func newServer(t *testing.T, n *network, address string, hostSeed, userSeed byte) *sshServer {
	t.Helper()
	_, hostKey := sshkeys.New(t, hostSeed)
	_, user := sshkeys.New(t, userSeed)
	s := &sshServer{
		t: t, network: n, address: address, hostKey: hostKey, user: user.PublicKey(), uid: "0", maxSessions: 10,
		failures: map[string]string{}, endpoints: map[string]func(io.ReadWriteCloser){}, socketWord: "missing",
	}
	n.listen(address, s.serve)
	return s
}

func (s *sshServer) knownHosts(t *testing.T, more ...*sshServer) string {
	t.Helper()
	var text strings.Builder
	for _, server := range append(more, s) {
		fmt.Fprintln(&text, knownhosts.Line([]string{server.address}, server.hostKey.PublicKey()))
	}
	return sshkeys.Write(t, "known_hosts", 0o600, []byte(text.String()))
}

func (s *sshServer) serve(raw net.Conn) {
	defer raw.Close()
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "burst" || string(key.Marshal()) != string(s.user.Marshal()) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	cfg.AddHostKey(s.hostKey)
	if s.weaken != nil {
		s.weaken(cfg)
	}
	conn, channels, requests, err := ssh.NewServerConn(raw, cfg)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins++
	s.mu.Unlock()
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		for r := range requests {
			_ = r.Reply(false, nil)
		}
	})
	work.Go(func() { _ = conn.Wait() })
	sessions := 0
	var mu sync.Mutex
	first := true
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			mu.Lock()
			sessions++
			full := sessions > s.maxSessions
			if full {
				sessions--
			}
			mu.Unlock()
			if full {
				_ = ch.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			wasFirst := first
			first = false
			work.Go(func() {
				s.session(ch, wasFirst)
				mu.Lock()
				defer mu.Unlock()
				sessions--
			})
		case "direct-tcpip":
			var open tcpOpen
			if err := ssh.Unmarshal(ch.ExtraData(), &open); err != nil {
				s.t.Error(err)
			}
			work.Go(func() { s.forward(ch, net.JoinHostPort(open.Host, fmt.Sprint(open.Port)), s.noTCP) })
		case "direct-streamlocal@openssh.com":
			var open socketOpen
			if err := ssh.Unmarshal(ch.ExtraData(), &open); err != nil {
				s.t.Error(err)
			}
			work.Go(func() { s.forwardSocket(ch, open.Path) })
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "what?")
		}
	}
}

// forwardSocket answers as sshd does: every failure is the same.
func (s *sshServer) forwardSocket(ch ssh.NewChannel, path string) {
	if s.noSockets || s.endpoints[path] == nil {
		_ = ch.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	s.forward(ch, path, false)
}

func (s *sshServer) forward(ch ssh.NewChannel, address string, prohibited bool) {
	if prohibited {
		_ = ch.Reject(ssh.Prohibited, "open failed")
		return
	}
	if text, ok := s.failures[address]; ok {
		_ = ch.Reject(ssh.ConnectionFailed, text)
		return
	}
	serve := s.endpoints[address]
	s.network.mu.Lock()
	next := s.network.servers[address]
	s.network.mu.Unlock()
	if serve == nil && next == nil {
		_ = ch.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	c, requests, err := ch.Accept()
	if err != nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { ssh.DiscardRequests(requests) })
	if serve != nil {
		serve(c)
		_ = c.Close()
		return
	}
	near, err := s.network.DialContext(context.Background(), "tcp", address)
	if err != nil {
		_ = c.Close()
		return
	}
	work.Go(func() {
		_, _ = io.Copy(near, c)
		_ = near.Close()
	})
	_, _ = io.Copy(c, near)
	_ = near.Close()
	_ = c.Close()
}

func (s *sshServer) session(ch ssh.NewChannel, first bool) {
	c, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	pty := false
	for r := range requests {
		switch r.Type {
		case "pty-req":
			pty = !s.noPTY
			_ = r.Reply(pty, nil)
		case "exec":
			var request execRequest
			if err := ssh.Unmarshal(r.Payload, &request); err != nil {
				s.t.Error(err)
			}
			_ = r.Reply(!s.noExec, nil)
			if s.noExec {
				continue
			}
			s.mu.Lock()
			s.commands = append(s.commands, fmt.Sprintf("first=%t pty=%t %s", first, pty, request.Command))
			s.mu.Unlock()
			go ssh.DiscardRequests(requests)
			status := s.command(request.Command, c)
			_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			_ = r.Reply(false, nil)
		}
	}
}

var keptIn = regexp.MustCompile(`burstlet-helper\.[0-9a-f]{24}`)

// command plays what burstlet runs on a host.
func (s *sshServer) command(command string, c ssh.Channel) uint32 {
	say := func(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	switch {
	case command == "exec cat":
		_, _ = io.Copy(io.Discard, c)
	case strings.Contains(command, "uname -s"):
		say(c, "Welcome!")
		say(c, "burstlet:Linux x86_64 %s", s.uid)
	case strings.Contains(command, "sudo -n true"):
		if s.noSudo {
			say(c.Stderr(), "sudo: a password is required")
			return 1
		}
	case strings.Contains(command, "mktemp"):
		return s.take(command, c)
	case strings.Contains(command, "command -v gzip"):
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.kept != "" && strings.Contains(command, s.kept) {
			say(c, "burstlet:dir=/run/%s", s.kept)
		}
		if !s.noGzip {
			say(c, "burstlet:gzip=yes")
		}
	case strings.Contains(command, "--keep-dir"), strings.Contains(command, "--remove-dir"):
		if s.keptFails {
			s.mu.Lock()
			s.keptFails = false
			s.mu.Unlock()
			say(c.Stderr(), "Permission denied")
			return 126
		}
		if s.helperFails != "" {
			say(c.Stderr(), "%s", s.helperFails)
			return 126
		}
		s.mu.Lock()
		s.helpers = append(s.helpers, c)
		s.mu.Unlock()
		return s.helper(c)
	case strings.Contains(command, "/proc/net/unix"):
		say(c, "burstlet:%s", s.socketWord)
	default:
		s.t.Errorf("unexpected command %q", command)
		return 127
	}
	return 0
}

// take takes the helper that is brought.
func (s *sshServer) take(command string, c ssh.Channel) uint32 {
	data, _ := io.ReadAll(c)
	s.mu.Lock()
	s.uploads++
	s.mu.Unlock()
	want := pack("binary for amd64")
	if s.noGzip {
		want = []byte("binary for amd64")
	}
	if !bytes.Equal(data, want) {
		_, _ = fmt.Fprintln(c.Stderr(), "the helper did not arrive whole")
		return 1
	}
	s.mu.Lock()
	s.kept = keptIn.FindString(command)
	s.mu.Unlock()
	_, _ = fmt.Fprintf(c, "burstlet:dir=/run/%s\n", keptIn.FindString(command))
	return 0
}

// helper answers a line for a line until told to end.
func (s *sshServer) helper(c ssh.Channel) uint32 {
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		switch lines.Text() {
		case "facts":
			_, _ = fmt.Fprintln(c, time.Now().Add(s.skew).UnixNano())
		case "die":
			_, _ = fmt.Fprintln(c.Stderr(), "panic: out of cheese")
			return 2
		}
	}
	return 0
}

// ran are the commands so far.
func (s *sshServer) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func (s *sshServer) count() (logins, uploads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, s.uploads
}

// fakeClient speaks the line protocol of sshServer.helper.
type fakeClient struct {
	host.Host
	rw    io.ReadWriteCloser
	facts host.Facts
	lines chan string
	done  chan struct{}
}

func newFakeClient(facts host.Facts) func(io.ReadWriteCloser) Client {
	return func(rw io.ReadWriteCloser) Client {
		c := &fakeClient{rw: rw, facts: facts, lines: make(chan string, 1), done: make(chan struct{})}
		go func() {
			defer close(c.done)
			lines := bufio.NewScanner(rw)
			for lines.Scan() {
				c.lines <- lines.Text()
			}
		}()
		return c
	}
}

func (c *fakeClient) Close() error          { return c.rw.Close() }
func (c *fakeClient) Done() <-chan struct{} { return c.done }

func (c *fakeClient) Facts(ctx context.Context) (host.Facts, error) {
	if _, err := fmt.Fprintln(c.rw, "facts"); err != nil {
		return host.Facts{}, err
	}
	select {
	case line := <-c.lines:
		var ns int64
		_, err := fmt.Sscan(line, &ns)
		facts := c.facts
		facts.Now = time.Unix(0, ns)
		return facts, err
	case <-c.done:
		return host.Facts{}, errors.New("helper gone")
	case <-ctx.Done():
		return host.Facts{}, ctx.Err()
	}
}

// Log is the name of the connection that the helper is on.
func (c *fakeClient) Log(context.Context, host.LogRequest) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprintf("%p", c.rw.(*session).on))), nil
}

// Sweep makes the helper die, perhaps before the write has returned.
func (c *fakeClient) Sweep(context.Context, host.Sweep) error {
	_, err := fmt.Fprintln(c.rw, "die")
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
