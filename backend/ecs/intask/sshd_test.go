package intask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
)

// here starts processes of this machine.
type here struct{}

type hereProcess struct{ *exec.Cmd }

// Start starts a command.
func (here) Start(c Command) (Process, error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.Terminal, Setsid: c.Terminal, Setctty: c.Terminal}
	return hereProcess{cmd}, cmd.Start()
}

// Wait waits.
func (p hereProcess) Wait() int {
	_ = p.Cmd.Wait() // the state tells
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.ProcessState.ExitCode()
}

// Signal is for the group.
func (p hereProcess) Signal(s syscall.Signal) error { return syscall.Kill(-p.Process.Pid, s) }

// served is a directory of containers, in which app and the agent answer.
func served(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "run") // short: it holds sockets
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var ended []chan error
	for name, s := range map[string]*Server{
		"app": {Starter: here{}, Log: log.New(io.Discard, "", 0)},
		"burstlet-agent": {
			Starter: here{}, Containers: dir, Log: log.New(io.Discard, "", 0),
			Stats: func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"task":{}}`), nil },
		},
	} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		l, err := ListenAgent(filepath.Join(dir, name, AgentSocket))
		must(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, l) }()
		ended = append(ended, done)
	}
	t.Cleanup(func() {
		cancel()
		for _, done := range ended {
			must(t, <-done)
		}
		must(t, os.RemoveAll(dir))
	})
	return dir
}

// client speaks to a server.
func client(t *testing.T, dir, name string) *ssh.Client {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, name, AgentSocket))
	must(t, err)
	return clientOn(t, conn)
}

type rest struct {
	net.Conn
	io.Reader
}

// Read reads what was not read yet.
func (r rest) Read(p []byte) (int, error) { return r.Reader.Read(p) }

func clientOn(t *testing.T, conn net.Conn) *ssh.Client {
	t.Helper()
	r := bufio.NewReader(conn)
	raw, err := Hello(r)
	must(t, err)
	key, err := ssh.ParsePublicKey(raw)
	must(t, err)
	c, channels, requests, err := ssh.NewClientConn(
		rest{conn, r}, "x", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(key)},
	)
	must(t, err)
	out := ssh.NewClient(c, channels, requests)
	t.Cleanup(func() { _ = out.Close() })
	return out
}

func execOf(argv ...string) string {
	text, err := json.Marshal(ExecRequest{Argv: argv})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// outcomeOf is what became of a command.
func outcomeOf(t *testing.T, c *ssh.Client, stdin string, argv ...string) (out, errs string, code int) {
	t.Helper()
	s, err := c.NewSession()
	must(t, err)
	var o, e bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &o, &e
	err = s.Run(execOf(argv...))
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitStatus()
	} else {
		must(t, err)
	}
	return o.String(), e.String(), code
}

func TestCommandsHaveTheirStreamsAndExitCodes(t *testing.T) {
	t.Parallel()
	c := client(t, served(t), "app")
	for _, tt := range []struct {
		stdin string
		argv  []string
		out   string
		errs  string
		code  int
	}{
		{"", []string{"true"}, "", "", 0},
		{"", []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, "out\n", "err\n", 7},
		{"typed", []string{"sh", "-c", "cat; echo end"}, "typedend\n", "", 0},
		{"", []string{"sh", "-c", "kill -9 $$"}, "", "", 137},
		{"", []string{"sh", "-c", "tty; exit 0"}, "not a tty\n", "", 0},
	} {
		if out, errs, code := outcomeOf(t, c, tt.stdin, tt.argv...); out != tt.out || errs != tt.errs || code != tt.code {
			t.Errorf("%q: %q, %q, %d", tt.argv, out, errs, code)
		}
	}
	begun := time.Now()
	if out, _, _ := outcomeOf(t, c, "", "sh", "-c", "sleep 1000 & echo left"); out != "left\n" ||
		time.Since(begun) > patience {
		t.Errorf("what holds its output open: %q after %v", out, time.Since(begun))
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	c := client(t, served(t), "app")
	channel, requests, err := c.OpenChannel("session", nil)
	must(t, err)
	if ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{execOf("/no/such")})); !ok ||
		err != nil {
		t.Fatal(ok, err)
	}
	var why StartError
	for r := range requests {
		if r.Type == RequestStartError {
			must(t, ssh.Unmarshal(r.Payload, &why))
		}
	}
	if !strings.Contains(why.Text, "no such file") {
		t.Errorf("said %q", why.Text)
	}
	for name, payload := range map[string]string{"no command": execOf(), "no JSON": "ls"} {
		channel, requests, err := c.OpenChannel("session", nil)
		must(t, err)
		go ssh.DiscardRequests(requests)
		if ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{payload})); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		must(t, channel.Close())
	}
}

func TestATerminalHasItsSize(t *testing.T) {
	c := client(t, served(t), "app")
	s, err := c.NewSession()
	must(t, err)
	must(t, s.RequestPty("xterm", 24, 80, nil))
	out, err := s.StdoutPipe()
	must(t, err)
	must(t, s.Start(execOf(
		"sh", "-c",
		`stty -echo; stty size; while [ "$(stty size)" = "24 80" ]; do sleep 0.02; done; stty size; echo $TERM; exit 3`,
	)))
	lines := bufio.NewReader(out)
	line := func() string {
		text, err := lines.ReadString('\n')
		must(t, err)
		return strings.TrimSpace(text)
	}
	if got := line(); got != "24 80" {
		t.Errorf("at first %q", got)
	}
	must(t, s.WindowChange(43, 132))
	if got := line(); got != "43 132" {
		t.Errorf("then %q", got)
	}
	if got := line(); got != "xterm" {
		t.Errorf("TERM is %q", got)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("ended: %v", err)
	}
}

func TestATerminalThatIsHeldOpenEndsNevertheless(t *testing.T) {
	t.Parallel()
	c := client(t, served(t), "app")
	s, err := c.NewSession()
	must(t, err)
	must(t, s.RequestPty("xterm", 24, 80, nil))
	out, err := s.Output(execOf("sh", "-c", "(trap '' HUP; sleep 20) & echo left"))
	if err != nil || string(out) != "left\r\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestACommandEndsWithItsChannel(t *testing.T) {
	c := client(t, served(t), "app")
	s, err := c.NewSession()
	must(t, err)
	out, err := s.StdoutPipe()
	must(t, err)
	must(t, s.Start(execOf("sh", "-c", "echo $$; trap '' HUP TERM; while true; do sleep 1; done")))
	var pid int
	_, err = fmt.Fscan(out, &pid)
	must(t, err)
	must(t, s.Close())
	for deadline := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("it runs on")
		}
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
	}
}

func TestOtherContainersAreReachedByTheAgentAlone(t *testing.T) {
	dir := served(t)
	agent := client(t, dir, "burstlet-agent")
	channel, requests, err := agent.OpenChannel(ChannelContainer, ssh.Marshal(ToContainer{Name: "app"}))
	must(t, err)
	go ssh.DiscardRequests(requests)
	app := clientOn(t, rest{Reader: channel, Conn: channelConn{Channel: channel}})
	if out, _, _ := outcomeOf(t, app, "", "echo", "there"); out != "there\n" {
		t.Errorf("said %q", out)
	}
	for name, on := range map[string]*ssh.Client{"../app": agent, "none": agent, "app": client(t, dir, "app")} {
		if _, _, err := on.OpenChannel(ChannelContainer, ssh.Marshal(ToContainer{Name: name})); err == nil {
			t.Errorf("%s was reached", name)
		}
	}
	if _, _, err := agent.OpenChannel("x11", nil); err == nil {
		t.Error("a channel that is none was opened")
	}
}

type channelConn struct {
	net.Conn
	ssh.Channel
}

// Read, Write and Close are the channel's.
func (c channelConn) Read(p []byte) (int, error)  { return c.Channel.Read(p) }
func (c channelConn) Write(p []byte) (int, error) { return c.Channel.Write(p) }
func (c channelConn) Close() error                { return c.Channel.Close() }

// RemoteAddr and LocalAddr are of any connection.
func (channelConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }
func (channelConn) LocalAddr() net.Addr  { return &net.UnixAddr{} }

func TestPortsAreReachedEachWayToItsEnd(t *testing.T) {
	c := client(t, served(t), "app")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			all, _ := io.ReadAll(conn) // until the other side has ended
			_, _ = conn.Write(bytes.ToUpper(all))
			_ = conn.Close()
		}
	}()
	conn, err := c.Dial("tcp", l.Addr().String())
	must(t, err)
	_, err = io.WriteString(conn, "some text")
	must(t, err)
	must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	if got, err := io.ReadAll(conn); err != nil || string(got) != "SOME TEXT" {
		t.Errorf("%q, %v", got, err)
	}
	must(t, l.Close())
	if _, err := c.Dial("tcp", fmt.Sprint("127.0.0.1:", closedPort)); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("where nobody listens: %v", err)
	}
}

func TestStatsAreToldWhereThereAreAny(t *testing.T) {
	dir := served(t)
	s, err := client(t, dir, "burstlet-agent").NewSession()
	must(t, err)
	out, err := s.StdoutPipe()
	must(t, err)
	must(t, s.RequestSubsystem(SubsystemStats))
	if got, err := io.ReadAll(out); err != nil || string(got) != `{"task":{}}` {
		t.Errorf("%s, %v", got, err)
	}
	s, err = client(t, dir, "app").NewSession()
	must(t, err)
	if err := s.RequestSubsystem(SubsystemStats); err == nil {
		t.Error("a container told the task's")
	}
}

func TestTheSocketIsRootsAndReplacesAnOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), AgentSocket)
	must(t, os.WriteFile(path, nil, 0o666))
	l, err := ListenAgent(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("mode %v", info.Mode())
	}
	must(t, l.Close())
}

func TestASessionWithoutItsContainerSaysSo(t *testing.T) {
	master, slave, err := pty.Open()
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- CarrySession(t.Context(), slave, slave, filepath.Join(t.TempDir(), "none")) }()
	_, err = Hello(bufio.NewReader(master))
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("greeted: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
	must(t, errors.Join(slave.Close(), master.Close()))
	for _, name := range []string{"", "../x", "A"} {
		if err := (Task{}).Session(t.Context(), os.Stdin, os.Stdout, []string{name}); err == nil {
			t.Errorf("%q is a container's name", name)
		}
	}
}

func TestNoiseBeforeTheGreetingIsPassedOver(t *testing.T) {
	for text, want := range map[string]bool{
		"burstlet-session/1 key AAAA\n":                   true,
		"some banner\r\nburstlet-session/1 key AAAA\r\n":  true,
		"burstlet-session/1 error no such container\n":    false,
		"burstlet-session/1 key !\n":                      false,
		"sh: not found\n":                                 false,
		strings.Repeat("noise that does not end\n", 1000): false,
		strings.Repeat("x", 1<<16) + "\n" + "key of none": false,
	} {
		if _, err := Hello(bufio.NewReader(strings.NewReader(text))); (err == nil) != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("some\x00bytes\xff"), 3)
	f.Add(bytes.Repeat([]byte{0xfe}, 5000), 2000)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		_, _ = io.Copy(io.Discard, NewLineReader(bytes.NewReader(b))) // of anything: it ends
		var lines bytes.Buffer
		w := NewLineWriter(&lines)
		cut = max(0, min(cut, len(b)))
		for _, part := range [][]byte{b[:cut], b[cut:]} {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		for line := range bytes.SplitSeq(lines.Bytes(), []byte("\n")) {
			if len(line) >= 1024 || !bytes.Equal(bytes.ToValidUTF8(line, nil), line) {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
		if got, err := io.ReadAll(NewLineReader(&lines)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes of %d: %v", len(got), len(b), err)
		}
	})
}
