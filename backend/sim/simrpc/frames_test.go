package simrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
)

// sent is a connection that keeps what is written to it, so many bytes at most.
type sent struct {
	net.Conn
	bytes.Buffer
	room int
}

func (s *sent) Write(p []byte) (int, error) {
	if s.room -= len(p); s.room < 0 {
		return 0, io.ErrClosedPipe
	}
	return s.Buffer.Write(p)
}

func (s *sent) Read(p []byte) (int, error) { return s.Buffer.Read(p) }

// kinds are the frames that were sent, each as its kind and length.
func kinds(t *testing.T, data io.Reader) []string {
	t.Helper()
	var out []string
	for f := (&frames{in: data}); ; {
		kind, part, err := f.read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%c%d", kind, len(part)))
	}
}

// TestFramesAreWhole: a frame that is cut or too large is an error, and never a smaller one.
func TestFramesAreWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		data string
		want string
		err  error
	}{
		"nothing":            {"", "", io.EOF},
		"an empty one":       {"w\x00\x00\x00\x00", "w:", nil},
		"one":                {"o\x00\x00\x00\x03abc", "o:abc", nil},
		"and what follows":   {"o\x00\x00\x00\x01abc", "o:a", nil},
		"a part of a head":   {"o\x00\x00", "", io.ErrUnexpectedEOF},
		"only a head":        {"o\x00\x00\x00\x03", "", io.EOF},
		"a part":             {"o\x00\x00\x00\x03ab", "", io.ErrUnexpectedEOF},
		"the largest, cut":   {"o\x00\x00\x80\x00a", "", io.ErrUnexpectedEOF},
		"larger than may be": {"o\x00\x00\x80\x01a", "", errors.New("a frame of 32769 bytes")},
	} {
		kind, data, err := (&frames{in: strings.NewReader(tt.data)}).read()
		got := ""
		if err == nil {
			got = string(kind) + ":" + string(data)
		}
		if got != tt.want || fmt.Sprint(err) != fmt.Sprint(tt.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, tt.want, tt.err)
		}
	}
}

// TestOutputInFrames: in as many as it takes; what could not be sent is said.
func TestOutputInFrames(t *testing.T) {
	for name, tt := range map[string]struct {
		size, room int
		want       string
		taken      int
	}{
		"nothing":         {0, 1 << 20, "[]", 0},
		"a byte":          {1, 1 << 20, "[e1]", 1},
		"a whole frame":   {maxFrame, 1 << 20, "[e32768]", maxFrame},
		"and a byte more": {maxFrame + 1, 1 << 20, "[e32768 e1]", maxFrame + 1},
		"many":            {3*maxFrame - 1, 1 << 20, "[e32768 e32768 e32767]", 3*maxFrame - 1},
		"none goes":       {1, 0, "[]", 0},
		"one goes":        {2 * maxFrame, maxFrame + headSize, "[e32768]", maxFrame},
	} {
		s := &sent{room: tt.room}
		n, err := output{&frames{conn: s}, frameStderr}.Write(make([]byte, tt.size))
		if got := fmt.Sprint(kinds(t, s)); got != tt.want || n != tt.taken || (err == nil) != (n == tt.size) {
			t.Errorf("%s: %s, %d taken, %v; want %s, %d", name, got, n, err, tt.want, tt.taken)
		}
	}
}

// TestSizesInFrames: width and height, or that no more will come.
func TestSizesInFrames(t *testing.T) {
	for _, size := range []backend.TerminalSize{{}, {Width: 80, Height: 24}, {Width: 0xffff, Height: 1}} {
		if got, ok := readSizeFrame(sizeFrame(size)); !ok || got != size {
			t.Errorf("%+v became %+v, %v", size, got, ok)
		}
	}
	for _, data := range []string{"", "\x00", "\x00\x50\x00", "\x00\x50\x00\x18\x00"} {
		if got, ok := readSizeFrame([]byte(data)); ok {
			t.Errorf("%q is %+v", data, got)
		}
	}
}

