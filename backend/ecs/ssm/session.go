package ssm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/burstlet/burstlet/backend/class"
)

// Numbers of a session.
const (
	// maxPayload is what a frame carries (session-manager-plugin, config.go:
	// StreamDataPayloadSize).
	maxPayload = 1024
	// maxUnread is what is kept for Read; more is not acknowledged, and comes again.
	maxUnread = 4 << 20
	// resendEvery is how often what may be lost is looked for.
	resendEvery = 50 * time.Millisecond
)

// Session is a terminal's bytes. It is safe for concurrent use.
type Session struct {
	conn *websocket.Conn
	// sending is held by who writes to conn.
	sending sync.Mutex

	ready, ended chan struct{}
	isReady      func()
	running      sync.WaitGroup

	mu                 sync.Mutex
	readable, writable *sync.Cond
	inbox              inbox
	outbox             outbox
	unread             []byte
	paused             bool
	// over is why the session ended, io.EOF when it was closed in order; nil while
	// it goes on.
	over error
}

// start carries frames until the session ends.
func (s *Session) start() {
	s.running.Go(s.receive)
	s.running.Go(s.keep)
}

// Read reads what the terminal shows. It ends with io.EOF when the other side
// closed the session, and else with an error of class Unavailable, also for an end that the service explains.
func (s *Session) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unread) == 0 && s.over == nil {
		s.readable.Wait()
	}
	if len(s.unread) == 0 {
		return 0, s.over
	}
	n := copy(p, s.unread)
	if s.unread = s.unread[n:]; len(s.unread) == 0 {
		s.unread = nil
	}
	return n, nil
}

// Write types into the terminal. It waits as long as too much is unacknowledged.
func (s *Session) Write(p []byte) (int, error) {
	for done := 0; ; {
		n := min(len(p)-done, maxPayload)
		if n == 0 {
			return done, nil
		}
		if err := s.put(payloadOutput, p[done:done+n]); err != nil {
			return done, fmt.Errorf("write to session: %w", err)
		}
		done += n
	}
}

// Resize tells the terminal's size.
func (s *Session) Resize(cols, rows uint16) error {
	text, err := json.Marshal(size{Cols: cols, Rows: rows})
	if err == nil {
		err = s.put(payloadSize, text)
	}
	if err != nil {
		return fmt.Errorf("resize session: %w", err)
	}
	return nil
}

// Close asks for the end of the session and leaves it. What was written before is
// not waited for.
func (s *Session) Close() error {
	s.mu.Lock()
	open := s.over == nil
	var data []byte
	if open {
		data = s.outbox.add(payloadFlag, binary.BigEndian.AppendUint32(nil, flagTerminate), time.Now())
	}
	s.mu.Unlock()
	if open {
		// It may fail: then the connection has, and the service sees that.
		_ = s.send(websocket.BinaryMessage, data)
	}
	s.end(class.Errorf(class.ErrUnavailable, "the session was closed"))
	s.Wait()
	return nil
}

// Wait returns when the session has ended.
func (s *Session) Wait() { s.running.Wait() }

// put sends a frame of the stream.
func (s *Session) put(what payloadType, payload []byte) error {
	s.mu.Lock()
	for s.over == nil && (s.paused || s.outbox.full()) {
		s.writable.Wait()
	}
	if s.over != nil {
		s.mu.Unlock()
		return class.Errorf(class.ErrUnavailable, "it has ended: %w", s.over)
	}
	data := s.outbox.add(what, payload, time.Now())
	s.mu.Unlock()
	return s.send(websocket.BinaryMessage, data)
}

// send writes one message. A connection that fails ends the session.
func (s *Session) send(kind int, data []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	err := s.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	if err == nil {
		err = s.conn.WriteMessage(kind, data)
	}
	if err != nil {
		err = class.Errorf(class.ErrUnavailable, "send: %w", err)
		s.end(err)
	}
	return err
}

// end ends the session for a reason; the first counts.
func (s *Session) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return
	}
	s.over = why
	s.readable.Broadcast()
	s.writable.Broadcast()
	close(s.ended)
	_ = s.conn.Close() // nothing is waited for, nobody can be told
}

