package sshlink

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged sets TCP_USER_TIMEOUT, without which a connection with data
// in flight outlives a dead link by a quarter of an hour.
func boundUnacknowledged(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	})
	if err = errors.Join(err, set); err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
