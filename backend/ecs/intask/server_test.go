package intask

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// TestWhatAChannelMayBeAskedFor: one command or the statistics, a terminal only before it; what
// no client of ours asks for is refused.
func TestWhatAChannelMayBeAskedFor(t *testing.T) {
	c := client(t, served(t), "burstlet-agent")
	command := func(text string) []byte { return ssh.Marshal(struct{ Text string }{text}) }
	terminal := ssh.Marshal(struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}{Term: "xterm", Cols: 80, Rows: 24})
	size := ssh.Marshal(struct{ Cols, Rows, Width, Height uint32 }{100, 30, 0, 0})
	type request struct {
		kind    string
		payload []byte
		ok      bool
	}
	sleeps := command(execOf("sleep", "1000"))
	for name, requests := range map[string][]request{
		"a command":        {{"exec", sleeps, true}},
		"a second command": {{"exec", sleeps, true}, {"exec", sleeps, false}},
		"the statistics":   {{"subsystem", command(SubsystemStats), true}},
		"the statistics twice": {
			{"subsystem", command(SubsystemStats), true}, {"subsystem", command(SubsystemStats), false},
		},
		"a command, then statistics": {{"exec", sleeps, true}, {"subsystem", command(SubsystemStats), false}},
		"another subsystem":          {{"subsystem", command("sftp"), false}, {"exec", sleeps, true}},
		"a shell":                    {{"shell", nil, false}},
		"a variable":                 {{"env", ssh.Marshal(struct{ A, B string }{"A", "1"}), false}},
		"a signal":                   {{"signal", command("TERM"), false}},
		"a forwarded agent":          {{"auth-agent-req@openssh.com", nil, false}},
		"a terminal, then a command": {
			{"pty-req", terminal, true}, {"exec", sleeps, true}, {"window-change", size, true},
		},
		"a terminal without a command": {{"pty-req", terminal, true}, {"window-change", size, true}},
		"a terminal twice":             {{"pty-req", terminal, true}, {"pty-req", terminal, true}},
		"a terminal too late":          {{"exec", sleeps, true}, {"pty-req", terminal, false}},
		"a terminal that is none":      {{"pty-req", []byte("x"), false}},
		"a size that is none":          {{"pty-req", terminal, true}, {"window-change", []byte{1}, false}},
		"a size without a terminal":    {{"exec", sleeps, true}, {"window-change", size, true}},
		"no payload":                   {{"exec", nil, false}, {"subsystem", nil, false}},
		"no JSON":                      {{"exec", command("ls"), false}},
		"JSON of another kind": {
			{"exec", command(`["ls"]`), false}, {"exec", command(`{"argv":"ls"}`), false},
		},
		"an empty command":          {{"exec", command(`{}`), false}, {"exec", command(`{"argv":[]}`), false}},
		"a command after a mistake": {{"exec", command("ls"), false}, {"exec", sleeps, true}},
	} {
		t.Run(name, func(t *testing.T) {
			channel, said, err := c.OpenChannel("session", nil)
			must(t, err)
			go ssh.DiscardRequests(said)
			for i, r := range requests {
				ok, err := channel.SendRequest(r.kind, true, r.payload)
				if errors.Is(err, io.EOF) && !r.ok {
					break // what was asked for first has ended, and the channel with it
				}
				if err != nil || ok != r.ok {
					t.Errorf("request %d, %s: %v, %v", i, r.kind, ok, err)
				}
			}
			_ = channel.Close() // it may have been closed
		})
	}
}

// TestAnythingAskedOfAConnectionIsAnswered: so a client learns that it is heard.
func TestAnythingAskedOfAConnectionIsAnswered(t *testing.T) {
	c := client(t, served(t), "app")
	for _, kind := range []string{"keepalive@openssh.com", "tcpip-forward", "hostkeys-00@openssh.com", ""} {
		if ok, _, err := c.SendRequest(kind, true, nil); ok || err != nil {
			t.Errorf("%q: %v, %v", kind, ok, err)
		}
	}
	for kind, payload := range map[string][]byte{
		"direct-tcpip": []byte("x"), ChannelContainer: nil, "x11": nil, "forwarded-tcpip": nil, "": nil,
	} {
		var refused *ssh.OpenChannelError
		if _, _, err := c.OpenChannel(kind, payload); !errors.As(err, &refused) {
			t.Errorf("%q: %v", kind, err)
		}
	}
	_, _, _ = c.SendRequest(RequestEnd, true, nil) // the reply races with the end
	if err := c.Wait(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("ended with %v", err)
	}
}

