package terminal_test

import (
	"strings"
	"testing"

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
