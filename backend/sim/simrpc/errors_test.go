package simrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestErrorsOnTheirWay: what an error is, it is at the other side, as a body and as a header.
func TestErrorsOnTheirWay(t *testing.T) {
	ofContainer := func(err error) error {
		return &backend.ContainerError{Container: "c", Reason: "ErrImagePull", Err: err}
	}
	denied := backend.Errorf(backend.ErrDenied, "no\naccess ü")
	for name, tt := range map[string]struct {
		err       error
		container string
		unmade    bool
	}{
		"plain":                       {errors.New("x"), "", false},
		"of a class":                  {denied, "", false},
		"unmade":                      {backend.Unmade(denied), "", true},
		"of a container":              {ofContainer(denied), "c ErrImagePull", false},
		"of a container, unmade":      {backend.Unmade(ofContainer(denied)), "c ErrImagePull", true},
		"unmade, of a container":      {ofContainer(backend.Unmade(denied)), "c ErrImagePull", true},
		"wrapped":                     {fmt.Errorf("x: %w", backend.Unmade(ofContainer(denied))), "c ErrImagePull", true},
		"of a container without name": {&backend.ContainerError{Reason: "x", Err: denied}, "", false},
		"nothing said":                {errors.New(""), "", false},
	} {
		header, err := newWireError(tt.err).header()
		if err != nil || strings.ContainsAny(header, "\r\n\x00") {
			t.Fatalf("%s: %q, %v", name, header, err)
		}
		fromHeader, err := readHeader(header)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var fromBody wireError
		if body, err := json.Marshal(newWireError(tt.err)); err != nil || json.Unmarshal(body, &fromBody) != nil {
			t.Fatalf("%s: %s, %v", name, body, err)
		}
		for way, got := range map[string]error{"header": fromHeader.err(), "body": fromBody.err()} {
			container := ""
			var of *backend.ContainerError
			if errors.As(got, &of) {
				container = of.Container + " " + of.Reason
			}
			if got.Error() != tt.err.Error() || backend.Class(got) != backend.Class(tt.err) || container != tt.container ||
				backend.IsUnmade(got) != tt.unmade {
				t.Errorf("%s, as a %s: %q of class %s, of %q", name, way, got, backend.Class(got), container)
			}
		}
	}
	for name, header := range map[string]string{"no base64": "!", "no JSON": "bm9uZQ==", "not all": "eyJ0ZXh0Ijo="} {
		if w, err := readHeader(header); err == nil {
			t.Errorf("%s is read as %+v", name, w)
		}
	}
}

// TestWhatIsLost: a call whose connection broke is Unavailable, for the reason that helps; a request that was refused
// before it was sent keeps its error.
func TestWhatIsLost(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	const closed, hint = "list: the server closed the connection: ", "(does burstlet sim run?)"
	refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	held := &refusal{backend.Errorf(backend.ErrThrottled, "no lease")}
	for name, tt := range map[string]struct {
		err         error
		over        bool // the caller's context
		class, says string
	}{
		"any":                   {errors.New("broken pipe"), false, "Unavailable", "list: broken pipe"},
		"its end":               {io.EOF, false, "Unavailable", closed + "EOF"},
		"its end in the middle": {io.ErrUnexpectedEOF, false, "Unavailable", closed + "unexpected EOF"},
		"no socket":             {&fs.PathError{Op: "dial", Path: "s", Err: fs.ErrNotExist}, false, "Unavailable", hint},
		"nobody listens":        {refused, false, "Unavailable", hint},
		"given up":              {io.EOF, true, "Unavailable", "list: context canceled"},
		"given up, and nobody":  {refused, true, "Unavailable", "list: context canceled"},
		"not to be sent":        {fmt.Errorf("post: %w", held), false, "Throttled", "no lease"},
		"nor when given up":     {fmt.Errorf("post: %w", held), true, "Throttled", "no lease"},
	} {
		ctx := t.Context()
		if tt.over {
			ctx = over
		}
		err := lost(ctx, "list", tt.err)
		if backend.Class(err) != tt.class || !strings.HasSuffix(err.Error(), tt.says) {
			t.Errorf("%s: %s: %v, want %s: %s", name, backend.Class(err), err, tt.class, tt.says)
		}
		if tt.class == "Unavailable" && !tt.over && !errors.Is(err, tt.err) {
			t.Errorf("%s: %v is not why", name, err)
		}
	}
}