// TestInputIsAskedFor: once for each part, and not at all once it has ended.
func TestInputIsAskedFor(t *testing.T) {
	cut := errors.New("cut")
	for name, tt := range map[string]struct {
		parts []inputPart
		size  int // of each read
		gone  bool
		room  int
		want  string // what is read, why it ends and what was asked
	}{
		"nothing": {[]inputPart{{err: io.EOF}}, 9, false, 99, `"", EOF [w0]`},
		"a part":  {[]inputPart{{data: []byte("abc")}, {err: io.EOF}}, 9, false, 99, `"abc", EOF [w0 w0]`},
		"parts": {
			[]inputPart{{data: []byte("a")}, {data: []byte("b")}, {err: io.EOF}}, 9, false, 99, `"ab", EOF [w0 w0 w0]`,
		},
		"a part, bit by bit": {[]inputPart{{data: []byte("abc")}, {err: io.EOF}}, 2, false, 99, `"abc", EOF [w0 w0]`},
		"an empty part":      {[]inputPart{{}, {data: []byte("a")}, {err: io.EOF}}, 9, false, 99, `"a", EOF [w0 w0 w0]`},
		"it breaks":          {[]inputPart{{data: []byte("a")}, {err: cut}}, 9, false, 99, `"a", cut [w0 w0]`},
		"the client is gone": {nil, 9, true, 99, `"", unexpected EOF [w0]`},
		"nobody is asked":    {[]inputPart{{data: []byte("a")}}, 9, false, 0, `"", io: read/write on closed pipe []`},
		"nothing is wanted":  {[]inputPart{{data: []byte("a")}}, 0, false, 99, `"", <nil> []`},
	} {
		s := &sent{room: tt.room}
		in := &wantedInput{frames: &frames{conn: s}, parts: make(chan inputPart, len(tt.parts))}
		for _, part := range tt.parts {
			in.parts <- part
		}
		if tt.gone {
			gone := make(chan struct{})
			close(gone)
			in.gone = gone
		}
		var got []byte
		p := make([]byte, tt.size)
		n, err := in.Read(p)
		for got = append(got, p[:n]...); err == nil && tt.size > 0; got = append(got, p[:n]...) {
			n, err = in.Read(p)
		}
		if _, again := in.Read(p); tt.size > 0 && !errors.Is(again, err) {
			t.Errorf("%s: it ends with %v, then with %v", name, err, again)
		}
		if text := fmt.Sprintf("%q, %v %v", got, err, kinds(t, s)); text != tt.want {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}

// TestWhatAClientSends: input in its order, of sizes the last, and that there are no more of them.
func TestWhatAClientSends(t *testing.T) {
	size := func(width uint16) string {
		return "r\x00\x00\x00\x04" + string(sizeFrame(backend.TerminalSize{Width: width, Height: 1}))
	}
	const none = "r\x00\x00\x00\x00"
	for name, tt := range map[string]struct {
		frames string
		parts  []string
		widths []uint16
	}{
		"nothing":                  {"", nil, nil},
		"input":                    {"i\x00\x00\x00\x02abi\x00\x00\x00\x01c", []string{"ab", "c"}, nil},
		"its end":                  {"x\x00\x00\x00\x00", []string{"EOF"}, nil},
		"why it broke":             {"i\x00\x00\x00\x01ax\x00\x00\x00\x03cut", []string{"a", "cut"}, nil},
		"a size":                   {size(80), nil, []uint16{80}},
		"the last of many":         {size(80) + size(90) + size(100), nil, []uint16{100}},
		"no more":                  {size(80) + none, nil, []uint16{80}},
		"one after there are none": {size(80) + none + size(90), nil, []uint16{80}},
		"none, and again none":     {none + none, nil, nil},
		"both": {
			size(80) + "i\x00\x00\x00\x01a" + none + "x\x00\x00\x00\x00", []string{"a", "EOF"}, []uint16{80},
		},
		"one that is cut": {size(80) + "i\x00\x00\x00\x02a", nil, []uint16{80}},
	} {
		in := &incoming{
			wantedInput: wantedInput{frames: &frames{in: strings.NewReader(tt.frames)}, parts: make(chan inputPart, 9)},
			sizes:       make(chan backend.TerminalSize, 1),
		}
		in.receive()
		close(in.parts)
		var parts []string
		for part := range in.parts {
			if part.err != nil {
				part.data = []byte(part.err.Error())
			}
			parts = append(parts, string(part.data))
		}
		var widths []uint16
		for size := range in.sizes { // which end with the connection
			widths = append(widths, size.Width)
		}
		if diff := cmp.Diff(tt.parts, parts) + cmp.Diff(tt.widths, widths); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhichStreamsThereAre: those that the client has, and no others.
func TestWhichStreamsThereAre(t *testing.T) {
	all := backend.AttachSpec{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, TTY: true,
		Resize: make(chan backend.TerminalSize),
	}
	for name, edit := range map[string]func(*backend.AttachSpec){
		"all": func(*backend.AttachSpec) {}, "none": func(s *backend.AttachSpec) { *s = backend.AttachSpec{} },
		"no input":    func(s *backend.AttachSpec) { s.Stdin = nil },
		"no output":   func(s *backend.AttachSpec) { s.Stdout = nil },
		"no errors":   func(s *backend.AttachSpec) { s.Stderr = nil },
		"no terminal": func(s *backend.AttachSpec) { s.TTY = false },
		"no sizes":    func(s *backend.AttachSpec) { s.Resize = nil },
	} {
		spec := all
		edit(&spec)
		in := &incoming{sizes: make(chan backend.TerminalSize)}
		if want, got := flagsOf(spec), flagsOf(in.streams(flagsOf(spec))); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
