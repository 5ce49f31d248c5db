// Package ssm is a client of the data channel of AWS Systems Manager, over which
// ECS Exec reaches a container: a WebSocket whose frames the agent beside the
// container acknowledges one by one. [Dialer.Dial] opens it, and [Session] is then the
// bytes of the command's terminal, in order and without loss.
//
//   - frame.go is the encoding of a frame, messages.go the JSON inside some.
//   - inbox.go and outbox.go are what both sides do about frames that get lost, are
//     doubled or overtake each other. They are pure: the caller brings the time.
//   - dial.go opens a session, with handshake.go, until its stream may be used;
//     session.go carries it. sign.go signs the request.
//
// The protocol is documented only by the sources of its two ends, the
// session-manager-plugin and the amazon-ssm-agent.
//
// Tokens are neither logged nor put into errors.
package ssm
