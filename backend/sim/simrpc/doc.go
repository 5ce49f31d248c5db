// Package simrpc carries the backend contract over a unix socket, so that a
// simulated remote can live in a process of its own ("burstlet sim") and
// outlive the engines that use it. [Server] lends a backend, [Connect] gives it
// back to an engine; neither knows what stands behind the contract.
//
// The protocol is HTTP/1.1. Every call is a POST to /<protocol>/<call>, as the table of
// package intercept names it, of its arguments as a JSON list, with the node's identity
// in a header; status 200 carries the reply,
// 422 the call's own error with its class, and anything else, a broken
// connection too, is Unavailable. JSON but for two things that are big or many:
// a pod travels once per call, as Kubernetes' protobuf, and listings have an
// encoding of their own (package listing) that is an order of magnitude cheaper.
//
//   - A call ends on the server when its connection closes, so a context that
//     ends at the client, or a client that is killed, ends it there too.
//   - Logs and hints are chunked bodies; how they ended is in a trailer.
//   - Exec, Attach, Forward and Dial upgrade their connection: Exec and Attach to
//     frames of their streams (exec.go), Forward to frames of both directions, so
//     that they can end apart (forward.go), Dial to the bytes themselves.
//   - /handshake is the one path of every protocol version. It says which fields
//     are lent and the limits, and then stays open: the client is connected as
//     long as it is.
//
// Check is pure, so it is not carried: an engine makes the remote's checker for
// itself.
//
// Calls of one request and one reply are carried by that table alone: a new one
// needs nothing here. Streams are carried by hand.
//
// How the files fit: protocol.go is what both sides must agree on, carry.go
// and errors.go its encodings, with package listing, listen.go the socket; server.go, serve.go and
// serve_exec.go are the far side; client.go (the connection), call.go, leave.go (the
// permission for changes), carry.go and streams.go the near one; exec.go the frames of
// both and forward.go both sides of a forwarded connection.
//
// It is large because it is both sides of one protocol, which change together.
package simrpc