func (s *Session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// keep sends again what may be lost, and pings.
func (s *Session) keep() {
	resend, ping := time.NewTicker(resendEvery), time.NewTicker(pingEvery)
	defer resend.Stop()
	defer ping.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-ping.C:
			if err := s.conn.WriteControl(websocket.PingMessage, []byte("keepalive"), time.Now().Add(writeLimit)); err != nil {
				s.end(class.Errorf(class.ErrUnavailable, "ping: %w", err))
			}
		case now := <-resend.C:
			s.resend(now)
		}
	}
}

func (s *Session) resend(now time.Time) {
	s.mu.Lock()
	var again [][]byte
	var lost bool
	if !s.paused {
		again, lost = s.outbox.due(now)
	}
	s.mu.Unlock()
	if lost {
		s.end(class.Errorf(class.ErrUnavailable, "the agent acknowledged nothing for %v", giveUp))
	}
	for _, data := range again {
		if s.send(websocket.BinaryMessage, data) != nil {
			return
		}
	}
}

// receive reads messages until the session ends.
func (s *Session) receive() {
	s.conn.SetReadLimit(maxFrame)
	alive := func(string) error { return s.conn.SetReadDeadline(time.Now().Add(silence)) }
	s.conn.SetPongHandler(alive)
	err := alive("")
	for err == nil {
		var kind int
		var data []byte
		if kind, data, err = s.conn.ReadMessage(); err == nil {
			err = alive("")
		}
		if err == nil && kind == websocket.BinaryMessage {
			err = s.message(data)
		}
	}
	s.end(failure(err))
}

// failure is why nothing more comes.
func failure(err error) error {
	switch {
	case err == io.EOF: //nolint:errorlint // ours: channel_closed
		return err
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway):
		return io.EOF
	case class.Of(err) == class.Of(class.ErrUnsupported):
		return err
	default:
		return class.Errorf(class.ErrUnavailable, "receive: %w", err)
	}
}

// message handles one frame.
func (s *Session) message(data []byte) error {
	f, err := decode(data)
	if err != nil {
		return err
	}
	switch f.kind {
	case typeOutput:
		s.pause(false) // who speaks also listens, as the agent has it
		return s.output(f)
	case typeAck:
		var a acknowledgement
		if err := json.Unmarshal(f.payload, &a); err != nil {
			return fmt.Errorf("decode an acknowledgement: %w", err)
		}
		s.mu.Lock()
		s.outbox.acked(a.Sequence, time.Now())
		s.mu.Unlock()
		s.pause(false)
	case typePause:
		s.pause(true)
	case typeStart:
		s.pause(false)
	case typeClosed:
		return closedBy(f.payload)
	}
	return nil
}

// pause holds back what is sent, and lets those go on that wait for their turn.
func (s *Session) pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	if !on {
		s.writable.Broadcast()
	}
}

// closedBy is the end that the service tells of: io.EOF where it has nothing to say.
func closedBy(payload []byte) error {
	var c closed
	if err := json.Unmarshal(payload, &c); err != nil {
		return fmt.Errorf("decode the end of the session: %w", err)
	}
	if c.Output != "" {
		return class.Errorf(class.ErrUnavailable, "the session was ended: %s", c.Output)
	}
	return io.EOF
}

// output takes a frame of the agent's stream.
func (s *Session) output(f frame) error {
	s.mu.Lock()
	ready, acknowledge := s.inbox.take(f, len(s.unread) < maxUnread)
	s.mu.Unlock()
	if acknowledge {
		a, err := ack(f, time.Now())
		if err != nil {
			return err
		}
		if err := s.send(websocket.BinaryMessage, a.encode()); err != nil {
			return err
		}
	}
	for _, r := range ready {
		if err := s.handle(r); err != nil {
			return err
		}
	}
	return nil
}

// handle takes a frame whose turn it is.
func (s *Session) handle(f frame) error {
	switch f.what {
	case payloadSize, payloadHandshakeResponse, payloadFlag: // ours to send
	case payloadHandshakeRequest:
		response, refusal, err := answer(f.payload)
		if err != nil {
			return err
		}
		if err := s.put(payloadHandshakeResponse, response); err != nil {
			return err
		}
		return refusal
	case payloadHandshakeComplete:
		s.isReady()
	case payloadOutput:
		s.isReady() // agents from before handshakes begin with output
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unread = append(s.unread, f.payload...)
		s.readable.Signal()
	}
	return nil
}
