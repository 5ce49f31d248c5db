package shell_test

import (
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// console is a machine with a terminal, at which a user types a text at each prompt.
type console struct {
	*disk
	tty   *terminal.Terminal
	types []string
}

func newConsole(types ...string) *console {
	c := &console{disk: newDisk(), types: types}
	c.tty = terminal.New(func(text string) { c.out.WriteString(text) })
	return c
}

func (c *console) Terminal() *terminal.Terminal    { return c.tty }
func (c *console) Interactive() *terminal.Terminal { return c.tty }

// Write shows both outputs in their order.
func (c *console) Write(_ int, text string) { c.out.WriteString(text) }

// ReadInput lets the user type until there is a line. Whoever types nothing more is gone.
func (c *console) ReadInput() ([]byte, bool) {
	for !c.tty.HasLine() {
		if len(c.types) == 0 {
			return nil, false
		}
		c.tty.Type([]byte(c.types[0]))
		c.types = c.types[1:]
		if c.tty.Interrupted() {
			return nil, false
		}
	}
	return c.tty.Line(), true
}

// Sleep lets the user type, who may interrupt it.
func (c *console) Sleep(time.Duration) bool {
	if len(c.types) > 0 {
		c.tty.Type([]byte(c.types[0]))
		c.types = c.types[1:]
	}
	return false
}

// TestSession: what a user sees of a shell on a terminal, and how the shell ends.
func TestSession(t *testing.T) {
	for name, tt := range map[string]struct {
		types  []string
		shown  string
		status int32
		stays  bool
	}{
		"commands and exit": {
			types:  []string{"echo a\r", "cd /\r", "exit 3\r"},
			shown:  "/home $ echo a\na\n/home $ cd /\n/ $ exit 3\n",
			status: 3,
		},
		"^D ends it, with the last status": {
			types: []string{"false\r", "\x04"}, shown: "/home $ false\n/home $ \n", status: 1,
		},
		"^C gives a line up": {
			types: []string{"rm a\x03", "echo $?\r", "exit\r"}, shown: "/home $ rm a^C\n/home $ echo $?\n130\n/home $ exit\n",
		},
		"a command reads what is typed next": {
			types: []string{"head -n 1\r", "typed\r", "\x04", "exit\r"},
			shown: "/home $ head -n 1\ntyped\ntyped\n/home $ exit\n",
		},
		"a variable stays": {
			types: []string{"A=5\r", "echo $A\r", "\x04"}, shown: "/home $ A=5\n/home $ echo $A\n5\n/home $ \n",
		},
		"the user goes away": {types: []string{"echo a\r"}, shown: "/home $ echo a\na\n/home $ ", stays: true},
		"a shell in a shell": {
			types: []string{"sh -c 'exit 4'\r", "echo $?\r", "\x04"},
			shown: "/home $ sh -c 'exit 4'\n/home $ echo $?\n4\n/home $ \n",
		},
		"its terminal": {
			types: []string{"tty; stty size\r", "stty\r", "\x04"},
			shown: "/home $ tty; stty size\n/dev/pts/0\n24 80\n/home $ stty\nspeed 38400 baud; rows 24; columns 80; line = 0;\n/home $ \n",
		},
		"^C ends a command that runs for ever": {
			types: []string{"serve 80\r", "\x03", "echo $?\r", "\x04"},
			shown: "/home $ serve 80\n^C\n/home $ echo $?\n130\n/home $ \n",
		},
		"syntax that is none": {types: []string{"(a)\r", "\x04"}, shown: "/home $ (a)\n/home $ \n", status: 127},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(tt.types...)
			sizes := make(chan backend.TerminalSize, 1)
			sizes <- backend.TerminalSize{Width: 80, Height: 24}
			quit := make(chan struct{})
			defer close(quit)
			c.tty.Follow(sizes, quit)
			status, ended := shell.Run(c, inHome, []string{"sh"})
			if c.out.String() != tt.shown || ended == tt.stays || ended && status != tt.status {
				t.Errorf(
					"shown %q, status %d, ended: %v; want %q, %d, ended: %v", c.out.String(), status, ended, tt.shown, tt.status,
					!tt.stays,
				)
			}
		})
	}
}
