package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for line, want := range map[string]Record{
		"2026-01-02T03:04:05.000000006Z stdout F hello world":      {at, Stdout, false, []byte("hello world")},
		"2026-01-02T05:04:05.000000006+02:00 stderr P  two":        {at, Stderr, true, []byte(" two")},
		"2026-01-02T03:04:05.000000006Z stdout F ":                 {at, Stdout, false, nil},
		"2026-01-02T03:04:05.000000006Z stdout F":                  {at, Stdout, false, nil},
		"2026-01-02T03:04:05.000000006Z stdout P:more:tags x\ty\r": {at, Stdout, true, []byte("x\ty\r")},
	} {
		got, err := Parse([]byte(line))
		if err != nil || !got.Time.Equal(want.Time) || got.Stream != want.Stream || got.Partial != want.Partial ||
			!bytes.Equal(got.Text, want.Text) {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	for _, line := range []string{
		"", "x", "today stdout F x", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z stdin F x",
		"2026-01-02T03:04:05Z stdout X x", "2026-01-02T03:04:05Z stdout", "2026-01-02T03:04:05Z stdout  x",
	} {
		if _, err := Parse([]byte(line)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, want malformed", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05.000000006Z stdout F hello"))
	f.Add([]byte("2026-01-02T03:04:05Z stderr P:a "))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(line, r.Text) {
			t.Errorf("text %q is not the end of %q", r.Text, line)
		}
		tag := map[bool]string{true: "P", false: "F"}[r.Partial]
		if r.Time.Year() < 0 || r.Time.Year() > 9999 {
			return
		}
		again, err := Parse(fmt.Appendf(nil, "%s %s %s %s", r.Time.Format(time.RFC3339Nano), r.Stream, tag, r.Text))
		if err != nil || !again.Time.Equal(r.Time) || again.Partial != r.Partial || !bytes.Equal(again.Text, r.Text) {
			t.Errorf("%q is %+v, written again %+v, %v", line, r, again, err)
		}
	})
}

// grower is a file that is written in pieces.
type grower struct{ pieces []string }

func (g *grower) Read(p []byte) (int, error) {
	if len(g.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, g.pieces[0])
	if g.pieces[0] = g.pieces[0][n:]; g.pieces[0] == "" {
		g.pieces = g.pieces[1:]
	}
	return n, nil
}

func TestLinesOfAGrowingFile(t *testing.T) {
	g := &grower{pieces: []string{"one\ntw"}}
	l := NewLines(g)
	next := func(want string, wantErr error) {
		t.Helper()
		got, err := l.Next()
		if string(got) != want || !errors.Is(err, wantErr) {
			t.Fatalf("%q, %v; want %q, %v", got, err, want, wantErr)
		}
	}
	next("one", nil)
	next("", io.EOF)
	if rest := string(l.Rest()); rest != "tw" {
		t.Errorf("rest %q", rest)
	}
	g.pieces = []string{"o\n\nthree"}
	next("two", nil)
	next("", nil)
	next("", io.EOF)
	long := strings.Repeat("x", 3*block)
	g.pieces = []string{long, "\nend\n"}
	next("three"+long, nil)
	next("end", nil)
	next("", io.EOF)
}

func TestLinesAreBounded(t *testing.T) {
	if _, err := NewLines(&grower{pieces: []string{strings.Repeat("x", maxLine+
		2*block)}}).Next(); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v, want malformed", err)
	}
}

// sample is a log whose lines have the lengths given; a line longer than 40
// bytes is cut into records.
func sample(lengths ...int) (file string, lines []string) {
	var out strings.Builder
	for i, n := range lengths {
		text := strings.Repeat(string(rune('a'+i%26)), n)
		lines = append(lines, text)
		for len(text) > 40 {
			out.WriteString("2026-01-02T03:04:05.000000006Z stdout P " + text[:40] + "\n")
			text = text[40:]
		}
		out.WriteString("2026-01-02T03:04:05.000000006Z stdout F " + text + "\n")
	}
	return out.String(), lines
}

// readFrom is what a reader gets who begins at an offset.
func readFrom(t *testing.T, file string, offset int64) []string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, Options{})
	l := NewLines(strings.NewReader(file[offset:]))
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		r, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestTailOffset(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	many := make([]int, 3000)
	for i := range many {
		many[i] = random.IntN(200)
	}
	for _, lengths := range [][]int{nil, {0}, {5}, {5, 100, 0, 200}, many, {3 * block, 1, 2 * block}} {
		file, lines := sample(lengths...)
		for _, n := range []int64{-1, 0, 1, 2, 3, 5, 100, 2999, 3000, 5000} {
			offset, err := TailOffset(strings.NewReader(file), int64(len(file)), n)
			if err != nil {
				t.Fatal(err)
			}
			want := lines[max(0, len(lines)-int(max(n, 0))):]
			if got := readFrom(t, file, offset); !slices.Equal(got, want) {
				t.Errorf("last %d of %d lines: got %d, want %d", n, len(lines), len(got), len(want))
			}
		}
	}
}

func TestTailOffsetReadsOnlyTheEnd(t *testing.T) {
	file, _ := sample(make([]int, 100_000)...)
	r := &counted{r: strings.NewReader(file)}
	if _, err := TailOffset(r, int64(len(file)), 10); err != nil || r.n > block {
		t.Errorf("%d bytes read of %d, %v", r.n, len(file), err)
	}
}

type counted struct {
	r io.ReaderAt
	n int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.n += len(p)
	return c.r.ReadAt(p, off)
}

func FuzzTailOffset(f *testing.F) {
	f.Add("2026-01-02T03:04:05Z stdout P a\n2026-01-02T03:04:05Z stdout F b\nx\n\nlast", int64(2))
	f.Fuzz(func(t *testing.T, file string, n int64) {
		offset, err := TailOffset(strings.NewReader(file), int64(len(file)), n)
		if err != nil || offset < 0 || offset > int64(len(file)) {
			t.Fatalf("offset %d of %d, %v", offset, len(file), err)
		}
		if offset > 0 && offset < int64(len(file)) && file[offset-1] != '\n' {
			t.Errorf("offset %d is within a line of %q", offset, file)
		}
	})
}

func TestWriter(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	records := []Record{
		{at(1), Stdout, false, []byte("one")},
		{at(2), Stdout, true, []byte("tw")},
		{at(3), Stderr, false, []byte("err")},
		{at(4), Stdout, false, []byte("o")},
		{at(5), Stdout, false, nil},
	}
	for _, tt := range []struct {
		name string
		opts Options
		want string
		err  error
	}{
		{"plain", Options{}, "one\ntwerr\no\n\n", nil},
		{"since drops the whole line", Options{Since: at(3)}, "err\n\n", nil},
		{"limit", Options{Limit: new(int64(5))}, "one\nt", ErrLimit},
		{"limit at a line", Options{Limit: new(int64(4))}, "one\n", ErrLimit},
		{"limit 0", Options{Limit: new(int64(0))}, "", ErrLimit},
		{"limit beyond", Options{Limit: new(int64(1000))}, "one\ntwerr\no\n\n", nil},
		{"times", Options{Timestamps: true, Since: at(4)}, "2026-01-02T03:04:05.000000000Z \n", nil},
	} {
		var out bytes.Buffer
		w := NewWriter(&out, tt.opts)
		var err error
		for _, r := range records {
			if err = w.Write(r); err != nil {
				break
			}
		}
		if out.String() != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, out.String(), err, tt.want, tt.err)
		}
	}
}
