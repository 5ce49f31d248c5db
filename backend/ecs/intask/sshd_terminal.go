package intask

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal. The master can be read with a deadline, for which
// it must never be asked for its number (os.File.Fd makes it blocking).
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx") //nolint:gosec // a number that was opened
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close() // nothing was written
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return master, slave, nil
}

// resizeTerminal sets a terminal's size.
func resizeTerminal(master *os.File, to unix.Winsize) error {
	raw, err := master.SyscallConn()
	if err != nil {
		return fmt.Errorf("size a terminal: %w", err)
	}
	var serr error
	//nolint:gosec // a file's number
	if err := raw.Control(func(fd uintptr) { serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &to) }); err != nil {
		return fmt.Errorf("size a terminal: %w", err)
	}
	return serr
}
