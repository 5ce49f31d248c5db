// Package helper carries the host operations over one byte stream, such as the
// standard input and output of an SSH session: [Serve] on the host, a [Client] that
// is a [host.Host] here.
//
// The stream is HTTP/2 without TLS, so that calls run side by side, each ends with
// its context on both sides, and none waits for another's data. An operation is one
// request and takes one round trip, the first one too. Arguments and results are
// JSON; a log is the body of its response, and the end of its request's body says
// that the container has ended.
//
// Before HTTP/2 each side writes one line with its version: a number of what is
// said here, and a hash of the operations' types. What a login shell prints before
// the helper starts is passed over.
//
// Errors arrive with their text and answer errors.Is as they did on the host: with
// the classes of package backend, the errors of package fs and those of the kernel.
// When the stream breaks, calls fail with backend.ErrUnavailable, and whether they
// were done is not known.
package helper
