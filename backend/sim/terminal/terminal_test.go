package terminal_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// TestType: what the user sees of what was typed, and what a program reads.
func TestType(t *testing.T) {
	for name, tt := range map[string]struct {
		typed, shown string
		read         []string
		interrupted  bool
	}{
		"a line":          {typed: "ls\r", shown: "ls\n", read: []string{"ls\n"}},
		"erases a letter": {typed: "lx\x7fs\r", shown: "lx\b \bs\n", read: []string{"ls\n"}},
		"erases a line":   {typed: "ab\x15\r", shown: "ab\b \b\b \b\n", read: []string{"\n"}},
		"an arrow key":    {typed: "\x1b[A\r", shown: "\n", read: []string{"\n"}},
		"end of input":    {typed: "\x04", read: []string{""}},
		"an interrupt":    {typed: "a\rb\x03", shown: "a\nb^C\n", interrupted: true},
		"a line begun":    {typed: "ab", shown: "ab", read: []string{"ab"}},
		"nothing":         {},
		"several lines":   {typed: "a\rb\n", shown: "a\nb\n", read: []string{"a\n", "b\n"}},
		"an empty line":   {typed: "\r", shown: "\n", read: []string{"\n"}},
		"tabs":            {typed: "a\tb\r", shown: "a\tb\n", read: []string{"a\tb\n"}},
		"erases nothing":  {typed: "\x7f\x08\x15\r", shown: "\n", read: []string{"\n"}},
		"erases with ^H":  {typed: "ab\x08\r", shown: "ab\b \b\n", read: []string{"a\n"}},
		"erases a letter of two bytes": {
			typed: "é\x7fe\r", shown: "é\b \be\n", read: []string{"e\n"},
		},
		"erases all but earlier lines": {
			typed: "a\rbc\x15d\r", shown: "a\nbc\b \b\b \bd\n", read: []string{"a\n", "d\n"},
		},
		"erases until the line begins": {typed: "a\x7f\x7f\x7fb\r", shown: "a\b \bb\n", read: []string{"b\n"}},
		"an end after a line":          {typed: "a\r\x04", shown: "a\n", read: []string{"a\n", ""}},
		"an end in a line hands it on": {typed: "ab\x04c\r", shown: "abc\n", read: []string{"ab", "c\n"}},
		"two ends":                     {typed: "\x04\x04", read: []string{"", ""}},
		"an interrupt takes all away":  {typed: "a\rb\r\x03", shown: "a\nb\n^C\n", interrupted: true},
		"typed after an interrupt":     {typed: "a\x03b\r", shown: "a^C\nb\n", read: []string{"b\n"}, interrupted: true},
		"two interrupts are one":       {typed: "\x03\x03", shown: "^C\n^C\n", interrupted: true},
		"a key of the keypad":          {typed: "a\x1bOBb\r", shown: "ab\n", read: []string{"ab\n"}},
		"a key with a number":          {typed: "a\x1b[3~b\r", shown: "ab\n", read: []string{"ab\n"}},
		"a key with modifiers":         {typed: "\x1b[1;5Cx\r", shown: "x\n", read: []string{"x\n"}},
		"Alt and a letter":             {typed: "\x1bfx\r", shown: "x\n", read: []string{"x\n"}},
		"Escape twice":                 {typed: "\x1b\x1b[Ax\r", shown: "x\n", read: []string{"x\n"}},
		"other control characters":     {typed: "a\x00\x01\x1a\x1cb\r", shown: "ab\n", read: []string{"ab\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			var shown strings.Builder
			tty := terminal.New(func(text string) { shown.WriteString(text) })
			tty.Type([]byte(tt.typed))
			tty.EndInput()
			var read []string
			for tty.HasLine() {
				read = append(read, string(tty.Line()))
			}
			if shown.String() != tt.shown || strings.Join(read, "|") != strings.Join(tt.read, "|") || len(read) != len(tt.read) {
				t.Errorf("shown %q, read %q; want %q, %q", shown.String(), read, tt.shown, tt.read)
			}
			if tty.TakeInterrupt() != tt.interrupted || tty.Interrupted() {
				t.Errorf("interrupted: %v, want %v once", !tt.interrupted, tt.interrupted)
			}
		})
	}
}

