package intask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CommandEnter is the stage of this program between a fork and the pod's command:
// `enter <credential as JSON> -- argv...`. Rights are a thread's, so that they are
// given up in a process of its own, just before it becomes the command.
const CommandEnter = "enter"

// failureFD is where the stage says why it could not; it is closed by the command's
// start.
const failureFD = 3

// failure is what it says.
type failure struct {
	// Errno is the kernel's error number; 0 for a command that was not in PATH.
	Errno syscall.Errno `json:"errno,omitempty"`
	Text  string        `json:"text"`
}

// startError is a command that could not be started.
type startError struct{ failure }

// Error is in runc's words.
func (e *startError) Error() string { return e.Text }

// Unwrap tells the kind of failure.
func (e *startError) Unwrap() error {
	if e.Errno == 0 {
		return exec.ErrNotFound
	}
	return e.Errno
}

// code is what a shell would exit with.
func (e *startError) code() int {
	if errors.Is(e, exec.ErrNotFound) || errors.Is(e, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeCannotRun
}

// Exit codes of a command that could not be started, as of a shell (POSIX).
const (
	codeCannotRun = 126
	codeNotFound  = 127
)

// Enter becomes a command with the credential given. It returns only if it could
// not, and has then said why.
func Enter(args []string) int {
	runtime.LockOSThread() // rights are a thread's
	err := enter(args)
	told := failure{Text: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		told.Errno = errno
	} else if !errors.Is(err, exec.ErrNotFound) {
		told.Errno = unix.EINVAL
	}
	out := os.NewFile(failureFD, "failure")
	if json.NewEncoder(out).Encode(told) != nil {
		return codeCannotRun
	}
	return (&startError{told}).code()
}

func enter(args []string) error {
	unix.CloseOnExec(failureFD)
	if len(args) < 3 || args[1] != "--" {
		return errors.New("want a credential, -- and a command")
	}
	var cred credential
	if err := json.Unmarshal([]byte(args[0]), &cred); err != nil {
		return fmt.Errorf("read the credential: %w", err)
	}
	if err := cred.assume(); err != nil {
		return err
	}
	argv := args[2:]
	path, err := lookPath(argv[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("exec %s: %w", path, err)
	}
	return nil // never
}

// assume gives the calling thread the credential. The order is the kernel's: who is
// not root any more may change nothing.
func (c credential) assume() error {
	if err := limitCapabilities(c.Keep); err != nil {
		return err
	}
	groups := make([]int, len(c.Groups))
	copy(groups, c.Groups)
	if err := unix.Setgroups(groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := unix.Setresgid(c.GID, c.GID, c.GID); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := unix.Setresuid(c.UID, c.UID, c.UID); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	if c.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
		}
	}
	return nil
}

// defaultPath is what execvp looks through where there is no PATH.
const defaultPath = "/bin:/usr/bin"

// lookPath finds a program as execvp does, with runc's words for what it does not
// find.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		err := executable(name)
		switch {
		case err == nil:
			return name, nil
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("exec: %q: stat %s: %w", name, name, err)
		default:
			return "", fmt.Errorf("exec: %q: %w", name, err)
		}
	}
	dirs, ok := os.LookupEnv("PATH")
	if !ok {
		dirs = defaultPath
	}
	var denied error
	for _, dir := range filepath.SplitList(dirs) {
		if dir == "" {
			dir = "."
		}
		path := filepath.Join(dir, name)
		if dir == "." {
			path = "./" + name
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil && name != "" {
		return "", fmt.Errorf("exec: %q: %w", name, denied)
	}
	return "", fmt.Errorf("exec: %q: %w", name, exec.ErrNotFound)
}

// executable asks the kernel whether this thread may execute a file.
func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err) // without the path, which is said
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}
