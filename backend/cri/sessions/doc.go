// Package sessions opens commands (exec.go), attachments (attach.go) and connections to
// ports (forward.go) of pods, through the container runtime and its streaming server: an
// [Opener] is what the backend lends for all three.
//
// It owns the choice between a call that gathers the output and streams, the timeouts of
// commands, and the classes of what went wrong: the runtime has one code for nearly all of
// it, so that the words and the container's state have to tell. The streams themselves are
// package streaming's; which containers and sandboxes there are, [Sources] lends.
//
// It may import packages convert, host, streaming and transport, and the contract.
package sessions
