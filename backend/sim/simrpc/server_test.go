package simrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestWhatAServerAnswers: calls of this protocol for what it lends; everything else is refused before anybody is asked.
func TestWhatAServerAnswers(t *testing.T) {
	list, stop := callPath(intercept.PodsList), callPath(intercept.PodsStop)
	path := func(protocol int, call string) string { return fmt.Sprintf("/%d/%s", protocol, call) }
	for name, tt := range map[string]struct {
		method, path, body string // POST unless another is named
		node, leader       string
		status             int
		says               string
		asked              bool
	}{
		"a call":              {path: list, body: "[]", status: 200, asked: true},
		"of another node":     {path: list, body: "[]", node: "b%2Fc", status: 200, asked: true},
		"with arguments":      {path: stop, body: `[{},7]`, status: 200, says: "{}", asked: true},
		"no such call":        {path: path(protocol, "Pods.Start"), body: "[]", status: 404, says: "not found"},
		"of another protocol": {path: path(protocol-1, "Pods.List"), body: "[]", status: 404, says: "not found"},
		"to be read":          {method: http.MethodGet, path: list, status: 405, says: "Method Not Allowed"},
		"no request":          {path: list, status: 400, says: "read request: unexpected end of JSON input"},
		"no list":             {path: list, body: "{}", status: 400, says: "read request: json: cannot unmarshal object"},
		"too little":          {path: stop, body: `[{}]`, status: 400, says: "read request: 1 arguments, want 2"},
		"too much":            {path: list, body: `[1]`, status: 400, says: "read request: 1 arguments, want 0"},
		"of another kind":     {path: stop, body: `[{},"x"]`, status: 400, says: "json: cannot unmarshal string"},
		"what is not lent":    {path: callPath(intercept.ImagesFind), status: 422, says: "does not lend Images"},
		"of nobody":           {path: list, body: "[]", node: "%zz", status: 422, says: "read header Burstlet-Node"},
		"a change of nobody":  {path: stop, body: `[{},7]`, leader: "%zz", status: 422, says: "read header Burstlet-Leader"},
		"of a former leader":  {path: stop, body: `[{},7]`, leader: "a", status: 422, says: "of leader ü, who has taken"},
		"of the last one":     {path: stop, body: `[{},7]`, leader: "%C3%BC", status: 200, asked: true},
		"a reading of nobody": {path: list, body: "[]", leader: "a", status: 200, asked: true},
		"the handshake":       {path: handshakePath, body: "{}", status: 200, says: `"Fields":["Pods"]`},
		"no handshake":        {path: handshakePath, body: "x", status: 400, says: "read request"},
		"who leads":           {path: leaderPath, body: `{"Change":"look"}`, status: 200, says: `{"number":1,"holder":"ü"}`},
		"who leads another":   {path: leaderPath, body: `{"Change":"look"}`, node: "c", status: 200, says: `"holder":""`},
		"no question":         {path: leaderPath, body: "x", status: 400, says: "read request"},
	} {
		f := &far{}
		s := &Server{
			Open:    func(string) backend.Backend { return backend.Backend{Name: "far", Pods: farPods{f}} },
			leaders: map[string]fence.Record{"a": {Number: 1, Holder: "ü"}},
		}
		if tt.method == "" {
			tt.method = http.MethodPost
		}
		if tt.node == "" {
			tt.node = "a"
		}
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set(nodeHeader, tt.node)
		if tt.leader != "" {
			r.Header.Set(leaderHeader, tt.leader)
		}
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || (f.asked != nil) != tt.asked {
			t.Errorf("%s: %d, %q, asked %v; want %d, %q", name, w.Code, w.Body, f.asked, tt.status, tt.says)
		}
	}
}

// TestBackendsAreOpenedOnce: for each node, but one that cannot be served is refused each time.
func TestBackendsAreOpenedOnce(t *testing.T) {
	opened := 0
	s := &Server{Open: func(node string) backend.Backend {
		opened++
		b := (&far{}).backend(node)
		if node == "runs" {
			b = intercept.Lend([]string{"Run"}, nil)
		}
		return b
	}}
	for i, step := range []struct {
		node   string
		class  string
		opened int
	}{
		{"a", "", 1},
		{"a", "", 1},
		{"b", "", 2},
		{"a", "", 2},
		{"runs", "Unsupported", 3},
		{"runs", "Unsupported", 4},
		{"", "", 5},
		{"", "", 5},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set(nodeHeader, step.node)
		if _, err := s.node(r); backend.Class(err) != step.class || opened != step.opened {
			t.Errorf("step %d: %v, opened %d times, want %q, %d", i, err, opened, step.class, step.opened)
		}
	}
}