// TestSizesOfTerminals: a size beyond what a kernel keeps is its largest.
func TestSizesOfTerminals(t *testing.T) {
	for _, tt := range []struct {
		cols, rows uint32
		want       [2]uint16
	}{
		{80, 24, [2]uint16{80, 24}},
		{0, 0, [2]uint16{}},
		{1 << 16, 1<<16 - 1, [2]uint16{1<<16 - 1, 1<<16 - 1}},
		{1<<32 - 1, 1, [2]uint16{1<<16 - 1, 1}},
	} {
		if got := winsize(tt.cols, tt.rows); [2]uint16{got.Col, got.Row} != tt.want {
			t.Errorf("%d x %d: %+v", tt.cols, tt.rows, got)
		}
	}
}

// lame is a listener of which these are the answers; then it waits for its end.
type lame struct {
	net.Listener
	answers []error
	closed  chan struct{}
	once    sync.Once
}

// Accept gives the next answer: nil is a connection.
func (l *lame) Accept() (net.Conn, error) {
	if len(l.answers) == 0 {
		<-l.closed
		return nil, net.ErrClosed
	}
	err := l.answers[0]
	l.answers = l.answers[1:]
	if err != nil {
		return nil, err
	}
	conn, other := net.Pipe()
	return conn, other.Close()
}

// Close ends it.
func (l *lame) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// TestConnectionsThatCannotBeMade: want of something passes, a socket that is gone does not.
func TestConnectionsThatCannotBeMade(t *testing.T) {
	none := errors.New("too many open files")
	for name, tt := range map[string]struct {
		answers []error
		conn    bool
		fails   bool
		takes   time.Duration
	}{
		"at once":          {[]error{nil}, true, false, 0},
		"after a while":    {[]error{none, none, nil}, true, false, 2 * time.Second},
		"the socket went":  {[]error{net.ErrClosed}, false, true, 0},
		"went after that":  {[]error{none, net.ErrClosed}, false, true, time.Second},
		"asked to end":     {nil, false, false, time.Minute},
		"ended in a pause": {slowly(none, 100), false, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lame{answers: tt.answers, closed: make(chan struct{})}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				defer context.AfterFunc(ctx, func() { _ = l.Close() })()
				begun := time.Now()
				conn, err := accept(ctx, l)
				if (conn != nil) != tt.conn || (err != nil) != tt.fails || time.Since(begun) != tt.takes {
					t.Errorf("%v, %v after %v", conn, err, time.Since(begun))
				}
			})
		})
	}
}

func slowly(err error, times int) (out []error) {
	for range times {
		out = append(out, err)
	}
	return out
}

// TestASessionIsCarried: from its terminal to the server of its container and back, until either
// ends.
func TestASessionIsCarried(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // short: it holds a socket
	must(t, err)
	defer func() { must(t, os.RemoveAll(dir)) }()
	must(t, os.Mkdir(filepath.Join(dir, "web"), 0o700))
	for name, args := range map[string][]string{"web": {"web"}, "": nil} {
		l, err := ListenAgent(filepath.Join(dir, name, AgentSocket))
		must(t, err)
		key := base64.StdEncoding.EncodeToString([]byte("a key"))
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, helloKey+key+"\n")
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, strings.ToUpper(line))
			_ = conn.Close()
		}()
		master, slave, err := pty.Open()
		must(t, err)
		done := make(chan error, 1)
		go func() { done <- (Task{RunDir: dir}).Session(t.Context(), slave, slave, args) }()
		terminal := bufio.NewReader(master)
		got, err := Hello(terminal)
		if err != nil || string(got) != "a key" {
			t.Errorf("%q: greeted with %q, %v", name, got, err)
		}
		_, err = NewLineWriter(master).Write([]byte("some \x00 text\n"))
		must(t, err)
		answer, err := bufio.NewReader(NewLineReader(terminal)).ReadString('\n')
		if err != nil || answer != "SOME \x00 TEXT\n" {
			t.Errorf("%q: answered %q, %v", name, answer, err)
		}
		must(t, <-done)
		must(t, errors.Join(slave.Close(), l.Close()))
		_ = master.Close() // whoever reads it ends
	}
}

