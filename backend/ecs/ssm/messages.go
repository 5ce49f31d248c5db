package ssm

import (
	"encoding/json"
	"fmt"
	"time"
)

// openDataChannel is the first message, a text: who wants which session. Its token
// is a secret.
type openDataChannel struct {
	MessageSchemaVersion string
	RequestID            string `json:"RequestId"`
	TokenValue           string
	ClientID             string `json:"ClientId"`
	ClientVersion        string
}

// clientVersion is what the agent takes us for: a plugin that knows handshakes.
// Unverified: that the service asks for no more than a version.
const clientVersion = "1.2.707.0"

// acknowledgement says that a frame came.
type acknowledgement struct {
	Type       string `json:"AcknowledgedMessageType"`
	ID         string `json:"AcknowledgedMessageId"`
	Sequence   int64  `json:"AcknowledgedMessageSequenceNumber"`
	Sequential bool   `json:"IsSequentialMessage"`
}

// ackFlags are SYN and FIN: an acknowledgement is a stream of its own.
const ackFlags = 3

// ack acknowledges f.
func ack(f frame, now time.Time) (frame, error) {
	payload, err := json.Marshal(acknowledgement{Type: f.kind, ID: f.id.String(), Sequence: f.sequence, Sequential: true})
	if err != nil {
		return frame{}, fmt.Errorf("encode an acknowledgement: %w", err)
	}
	return frame{kind: typeAck, created: now, flags: ackFlags, id: newMessageID(), payload: payload}, nil
}

// closed is the payload of channel_closed.
type closed struct{ Output string }

// size is the payload of payloadSize.
type size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// handshakeRequest is what the agent wants of the client.
type handshakeRequest struct {
	AgentVersion           string
	RequestedClientActions []struct {
		ActionType       string
		ActionParameters json.RawMessage
	}
}

// actionStatus is how an action went.
type actionStatus int

const (
	actionSuccess     actionStatus = 1
	actionUnsupported actionStatus = 3
)

// Actions of a handshake.
const (
	actionSessionType = "SessionType"
	actionKMS         = "KMSEncryption"
)

type processedAction struct {
	ActionType   string
	ActionStatus actionStatus
	ActionResult json.RawMessage
	Error        string
}

type handshakeResponse struct {
	ClientVersion          string
	ProcessedClientActions []processedAction
	Errors                 []string
}
