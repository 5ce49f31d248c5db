package ecs

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// Numbers of the agent (amazon-ssm-agent, agent/session/config/config.go and
// agent/session/shell/shell.go).
const (
	agentPayload   = 1024
	agentAhead     = 100000
	agentTick      = 100 * time.Millisecond
	agentTimeout   = 200 * time.Millisecond
	agentHandshake = 15 * time.Second
	agentFirst     = time.Second
	agentPause     = time.Millisecond
	agentFlush     = 2 * time.Second
	// agentLook is how often it is looked whether the container still runs.
	agentLook = 200 * time.Millisecond
)

// agent is the SSM agent beside a container, in one session. What it does, it does
// as amazon-ssm-agent, agent/session/datachannel/datachannel.go.
type agent struct {
	server *Server
	ses    *session
	conn   *websocket.Conn

	// in and out are the two ways, with what happens on them.
	in, out *way

	stdin *io.PipeWriter
	sizes chan TerminalSize

	mu        sync.Mutex
	next      int64 // of what it sends
	expected  int64 // of what comes
	ahead     map[int64]wireMessage
	unacked   []*unacked
	active    time.Time
	answered  chan error // the response to the handshake
	shaken    bool
	cancelled func()
}

type unacked struct {
	sequence int64
	data     []byte
	last     time.Time
}

func newAgent(s *Server, ses *session, conn *websocket.Conn) *agent {
	return &agent{
		server: s, ses: ses, conn: conn, in: newWay(s.cfg.Sessions), out: newWay(s.cfg.Sessions),
		sizes: make(chan TerminalSize, 16), ahead: map[int64]wireMessage{}, active: time.Now(), answered: make(chan error, 1),
	}
}

// run carries the session to its end.
func (a *agent) run(ctx context.Context) {
	ctx, a.cancelled = context.WithCancel(ctx)
	defer a.cancelled()
	stop := context.AfterFunc(ctx, func() { _ = a.conn.Close() }) // reads end with it
	defer stop()
	var carrying sync.WaitGroup
	carrying.Go(func() {
		a.out.carry(ctx, func(b []byte) error { return a.conn.WriteMessage(websocket.BinaryMessage, b) })
	})
	carrying.Go(func() {
		a.in.carry(ctx, func(b []byte) error {
			err := a.receive(b)
			if err != nil {
				a.say(wireMessage{messageType: wireClosed, payload: closedPayload(a.ses.id, "protocol error: "+err.Error())})
				a.flush(ctx)
			}
			return err
		})
		a.cancelled()
	})
	carrying.Go(a.listen)
	carrying.Go(func() { a.tend(ctx) })
	output := a.session(ctx)
	a.say(wireMessage{messageType: wireClosed, payload: closedPayload(a.ses.id, output)})
	a.flush(ctx)
	a.cancelled()
	carrying.Wait()
}

func closedPayload(id, output string) []byte {
	text, err := json.Marshal(map[string]any{
		"SessionId": id, "Output": output, "SchemaVersion": 1, "MessageType": wireClosed,
	})
	if err != nil { // our own types: a programming error
		panic(err)
	}
	return text
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen reads what the client sends.
func (a *agent) listen() {
	defer a.cancelled()
	for {
		kind, data, err := a.conn.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			return
		}
		a.in.send(data)
	}
}

// say sends a message of no stream, which nobody acknowledges.
func (a *agent) say(m wireMessage) {
	m.created, m.uuid = uint64(time.Now().UnixMilli()), newUUID() //nolint:gosec // after 1970
	if m.messageType == wireClosed {                              // it is the service's, over a way that loses nothing
		a.out.put(m.bytes())
		return
	}
	a.out.send(m.bytes())
}

// stream sends a message that is to be acknowledged.
func (a *agent) stream(body uint32, payload []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := wireMessage{
		messageType: wireOutput, created: uint64(time.Now().UnixMilli()), uuid: newUUID(), //nolint:gosec // after 1970
		sequence: a.next, payloadType: body, payload: payload,
	}
	if a.next == 0 {
		m.flags = 1
	}
	a.next++
	a.active = time.Now()
	data := m.bytes()
	a.unacked = append(a.unacked, &unacked{m.sequence, data, time.Now()})
	a.out.send(data)
}