// TestRepliesOnTheirWay: listings in their own encoding, all else as JSON, and what cannot be encoded as an error.
func TestRepliesOnTheirWay(t *testing.T) {
	for name, tt := range map[string]struct {
		given  any
		status int
		kind   string
		body   string
	}{
		"nothing":       {nil, 200, typeJSON, "{}\n"},
		"a text":        {new("x"), 200, typeJSON, "\"x\"\n"},
		"no pods":       {&[]backend.PodFacts{}, 200, typeBinary, "\x01"},
		"no list":       {new([]backend.PodFacts), 200, typeBinary, "\x00"},
		"no volumes":    {&[]backend.VolumeFacts{}, 200, typeBinary, "\x01"},
		"a function":    {func() {}, 500, "text/plain; charset=utf-8", "encode reply: json: unsupported type: func()\n"},
		"other listing": {&[]backend.ImageFacts{}, 200, typeJSON, "[]\n"},
	} {
		w := httptest.NewRecorder()
		reply(w, carriedReply(tt.given))
		if w.Code != tt.status || w.Header().Get("Content-Type") != tt.kind || w.Body.String() != tt.body {
			t.Errorf("%s: %d, %s, %q", name, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// TestCopiesAreFlushed: each part as it comes, to the end or what breaks it.
func TestCopiesAreFlushed(t *testing.T) {
	cut := errors.New("cut")
	for name, tt := range map[string]struct {
		from io.Reader
		want string
		err  error
	}{
		"nothing":             {strings.NewReader(""), "", nil},
		"a part":              {strings.NewReader("abc"), "abc", nil},
		"a part with its end": {iotest.DataErrReader(strings.NewReader("abc")), "abc", nil},
		"it breaks":           {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(cut)), "abc", cut},
		"it breaks at once":   {iotest.ErrReader(cut), "", cut},
	} {
		w := httptest.NewRecorder()
		err := copyFlushing(w, tt.from)
		if w.Body.String() != tt.want || !errors.Is(err, tt.err) || w.Flushed != (tt.want != "") {
			t.Errorf("%s: %q, %v, flushed: %v", name, w.Body, err, w.Flushed)
		}
	}
}

// TestHandshakesThatAgree: of one protocol; what else they say is read then alone.
func TestHandshakesThatAgree(t *testing.T) {
	for name, tt := range map[string]struct{ said, class, text string }{
		"this protocol": {`{"Protocol":N,"Version":"v2","Name":"far","Fields":["Pods"]}`, "", ""},
		"a former one":  {`{"Protocol":1,"Version":"v1","Fields":7}`, "Unsupported", `(version "v1") speaks protocol 1`},
		"none":          {`{}`, "Unsupported", `(version "") speaks protocol 0`},
		"no JSON":       {`<html>`, "Unsupported", "read handshake: invalid character"},
		"another shape": {`{"Protocol":N,"Fields":7}`, "Unsupported", "read handshake: json: cannot unmarshal number"},
	} {
		var got handshake
		said := strings.Replace(tt.said, "N", fmt.Sprint(protocol), 1)
		err := (&client{cfg: Config{Version: "mine"}}).agree([]byte(said), &got)
		if backend.Class(err) != tt.class || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q: %q", name, err, tt.class, tt.text)
		}
		want := handshake{Protocol: protocol, Version: "v2", Name: "far", Fields: []string{"Pods"}}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPermissionIsAskedOnce: as the first byte of a request is to leave, and again for one that is sent again.
func TestPermissionIsAskedOnce(t *testing.T) {
	no := backend.Errorf(backend.ErrThrottled, "no lease")
	for name, tt := range map[string]struct {
		answers []error // to each question, nil from then on
		read    string
		asked   int
	}{
		"it may":           {nil, "body", 1},
		"it may not":       {[]error{no}, "", 1},
		"it may no longer": {[]error{nil, no}, "body", 1},
	} {
		asked := 0
		w := warrant{ask: func() error {
			asked++
			if asked <= len(tt.answers) {
				return tt.answers[asked-1]
			}
			return nil
		}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sim/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		w.hold(req)
		got, err := io.ReadAll(iotest.OneByteReader(req.Body))
		var refused *refusal
		if string(got) != tt.read || asked != tt.asked || (tt.read == "") != errors.As(err, &refused) {
			t.Errorf("%s: %q, %v after %d questions", name, got, err, asked)
		}
		again, err := req.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(again)
		if asked != tt.asked+1 || (err == nil) != (tt.asked >= len(tt.answers)) {
			t.Errorf("%s, sent again: %v after %d questions", name, err, asked)
		}
	}
	if err := (warrant{}).permit(); err != nil {
		t.Errorf("what reads needs no permission: %v", err)
	}
}

// TestArgumentsThatAreNone: as many as the call has, each of its kind.
func TestArgumentsThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct {
		parts []string
		says  string
	}{
		"all there":     {[]string{`"x"`, `{"Pod":null,"Spec":{}}`}, ""},
		"no pod":        {[]string{`"x"`, `{}`}, ""},
		"one too few":   {[]string{`"x"`}, "1 arguments, want 2"},
		"one too many":  {[]string{`"x"`, `{}`, `{}`}, "3 arguments, want 2"},
		"no text":       {[]string{`7`, `{}`}, "cannot unmarshal number"},
		"no spec":       {[]string{`"x"`, `[]`}, "cannot unmarshal array"},
		"a pod in text": {[]string{`"x"`, `{"Pod":{}}`}, "cannot unmarshal object"},
		"no pod's data": {[]string{`"x"`, `{"Pod":"/w=="}`}, "decode pod"},
	} {
		var parts []json.RawMessage
		for _, part := range tt.parts {
			parts = append(parts, json.RawMessage(part))
		}
		var text string
		var spec backend.ContainerSpec
		err := uncarried(parts, []any{&text, &spec})
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		if err == nil && (text != "x" || spec.Pod != nil) {
			t.Errorf("%s: %q, %+v", name, text, spec)
		}
	}
}