// TestWhatAnAnswerFails: with the error of the call, and with what another server says, which is no error of a call.
func TestWhatAnAnswerFails(t *testing.T) {
	const unavailable = "Unavailable"
	body := func(text string) io.Reader { return strings.NewReader(text) }
	for name, tt := range map[string]struct {
		status int
		body   io.Reader
		class  string
		says   string
	}{
		"of the call":     {statusCallFailed, body(`{"text":"no pod","is":["class.NotFound"]}`), "NotFound", "no pod"},
		"of no class":     {statusCallFailed, body(`{"text":"x"}`), "Transient", "x"},
		"unreadable":      {statusCallFailed, body(`{"text":`), unavailable, "read error: unexpected end of JSON input"},
		"another page":    {http.StatusNotFound, body("no page\n"), unavailable, `server answers 404 Not Found "no page"`},
		"success of none": {http.StatusOK, body("{}"), unavailable, `the server answers 200 OK "{}"`},
		"cut": {
			statusCallFailed, iotest.ErrReader(io.ErrUnexpectedEOF), unavailable, "closed the connection: unexpected EOF",
		},
	} {
		resp := &http.Response{
			StatusCode: tt.status, Status: fmt.Sprint(tt.status, " ", http.StatusText(tt.status)), Body: io.NopCloser(tt.body),
		}
		err := failure(t.Context(), "list", resp)
		if backend.Class(err) != tt.class || !strings.HasSuffix(err.Error(), tt.says) {
			t.Errorf("%s: %s: %v, want %s: %s", name, backend.Class(err), err, tt.class, tt.says)
		}
	}
}

// TestHowStreamsEnd: well only where the server says no more than that it is the end.
func TestHowStreamsEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	throttled, err := newWireError(backend.Errorf(backend.ErrThrottled, "too much")).header()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		trailer string
		err     error
		over    bool
		class   string
	}{
		"the end":                 {"", io.EOF, false, ""},
		"the end, with an error":  {throttled, io.EOF, false, "Throttled"},
		"an error nobody reads":   {"!", io.EOF, false, "Unavailable"},
		"cut":                     {"", io.ErrUnexpectedEOF, false, "Unavailable"},
		"cut, with an error":      {throttled, io.ErrUnexpectedEOF, false, "Unavailable"},
		"given up":                {"", errors.New("closed"), true, "Unavailable"},
		"given up at the end":     {"", io.EOF, true, "Unavailable"},
		"given up, with an error": {throttled, io.EOF, true, "Unavailable"},
	} {
		s := &stream{resp: &http.Response{Trailer: http.Header{errorTrailer: {tt.trailer}}}}
		ctx := t.Context()
		if tt.over {
			ctx = over
		}
		if err := s.ended(ctx, intercept.LogsOpen, tt.err); backend.Class(err) != tt.class {
			t.Errorf("%s: %v, want %q", name, err, tt.class)
		}
	}
}

// TestEndings: what the end of the server does to a call is no error of the call.
func TestEndings(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, done := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer done()
	for name, tt := range map[string]struct {
		ended error // of the context
		err   error
		class string
	}{
		"none":                    {context.Canceled, nil, ""},
		"while it serves":         {nil, context.Canceled, "Transient"},
		"as it ends":              {context.Canceled, fmt.Errorf("list: %w", context.Canceled), "Unavailable"},
		"another, as it ends":     {context.Canceled, backend.Errorf(backend.ErrDenied, "x"), "Denied"},
		"another way of ending":   {context.Canceled, context.DeadlineExceeded, "Transient"},
		"a deadline of the call":  {context.DeadlineExceeded, context.DeadlineExceeded, "Unavailable"},
		"not its deadline either": {context.DeadlineExceeded, context.Canceled, "Transient"},
	} {
		ctx := map[error]context.Context{nil: t.Context(), context.Canceled: over, context.DeadlineExceeded: late}[tt.ended]
		if got := ending(ctx, tt.err); backend.Class(got) != tt.class || !errors.Is(got, tt.err) {
			t.Errorf("%s: %v of class %q, want %q", name, got, backend.Class(got), tt.class)
		}
	}
}
