// Package sshlink reaches a pods' host over SSH: two connections that are made
// again whenever they end, sockets and ports of the host through them, and the
// host's helper, which does the host operations.
//
//	Link (link.go)         both connections and the helper; Run starts everything
//	  line (line.go)       one connection's life: connect, hold, back off
//	    connect.go         the way there: jump hosts, host keys (package hostkeys), keys (keyring)
//	    connection.go      one connection: its goroutines, keepalive.go, pty.go
//	    dial.go            connections from the host (package sshchannel), errors as net's
//	    session.go         a command on the host
//	  assistant (assistant.go, upload.go)   the helper: brought, started, started again
//	  delegate (delegate.go)                host.Host over whichever helper runs
//	Diagnose (diagnose.go) what a host lacks, for people
//
// Control carries the runtime's socket, probes and the host operations; Streams
// carries what may be large: exec, copies, logs, forwarded ports.
//
// An sshd leaves Nagle's algorithm on for what it forwards, which costs a small
// call 4 to 8 ms, but turns it off for a connection whose first session has a pty.
// So each connection begins with such a session and keeps it (pty.go).
//
// It is large because a connection, its sessions and the helper on it are one life: each
// ends with the others.
package sshlink