// TestSessionsWithoutATerminal: nothing is carried where bytes could be changed, or without a
// greeting.
func TestSessionsWithoutATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer func() { must(t, errors.Join(r.Close(), w.Close())) }()
	err = Task{RunDir: t.TempDir()}.Session(t.Context(), r, w, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "session: make the terminal raw: ") {
		t.Errorf("%v", err)
	}
	for _, args := range [][]string{{"a", "b"}, {""}, {"."}, {"-a"}, {"a-"}, {strings.Repeat("a", 64)}} {
		err := (Task{}).Session(t.Context(), r, w, args)
		if err == nil || err.Error() != "session: want the name of a container" {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestCommandsOfTheProgram: each with the arguments that it takes; an error names the command.
func TestCommandsOfTheProgram(t *testing.T) {
	run := t.TempDir()
	for _, tt := range []struct {
		args   []string
		code   int
		err    string
		signal bool
	}{
		{nil, 1, "want an argument: what to do", false},
		{[]string{"exec"}, 1, "exec: no command of this version", true},
		{[]string{"exec", "x"}, 1, `exec: unexpected arguments ["x"]`, true},
		{[]string{CommandHealth, "x"}, 1, `health: unexpected arguments ["x"]`, true},
		{[]string{CommandAgent, "--x"}, 1, `agent: unexpected arguments ["--x"]`, true},
		{[]string{CommandMaterialize, "a", "b"}, 1, `materialize: unexpected arguments ["a" "b"]`, true},
		{[]string{CommandSupervise}, 1, "supervise: no command of this version", false},
		{[]string{CommandSupervise, "sh"}, 1, `supervise: unexpected arguments ["sh"]`, false},
		{[]string{CommandSession, "a", "b"}, 1, `session: unexpected arguments ["a" "b"]`, true},
		{[]string{CommandSession, "A"}, 1, "session: session: want the name of a container", true},
		{[]string{CommandHealth}, 1, "", true}, // it says that the container has not started
		{[]string{CommandMaterialize}, 0, "", true},
		{[]string{CommandEnter}, 0, "", false},
	} {
		if UntilSignal(tt.args) != tt.signal {
			t.Errorf("%q ends with SIGTERM: %v", tt.args, !tt.signal)
		}
		if len(tt.args) == 1 && tt.args[0] == CommandEnter {
			continue // it is to become another program
		}
		said, err := os.Create(filepath.Join(run, "said"))
		must(t, err)
		task := Task{RunDir: run, Env: func(string) string { return "" }, Stdout: said, Log: log.New(io.Discard, "", 0)}
		code, err := task.Run(t.Context(), tt.args)
		must(t, said.Close())
		if code != tt.code || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %d, %v; want %d, %s", tt.args, code, err, tt.code, tt.err)
		}
	}
}

// TestReadinessIsBelievedOfItsTaskAlone: a message is read before it is believed, and another's
// is told from one of another kind.
func TestReadinessIsBelievedOfItsTaskAlone(t *testing.T) {
	key, other := podfiles.NewKey(), podfiles.NewKey()
	want := Readiness{
		Task: "arn:task", Seq: 7, Ready: map[string]*bool{"web": new(true), "side": new(false), "new": nil},
		Lives: map[string]Life{"job": {Ended: &End{Exit: 3, Report: Report{Exit: 3, Message: "bye"}}}},
	}
	body, err := want.Sign(key)
	must(t, err)
	got, verify, ok := ReadReadiness(body)
	if !ok || verify(key) != nil {
		t.Fatalf("%v, %v", ok, verify(key))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, k := range map[string]string{"another's": other, "none": "", "a longer one": key + "x"} {
		if err := verify(k); !errors.Is(err, errForged) {
			t.Errorf("with the key %s: %v", name, err)
		}
	}
	change := func(with func(s *signed)) string {
		var s signed
		must(t, json.Unmarshal([]byte(body), &s))
		with(&s)
		text, err := json.Marshal(s)
		must(t, err)
		return string(text)
	}
	for name, tt := range map[string]struct {
		body          string
		read, trusted bool
	}{
		"as it was sent": {body, true, true},
		"another text": {
			change(func(s *signed) { s.Readiness = strings.Replace(s.Readiness, "7", "8", 1) }), true, false,
		},
		"of another task": {
			change(func(s *signed) { s.Readiness = strings.Replace(s.Readiness, "arn:task", "arn:x", 1) }), true, false,
		},
		"a space more":        {change(func(s *signed) { s.Readiness += " " }), true, false},
		"another code":        {change(func(s *signed) { s.MAC = macOf(other, s.Readiness) }), true, false},
		"no code":             {change(func(s *signed) { s.MAC = "" }), true, false},
		"no text":             {change(func(s *signed) { s.Readiness = "" }), false, false},
		"no task":             {change(func(s *signed) { s.Readiness = `{"seq":1}` }), false, false},
		"no JSON in it":       {change(func(s *signed) { s.Readiness = `{` }), false, false},
		"an event of ECS":     {`{"source":"aws.ecs","detail":{}}`, false, false},
		"nothing":             {"", false, false},
		"more than SQS takes": {body + strings.Repeat(" ", maxReadiness), false, false},
	} {
		_, verify, ok := ReadReadiness(tt.body)
		if ok != tt.read || ok && (verify(key) == nil) != tt.trusted {
			t.Errorf("%s: read: %v", name, ok)
		}
	}
}
