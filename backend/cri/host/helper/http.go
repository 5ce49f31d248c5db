package helper

import (
	"net/http"
	"time"
)

const (
	// streamWindow is how much of one body may be under way, unread: enough that a
	// volume takes no second round trip, and a log a fast link's whole width.
	hostWindow, clientWindow = 32 << 20, 4 << 20
	// connWindow is as good as none: a log that nobody reads must not hold up the
	// other calls.
	connWindow = 1 << 30
	// frameSize is the most that one call sends before others have their turn.
	frameSize = 64 << 10
	// maxCalls bounds calls at once, logs that are followed among them.
	maxCalls = 10_000
	// maxMessage bounds arguments in bytes: a volume's contents are the largest.
	maxMessage = 256 << 20
	// maxReply bounds a reply that has little to say, and every error: a host that is
	// not what it was must not take the memory of all nodes of a process. maxListing is
	// for those that tell of many pods, maxRuntimeReply for a message of the runtime.
	maxReply        = 1 << 20
	maxListing      = 16 << 20
	maxRuntimeReply = 24 << 20
	// readAtOnce is how much room a message gets before it comes.
	readAtOnce = 64 << 10

	// quiet is how long the other side may be silent before the host asks whether it is
	// there, and then how long it may take to answer: an SSH session whose network went
	// away lasts for hours on a host without keepalives of its own.
	quiet = 30 * time.Second

	// errorHeader is set on a response whose body is an error.
	errorHeader = "Burstlet-Failed"
	// leaderHeader has the leader who asks for an operation, as JSON in base64; it is not
	// there where nobody says.
	leaderHeader = "Burstlet-Leader"
	// errorTrailer has the error with which a log ended, as JSON in base64.
	errorTrailer = "Burstlet-Error"
)

// settings are HTTP/2's. The client sends no pings: the stream's owner has keepalives.
func settings(window int) (*http.Protocols, *http.HTTP2Config) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols, &http.HTTP2Config{
		MaxConcurrentStreams:          maxCalls,
		MaxReadFrameSize:              frameSize,
		MaxReceiveBufferPerStream:     window,
		MaxReceiveBufferPerConnection: connWindow,
	}
}
