// Package streaming is a client of a container runtime's streaming server, as an API
// server is a client of a kubelet's: CRI's Exec, Attach and PortForward answer with a
// URL, on which the streams travel over SPDY/3.1 (the protocols v4.channel.k8s.io and
// portforward.k8s.io, which every runtime speaks).
//
//	upgrade.go   the request that turns an HTTP connection into one of streams
//	link.go      that connection: one write for each frame, its end told to all
//	session.go   the streams of a command or an attachment, copied to their ends
//	status.go    how it ended, in the runtime's words
//	forward.go   a connection to a port of a pod, as a net.Conn
//
// client-go's own clients of these protocols are not used: they take a connection that
// broke for a command that succeeded, lose the errors of those who take the output, and
// go on writing after they have returned.
package streaming