// TestFollow: the size that is there already holds from the start.
func TestFollow(t *testing.T) {
	tty, sizes := terminal.New(nil), make(chan backend.TerminalSize, 1)
	want := backend.TerminalSize{Width: 80, Height: 24}
	sizes <- want
	close(sizes)
	tty.Follow(sizes, nil)
	if got := tty.Size(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSizesAreFollowed: the last one holds, as long as they come and somebody is there.
func TestSizesAreFollowed(t *testing.T) {
	for name, tt := range map[string]struct {
		before, later []uint16
		ended, left   bool // between the two
		want          uint16
	}{
		"none":                  {nil, nil, false, false, 0},
		"none, and none later":  {nil, nil, true, false, 0},
		"one":                   {[]uint16{80}, nil, false, false, 80},
		"several":               {[]uint16{80, 90, 100}, nil, false, false, 100},
		"several, and no more":  {[]uint16{80, 90}, nil, true, false, 90},
		"one later":             {nil, []uint16{80}, false, false, 80},
		"smaller later":         {[]uint16{80, 90}, []uint16{70}, false, false, 70},
		"later, and nobody is":  {[]uint16{80}, []uint16{90}, false, true, 80},
		"first, and nobody was": {nil, []uint16{90}, false, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			sizes, quit := make(chan backend.TerminalSize, 9), make(chan struct{})
			tty := terminal.New(nil)
			for _, width := range tt.before {
				sizes <- backend.TerminalSize{Width: width}
			}
			if tt.ended {
				close(sizes)
			}
			tty.Follow(sizes, quit)
			synctest.Wait()
			if tt.left {
				close(quit)
				synctest.Wait()
			}
			for _, width := range tt.later {
				sizes <- backend.TerminalSize{Width: width}
			}
			synctest.Wait()
			if got := tty.Size().Width; got != tt.want {
				t.Errorf("%s: %d, want %d", name, got, tt.want)
			}
			if !tt.left {
				close(quit)
			}
		})
	}
}

// TestFull: a terminal holds so much of what was typed ahead, and has room again once it is read.
func TestFull(t *testing.T) {
	const most = 64 << 10
	for name, tt := range map[string]struct {
		typed       string
		full, after bool // before and after a line was taken
	}{
		"a line":               {"a\r", false, false},
		"so much":              {strings.Repeat("x", most-1) + "\r", false, false},
		"more":                 {strings.Repeat("x", most) + "\r", true, false},
		"many lines":           {strings.Repeat("x\r", most/2+1), true, false},
		"a line, and one open": {"a\r" + strings.Repeat("x", most+1), true, true},
		"taken back":           {"a\r" + strings.Repeat("x", most+1) + "\x15", false, false},
		"an interrupt":         {strings.Repeat("x", most+1) + "\x03a\r", false, false},
	} {
		tty := terminal.New(func(string) {})
		tty.Type([]byte(tt.typed))
		before := tty.Full()
		tty.Line()
		if after := tty.Full(); before != tt.full || after != tt.after {
			t.Errorf("%s: full: %v, and after a line was taken: %v", name, before, after)
		}
	}
}

// TestNoTerminal: what has none has no interrupts, and follows no sizes.
func TestNoTerminal(t *testing.T) {
	var none *terminal.Terminal
	none.Follow(make(chan backend.TerminalSize), nil)
	if none.Interrupted() || none.TakeInterrupt() {
		t.Error("it was interrupted")
	}
	if got := terminal.New(nil).Size(); got != (backend.TerminalSize{}) {
		t.Errorf("before any was told it is %+v", got)
	}
	for text, want := range map[string]string{"": "", "a": "a", "a\n": "a\r\n", "\n\n": "\r\n\r\n", "a\r\n": "a\r\r\n"} {
		if got := terminal.Shown(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
