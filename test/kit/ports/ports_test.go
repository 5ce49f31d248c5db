package ports

import (
	"net"
	"strconv"
	"testing"
)

func TestAPortIsHandedOutOnce(t *testing.T) {
	port := Free(t)
	if port < first || port > last {
		t.Errorf("port %d, want one from %d to %d", port, first, last)
	}
	if release, err := Take(port); err == nil {
		t.Errorf("port %d is reserved twice", port)
		_ = release() // the test has failed
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("a reserved port cannot be used: %v", err)
	}
	l.Close()
}

func TestAReleasedPortIsFree(t *testing.T) {
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = Take(port); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestAPortOfAnotherMachine(t *testing.T) {
	if port, _, err := Reserve("192.0.2.1"); err == nil {
		t.Errorf("got port %d of an address that is not this machine's", port)
	}
}

// A port is free when nothing listens on it at any address: not only at that at which
// it is tried.
func TestAPortInUseIsNotFree(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "127.0.0.9", "0.0.0.0"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if release, err := Take(port); err == nil {
			t.Errorf("port %d of %s is reserved, which is in use", port, address)
			_ = release() // the test has failed
		}
		l.Close()
	}
}
