// Package ports hands out ports of this machine to listen on.
//
// They lie outside of the range from which the kernel takes ports for outgoing
// connections (from 32768), and below that of node ports (from 30000): a port that was
// found free there, as by listening on port 0, may be another's before it is used, and
// one of a server that is started again may be taken while it is down. A port is also
// reserved: no other test, in this process or another of the machine, gets it before it
// is released or the process has ended.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

const (
	first = 20000
	last  = 29999
	tries = 200
)

// Free returns a port that nothing listens on, at whichever address. It is the test's
// until its cleanups that were added later have run.
func Free(t testing.TB) int {
	t.Helper()
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return port
}

// Reserve is Free outside of tests: the port is the caller's until release is called.
// Addresses that the port is for must be this machine's.
func Reserve(addresses ...string) (port int, release func() error, err error) {
	var problem error
	for range tries {
		port = first + rand.IntN(last-first+1)
		if release, problem = Take(port, addresses...); problem == nil {
			return port, release, nil
		}
	}
	return 0, nil, fmt.Errorf("no free port from %d to %d found in %d tries: %w", first, last, tries, problem)
}

// Take is Reserve for a port that the caller has chosen; it fails where that is not free.
//
// The mark of the reservation is a socket with a name and no file: like ports there is one
// per name and network namespace, and the kernel removes it with its process.
func Take(port int, addresses ...string) (release func() error, err error) {
	mark, err := net.Listen("unix", "@burstlet-test-port-"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	for _, address := range append([]string{""}, addresses...) { // all, and these
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("try port %d: %w", port, err), mark.Close())
		}
	}
	return mark.Close, nil
}
