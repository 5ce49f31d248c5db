package simrpc

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

const (
	typeJSON   = "application/json"
	typeBinary = "application/octet-stream"
)

// handlers are the calls of the contract: those of one request and one reply as the
// table says, the others by hand.
func handlers() map[intercept.Name]handlerFunc {
	all := map[intercept.Name]handlerFunc{
		intercept.EventsRun:      serveEvents,
		intercept.LogsOpen:       serveLogs,
		intercept.ExecExec:       serveExec,
		intercept.AttachAttach:   serveAttach,
		intercept.DialDial:       serveDial,
		intercept.ForwardForward: serveForward,
	}
	for _, m := range intercept.Methods() {
		if m.Kind == intercept.Unary {
			all[m.Name] = unary(m.Name)
		}
	}
	return all
}

// unary serves a call of one request and one reply.
func unary(call intercept.Name) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, b backend.Backend) {
		var parts []json.RawMessage
		if !read(w, r, &parts) {
			return
		}
		var unread error
		out, err := intercept.Invoke(r.Context(), b, call, func(args []any) error {
			unread = uncarried(parts, args)
			return unread
		})
		switch {
		case unread != nil:
			http.Error(w, "read request: "+unread.Error(), http.StatusBadRequest)
		case err != nil:
			fail(w, ending(r.Context(), err))
		default:
			reply(w, carriedReply(out))
		}
	}
}

// read decodes the request; false when it cannot be, which has been answered.
// It reads the body to its end: only then does the server see a client go.
func read(w http.ResponseWriter, r *http.Request, in any) bool {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, in)
	}
	if err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func reply(w http.ResponseWriter, out any) {
	list, ok := out.(encoding.BinaryMarshaler)
	if !ok {
		writeJSON(w, http.StatusOK, out)
		return
	}
	data, err := list.MarshalBinary()
	if err != nil {
		fail(w, fmt.Errorf("encode reply: %w", err))
		return
	}
	write(w, http.StatusOK, typeBinary, data)
}

// ending gives the class Unavailable to what the end of the server does to a
// call: its context was not ended by the caller.
func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	return err
}

// fail answers with the error of the call.
func fail(w http.ResponseWriter, err error) { writeJSON(w, statusCallFailed, newWireError(err)) }

func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encode reply: "+err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, status, typeJSON, append(data, '\n'))
}

// write cannot tell anybody that the client has gone: the client is the one
// that sees its reply lost.
func write(w http.ResponseWriter, status int, contentType string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }

// begin starts a streamed reply that ends with finish.
func begin(w http.ResponseWriter) error {
	w.Header().Set("Trailer", errorTrailer)
	w.Header().Set("Content-Type", typeBinary)
	w.WriteHeader(http.StatusOK)
	return flush(w)
}

// finish says how the stream ended, where the client has not gone.
func finish(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	if header, encodeErr := newWireError(err).header(); encodeErr == nil {
		w.Header().Set(errorTrailer, header)
	}
}

// serveLogs streams one container's log.
func serveLogs(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var in logsRequest
	if !read(w, r, &in) {
		return
	}
	stream, err := b.Logs.Open(r.Context(), in.Ref, in.Opts)
	if err != nil {
		fail(w, ending(r.Context(), err))
		return
	}
	if begin(w) == nil {
		err = copyFlushing(w, stream)
	}
	if closing := stream.Close(); err == nil {
		err = closing
	}
	finish(w, ending(r.Context(), err))
}

// copyFlushing hands on every part as it comes.
func copyFlushing(w http.ResponseWriter, from io.Reader) error {
	buf := make([]byte, maxFrame)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush(w); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// hintBuffer is how many hints are sent in one go.
const hintBuffer = 256

// serveEvents streams hints, a JSON string each.
func serveEvents(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	if !read(w, r, &none{}) || begin(w) != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	hints, ended := make(chan types.UID, hintBuffer), make(chan error, 1)
	go func() {
		ended <- b.Events.Run(ctx, hints)
		close(hints)
	}()
	enc := json.NewEncoder(w)
	for uid := range hints {
		err := enc.Encode(uid)
		if err == nil && len(hints) == 0 {
			err = flush(w)
		}
		if err != nil {
			break // the client has gone
		}
	}
	cancel()
	for range hints { // Run may be about to send one
	}
	finish(w, ending(r.Context(), <-ended))
}
