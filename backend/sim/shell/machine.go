package shell

import (
	"time"

	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// Machine is what a process runs on: its clock, files, streams and ports.
type Machine interface {
	// Sleep passes time. It is false when the process does not live to see the
	// end of it, as after a negative duration.
	Sleep(d time.Duration) bool
	// Now is the time on the machine.
	Now() time.Time
	// Write writes to the standard output, 1, or the standard error, 2.
	Write(fd int, text string)
	// ReadInput returns the next part of the standard input, nil at its end;
	// false as for Sleep.
	ReadInput() (part []byte, alive bool)
	// Terminal is the terminal of the process; nil where there is none.
	Terminal() *terminal.Terminal
	// Interactive is the terminal of a shell that is about to read what to run;
	// nil where there is none.
	Interactive() *terminal.Terminal
	// Lookup returns what is at an absolute path.
	Lookup(name string) Entry
	// ReadDir returns the names in a directory, sorted; false when there is no
	// such directory.
	ReadDir(dir string) ([]string, bool)
	// Change changes what is at an absolute path. It returns the words with which
	// a kernel refuses that, "" when it is done.
	Change(name string, op Op, data string) string
	// Listen opens a port.
	Listen(l Listener)
	// IgnoreTerm makes the process ignore TERM from now on.
	IgnoreTerm()
	// Use changes what the process uses from now on: CPU in thousandths of a core
	// and memory in bytes. Nil leaves that one as it is.
	Use(milliCPU, memory *uint64)
	// Unknown runs a command that this package does not know, "" being syntax. It
	// returns the exit code and how the script goes on; inShell says that a shell
	// runs the command.
	Unknown(name string, inShell bool) (int32, Flow)
}

// Flow is how a script goes on after a command.
type Flow int

// The ways in which a script goes on.
const (
	// Continue runs the next command.
	Continue Flow = iota
	// Exit ends the shell.
	Exit
	// Stay runs the process until it is stopped.
	Stay
)

// Entry is what is at a path.
type Entry struct {
	Kind Kind
	Data []byte
}

// Kind is the kind of an Entry.
type Kind int

// The kinds of entries.
const (
	// Missing is no entry.
	Missing Kind = iota
	// File is a regular file.
	File
	// Directory is one that was made; others are there because of what is in them.
	Directory
)

// Op is a change of what is at a path.
type Op int

// The changes.
const (
	// Replace makes a file or gives it other contents.
	Replace Op = iota
	// Append makes a file or adds to it.
	Append
	// Remove removes a file or a directory.
	Remove
	// MakeDir makes a directory.
	MakeDir
)

// MaxWritten is how many bytes of files a process may write: what a command
// writes at once is no larger.
const MaxWritten = 16 << 20

// NoSpace are the words with which a kernel refuses a write to a full disk.
const NoSpace = "No space left on device"

// Listener is a port on which a program answers.
type Listener struct {
	// Port is the number of the TCP port.
	Port int
	// From is how long from now it begins to listen.
	From time.Duration
	// FailingFrom is how long from now it begins to answer 500; 0 is never.
	FailingFrom time.Duration
	// Echoes says that it sends back what it gets, instead of HTTP.
	Echoes bool
}

// Container is what a command sees of the container that it runs in.
type Container struct {
	// Argv is the command line of the container's own program, which ps shows.
	Argv []string
	// Hostname is the pod's.
	Hostname string
	// Env are the container's variables, as NAME=value; of two with one name the
	// later holds.
	Env []string
	// Dir is the directory that the command runs in; "" is the root.
	Dir string
	// UID and GID are of the user that the command runs as.
	UID, GID int64
}