// tend sends again what may be lost, and ends what is idle or runs no more.
func (a *agent) tend(ctx context.Context) {
	idle := a.server.cfg.Sessions.Idle
	if idle == 0 {
		idle = sessionIdle
	}
	ticker := time.NewTicker(agentTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			a.mu.Lock()
			if len(a.unacked) > 0 && now.Sub(a.unacked[0].last) > agentTimeout {
				a.unacked[0].last = now
				a.out.send(a.unacked[0].data)
			}
			over := now.Sub(a.active) > idle
			a.mu.Unlock()
			if over {
				a.say(wireMessage{messageType: wireClosed, payload: closedPayload(a.ses.id, "Session timed out due to inactivity")})
				a.flush(ctx)
				a.cancelled()
			}
		}
	}
}

// flush waits until all was acknowledged and sent, but not for long.
func (a *agent) flush(ctx context.Context) {
	until := time.Now().Add(agentFlush)
	for time.Now().Before(until) {
		a.mu.Lock()
		left := len(a.unacked) + a.out.length()
		a.mu.Unlock()
		if left == 0 {
			break
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
	_ = pause(ctx, a.server.cfg.Sessions.Latency+10*time.Millisecond) // ended or not
}

// receive takes one message of the client.
func (a *agent) receive(data []byte) error {
	m, err := parseWire(data)
	if err != nil {
		return err
	}
	switch m.messageType {
	case wireAck:
		return a.acknowledged(m.payload)
	case wireInput:
		return a.input(m)
	default:
		return fmt.Errorf("a client sent %q", m.messageType)
	}
}

func (a *agent) acknowledged(payload []byte) error {
	var ack struct {
		AcknowledgedMessageType           string
		AcknowledgedMessageID             string `json:"AcknowledgedMessageId"`
		AcknowledgedMessageSequenceNumber int64
		IsSequentialMessage               bool
	}
	if err := json.Unmarshal(payload, &ack); err != nil {
		return err
	}
	if ack.AcknowledgedMessageType != wireOutput || len(ack.AcknowledgedMessageID) != 36 || !ack.IsSequentialMessage {
		return errors.New("this acknowledges nothing")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, u := range a.unacked {
		if u.sequence == ack.AcknowledgedMessageSequenceNumber {
			a.unacked = append(a.unacked[:i], a.unacked[i+1:]...)
			break
		}
	}
	return nil
}

// input takes a message of the client's stream: those in order are handled and
// then acknowledged, those before their turn kept, those from before acknowledged
// again.
func (a *agent) input(m wireMessage) error {
	a.mu.Lock()
	expected := a.expected
	if m.sequence > expected && len(a.ahead) < agentAhead {
		a.ahead[m.sequence] = m
	}
	a.active = time.Now()
	a.mu.Unlock()
	if m.sequence == expected {
		for ok := true; ok; {
			if err := a.handle(m); err != nil {
				return err
			}
			a.mu.Lock()
			a.expected++
			delete(a.ahead, m.sequence)
			ack := m
			m, ok = a.ahead[a.expected]
			a.mu.Unlock()
			if ack.sequence == expected {
				a.acknowledge(ack)
			}
		}
		return nil
	}
	a.acknowledge(m)
	return nil
}

func (a *agent) acknowledge(m wireMessage) {
	text, err := json.Marshal(map[string]any{
		"AcknowledgedMessageType": m.messageType, "AcknowledgedMessageId": m.uuid,
		"AcknowledgedMessageSequenceNumber": m.sequence, "IsSequentialMessage": true,
	})
	if err != nil { // our own types: a programming error
		panic(err)
	}
	a.say(wireMessage{messageType: wireAck, flags: 3, payload: text})
}

// handle does what a message of the stream says. What comes before the handshake
// is complete is lost.
func (a *agent) handle(m wireMessage) error {
	if m.payloadType == bodyHandshakeResponse {
		select {
		case a.answered <- handshakeAnswer(m.payload):
		default:
		}
		return nil
	}
	a.mu.Lock()
	shaken := a.shaken
	a.mu.Unlock()
	if !shaken {
		return nil
	}
	switch m.payloadType {
	case bodyOutput:
		if len(m.payload) > agentPayload {
			return fmt.Errorf("%d bytes of input at once", len(m.payload)) // stricter than the agent
		}
		_, _ = a.stdin.Write(m.payload) // the command may have ended
	case bodySize:
		var size struct{ Cols, Rows uint16 }
		if err := json.Unmarshal(m.payload, &size); err != nil {
			return err
		}
		select {
		case a.sizes <- TerminalSize{Cols: size.Cols, Rows: size.Rows}:
		default:
		}
	case bodyFlag:
		// Terminating a session this way ends a port session only (amazon-ssm-agent,
		// agent/session/shell/shell_unix.go: InputStreamMessageHandler).
		if len(m.payload) != 4 || binary.BigEndian.Uint32(m.payload) != 2 {
			return errors.New("this is no flag")
		}
	}
	return nil
}

// handshakeAnswer is what keeps a session from beginning.
func handshakeAnswer(payload []byte) error {
	var in struct {
		ClientVersion          string
		ProcessedClientActions []struct {
			ActionType   string
			ActionStatus int
			Error        string
		}
	}
	if err := json.Unmarshal(payload, &in); err != nil {
		return err
	}
	for _, p := range in.ProcessedClientActions {
		if p.ActionStatus != 1 {
			return fmt.Errorf("%s failed on client with status %d error: %s", p.ActionType, p.ActionStatus, p.Error)
		}
	}
	if in.ClientVersion == "" || len(in.ProcessedClientActions) != 1 {
		return errors.New("the client did not do what it was asked")
	}
	return nil
}

// session shakes hands and runs the command; it returns what the client is told at
// the end.
func (a *agent) session(ctx context.Context) (output string) {
	a.say(wireMessage{messageType: wireStart})
	for !a.server.enterSession(a.ses) { // it waits for its turn
		if pause(ctx, agentLook) != nil {
			return ""
		}
	}
	defer a.server.leaveSession(a.ses)
	request := `{"AgentVersion":"3.3.1802.0","RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":` +
		`{"SessionType":"InteractiveCommands","Properties":null}}]}`
	a.stream(bodyHandshakeRequest, []byte(request))
	limit := time.NewTimer(agentHandshake)
	defer limit.Stop()
	select {
	case err := <-a.answered:
		if err != nil {
			return err.Error()
		}
	case <-limit.C:
		return "Handshake timed out. Please ensure that you have the latest version of the session manager plugin."
	case <-ctx.Done():
		return ""
	}
	words, err := splitWords(a.ses.argv)
	if err != nil || len(words) == 0 {
		return fmt.Sprintf("Unable to start command: Failed to parse commands input: %v", err)
	}
	reading, writing := io.Pipe()
	a.mu.Lock()
	a.stdin, a.shaken = writing, true
	a.mu.Unlock()
	defer func() { _ = reading.Close() }() // the input of nothing
	a.stream(bodyHandshakeComplete, []byte(`{"HandshakeTimeToComplete":1000000,"CustomerMessage":""}`))
	return a.command(ctx, words, reading)
}

// command runs the command on a terminal and shows what it writes.
func (a *agent) command(ctx context.Context, words []string, stdin io.Reader) (output string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen, printing := io.Pipe()
	var pumping sync.WaitGroup
	pumping.Go(func() { a.pump(ctx, screen) })
	pumping.Go(func() { a.watch(ctx, cancel) })
	_, err := a.server.Exec(ctx, ExecCall{
		TaskARN: a.ses.task, Container: a.ses.container, Argv: words, Sizes: a.sizes, Stdin: stdin, Stdout: printing,
	})
	_ = printing.Close() // never fails
	if err == nil {
		a.flush(ctx)
	}
	cancel()
	pumping.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Sprintf("Unable to start command: %s", err)
	}
	return ""
}

// watch ends the command when its container does.
func (a *agent) watch(ctx context.Context, end func()) {
	for pause(ctx, agentLook) == nil {
		a.server.mu.Lock()
		t := a.server.findTask(a.ses.task)
		runs := t != nil && !a.server.sessions.dead[a.ses.task+" "+a.ses.container] &&
			a.server.containerRunning(t, a.ses.container, time.Now())
		a.server.mu.Unlock()
		if !runs {
			end()
			a.cancelled()
		}
	}
}

// pump sends what the terminal shows.
func (a *agent) pump(ctx context.Context, screen *io.PipeReader) {
	stop := context.AfterFunc(ctx, func() { _ = screen.Close() }) // reads end with it
	defer stop()
	fast := a.server.cfg.Sessions.Fast
	if !fast && pause(ctx, agentFirst) != nil {
		return
	}
	reader, buf := bufio.NewReader(screen), make([]byte, agentPayload)
	var rest []byte
	for {
		n, err := reader.Read(buf)
		var text []byte
		if text, rest = mangle(append(rest, buf[:n]...)); len(text) > 0 {
			a.stream(bodyOutput, text)
		}
		if err != nil || !fast && pause(ctx, agentPause) != nil {
			return
		}
	}
}

// mangle is what becomes of what a terminal shows (shell.go, processStdoutData): up
// to three bytes that are not yet a character wait for more, and a byte that is
// none is replaced.
func mangle(b []byte) (text, rest []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && len(b) < utf8.UTFMax {
			return text, append([]byte(nil), b...)
		}
		text = utf8.AppendRune(text, r)
		b = b[n:]
	}
	return text, nil
}
