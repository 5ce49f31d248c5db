package intask

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals with a number of their own in the kernel (signal(7): real-time ones, as
// libc counts them).
const (
	signalMin   = 34
	signalMax   = 64
	lastPlain   = 31
	prefixMin   = "SIGRTMIN"
	prefixMax   = "SIGRTMAX"
	signalWords = "SIG"
)

// signalOf reads "SIGQUIT", "QUIT", "3" or "SIGRTMIN+3"; empty is SIGTERM.
func signalOf(name string) (syscall.Signal, error) {
	if name == "" {
		return unix.SIGTERM, nil
	}
	plain := strings.ToUpper(name)
	if n, err := strconv.Atoi(plain); err == nil && n > 0 && n <= signalMax {
		return syscall.Signal(n), nil
	}
	if !strings.HasPrefix(plain, signalWords) {
		plain = signalWords + plain
	}
	if n := unix.SignalNum(plain); n != 0 {
		return n, nil
	}
	for prefix, base := range map[string]int{prefixMin: signalMin, prefixMax: signalMax} {
		rest, ok := strings.CutPrefix(plain, prefix)
		if !ok {
			continue
		}
		offset, err := strconv.Atoi(rest)
		if n := base + offset; (rest == "" || err == nil) && n >= signalMin && n <= signalMax {
			return syscall.Signal(n), nil
		}
	}
	return 0, fmt.Errorf("%q is no signal", name)
}

// unforwarded are not for the container: the supervisor's own, and those of a
// terminal that is the container's.
var unforwarded = []syscall.Signal{
	unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGPROF, unix.SIGTTIN, unix.SIGTTOU,
	unix.SIGTSTP, unix.SIGWINCH,
	unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGABRT,
}

// catchSignals makes the signals that a container can get arrive at a channel.
func catchSignals() chan os.Signal {
	out := make(chan os.Signal, signalMax)
	var all []os.Signal
	for n := 1; n <= signalMax; n++ {
		if s := syscall.Signal(n); (n <= lastPlain || n >= signalMin) && !slices.Contains(unforwarded, s) {
			all = append(all, s)
		}
	}
	signal.Notify(out, all...)
	return out
}

// SIGPIPE: with a reader of the log that has gone, Go would end the process.
func surviveBrokenLog() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// leaveTerminal gives up the controlling terminal, so that the container's command
// can have it. It returns false without one. The kernel tells us that it is gone
// (tty_ioctl(4), TIOCNOTTY), which nobody else needs to know.
func leaveTerminal() bool {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err != nil {
		return false
	}
	signal.Ignore(unix.SIGHUP, unix.SIGCONT)
	defer signal.Reset(unix.SIGHUP, unix.SIGCONT)
	err := unix.IoctlSetInt(0, unix.TIOCNOTTY, 0)
	return err == nil || errors.Is(err, unix.ENOTTY)
}
