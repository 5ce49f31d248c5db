package ecs

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// dataChannelPath is where sessions are opened (Session: streamUrl).
const dataChannelPath = "/v1/data-channel/"

// wireMessage is a message of the data channel as amazon-ssm-agent has it
// (agent/session/contracts/agentmessage.go): offsets, and all integers big-endian.
type wireMessage struct {
	messageType string
	created     uint64
	sequence    int64
	flags       uint64
	uuid        string
	payloadType uint32
	payload     []byte
}

// Parts of a message.
const (
	wireHeader = 116
	wireBody   = wireHeader + 4
)

// Types of messages and payloads.
const (
	wireInput  = "input_stream_data"
	wireOutput = "output_stream_data"
	wireAck    = "acknowledge"
	wireClosed = "channel_closed"
	wireStart  = "start_publication"

	bodyOutput            = 1
	bodySize              = 3
	bodyHandshakeRequest  = 5
	bodyHandshakeResponse = 6
	bodyHandshakeComplete = 7
	bodyFlag              = 10
)

func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// bytes writes the message.
func (m wireMessage) bytes() []byte {
	var out bytes.Buffer
	put := func(v any) { _ = binary.Write(&out, binary.BigEndian, v) } // a buffer never fails
	put(uint32(wireHeader))
	fmt.Fprintf(&out, "%-32s", m.messageType)
	put(uint32(1))
	put(m.created)
	put(m.sequence)
	put(m.flags)
	id, err := hex.DecodeString(strings.ReplaceAll(m.uuid, "-", ""))
	if err != nil || len(id) != 16 { // our own: a programming error
		panic("no UUID: " + m.uuid)
	}
	out.Write(id[8:])
	out.Write(id[:8])
	digest := sha256.Sum256(m.payload)
	out.Write(digest[:])
	put(m.payloadType)
	put(uint32(len(m.payload))) //nolint:gosec // small
	out.Write(m.payload)
	return out.Bytes()
}

// parseWire reads a message and is strict about it.
func parseWire(b []byte) (wireMessage, error) {
	if len(b) < wireBody || binary.BigEndian.Uint32(b) != wireHeader {
		return wireMessage{}, fmt.Errorf("%d bytes are no message", len(b))
	}
	if v := binary.BigEndian.Uint32(b[36:]); v != 1 {
		return wireMessage{}, fmt.Errorf("schema version %d", v)
	}
	id := hex.EncodeToString(b[72:80]) + hex.EncodeToString(b[64:72])
	m := wireMessage{
		messageType: strings.TrimRight(string(b[4:36]), " "),
		created:     binary.BigEndian.Uint64(b[40:]),
		sequence:    int64(binary.BigEndian.Uint64(b[48:])), //nolint:gosec // the same bits
		flags:       binary.BigEndian.Uint64(b[56:]),
		uuid:        strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-"),
		payloadType: binary.BigEndian.Uint32(b[112:]),
		payload:     b[wireBody:],
	}
	if n := binary.BigEndian.Uint32(b[wireHeader:]); int(n) != len(m.payload) {
		return wireMessage{}, fmt.Errorf("payload of %d bytes, %d are there", n, len(m.payload))
	}
	if digest := sha256.Sum256(m.payload); !bytes.Equal(digest[:], b[80:112]) {
		return wireMessage{}, fmt.Errorf("payload and digest differ")
	}
	if m.created == 0 {
		return wireMessage{}, fmt.Errorf("no date of creation")
	}
	return m, nil
}

var upgrader = websocket.Upgrader{
	// Anybody may, as long as it has a token.
	CheckOrigin: func(*http.Request) bool { return true },
}

// serveDataChannel is the service's side of a session: it checks who comes, and
// lets the agent talk.
func (s *Server) serveDataChannel(w http.ResponseWriter, r *http.Request) {
	if !s.signedFor(r) {
		http.Error(w, "Forbidden", http.StatusForbidden)
		return
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.Close() }() // the session is over
	ses := s.opening(conn, strings.TrimPrefix(r.URL.Path, dataChannelPath))
	if ses == nil {
		refusal := websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "Invalid token")
		_ = conn.WriteControl(websocket.CloseMessage, refusal, time.Now().Add(time.Second)) // the caller may have gone
		return
	}
	newAgent(s, ses, conn).run(r.Context())
}

// opening reads the first message, which says whose session it is.
func (s *Server) opening(conn *websocket.Conn, id string) *session {
	kind, text, err := conn.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		return nil
	}
	var first struct {
		MessageSchemaVersion, TokenValue, ClientVersion string

		RequestID string `json:"RequestId"`
		ClientID  string `json:"ClientId"`
	}
	if json.Unmarshal(text, &first) != nil || first.MessageSchemaVersion != "1.0" || len(first.RequestID) != 36 ||
		len(first.ClientID) != 36 || first.ClientVersion == "" {
		return nil
	}
	return s.redeem(id, first.TokenValue)
}
