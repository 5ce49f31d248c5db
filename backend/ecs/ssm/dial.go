package ssm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/gorilla/websocket"

	"github.com/burstlet/burstlet/backend/class"
)

// Stream is what ExecuteCommand returned.
type Stream struct {
	// URL is of the scheme wss (ws for a test server).
	URL string
	// Token opens the stream, once. It is a secret.
	Token string
}

// Dialer opens sessions.
type Dialer struct {
	// Region and Credentials sign the request; nil signs nothing.
	Region      string
	Credentials aws.CredentialsProvider
}

// Numbers of a connection.
const (
	// pingEvery keeps it open through proxies; silence is how long it may say nothing
	// before it is taken for dead. The service answers pings: its agents rely on it.
	pingEvery = 25 * time.Second
	silence   = 75 * time.Second
	// writeLimit bounds one write.
	writeLimit = 15 * time.Second
	// handshakeLimit bounds the time from the connection to a usable stream.
	handshakeLimit = 30 * time.Second
)

// Dial opens a session and returns once its stream may be used. ctx bounds the
// opening, not the session. Errors: Denied, NotFound for a session that is not
// there any more, Throttled, Unsupported for one that wants what this client
// cannot, Unavailable.
func (d Dialer) Dial(ctx context.Context, s Stream) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	conn, err := d.connect(ctx, s.URL)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	session := newSession(conn)
	if err := session.open(s.Token); err != nil {
		return nil, errors.Join(fmt.Errorf("open session: %w", err), conn.Close())
	}
	session.start()
	select {
	case <-session.ready:
		return session, nil
	case <-session.ended:
		err = session.reason()
	case <-ctx.Done():
		err = class.Errorf(class.ErrUnavailable, "the agent did not answer: %w", ctx.Err())
	}
	session.end(err)
	session.Wait()
	return nil, fmt.Errorf("open session: %w", err)
}

func (d Dialer) connect(ctx context.Context, stream string) (*websocket.Conn, error) {
	u, err := url.Parse(stream)
	if err != nil || u.Host == "" || u.Scheme != "wss" && u.Scheme != "ws" {
		// Not err: a URL may have a signature.
		return nil, class.Errorf(class.ErrUnavailable, "the answer has no URL of a WebSocket")
	}
	header, err := sign(ctx, d.Credentials, d.Region, u, time.Now())
	if err != nil {
		return nil, class.Give(class.ErrDenied, err)
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeLimit}
	conn, resp, err := dialer.DialContext(ctx, u.String(), header)
	if resp != nil {
		_ = resp.Body.Close() // in memory, or taken over by conn
	}
	if err != nil {
		return nil, refusal(resp, err)
	}
	return conn, nil
}

// refusal gives a connection that failed its class.
func refusal(resp *http.Response, err error) error {
	if resp == nil {
		return class.Errorf(class.ErrUnavailable, "connect: %w", err)
	}
	of := class.ErrUnavailable
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		of = class.ErrDenied
	case http.StatusNotFound, http.StatusGone:
		of = class.ErrNotFound
	case http.StatusTooManyRequests:
		of = class.ErrThrottled
	}
	return class.Errorf(of, "connect: the service answered %s: %w", resp.Status, err)
}

// newSession is on a connection over which nothing was sent.
func newSession(conn *websocket.Conn) *Session {
	s := &Session{
		conn: conn, outbox: newOutbox(), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	s.readable, s.writable = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.isReady = sync.OnceFunc(func() { close(s.ready) })
	return s
}

// open says which session it is.
func (s *Session) open(token string) error {
	text, err := json.Marshal(openDataChannel{
		MessageSchemaVersion: "1.0", RequestID: newMessageID().String(), TokenValue: token,
		ClientID: newMessageID().String(), ClientVersion: clientVersion,
	})
	if err != nil {
		return errors.New("encode the first message") // not err: it may tell the token
	}
	return s.send(websocket.TextMessage, text)
}
