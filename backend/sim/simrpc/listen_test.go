package simrpc

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	path := socket(t)
	first, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v; want a socket with 0600", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second server: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
}

// TestListenLeavesOthersAlone: what is not a socket that nobody serves is left.
func TestListenLeavesOthersAlone(t *testing.T) {
	path := socket(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "something else than a socket") {
		t.Errorf("a file: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("the file is %q, %v", data, err)
	}

	path = socket(t)
	other, err := net.Listen("unix", path) // a program that takes no lock
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a socket that is served: %v", err)
	}
	other.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = other.Close() // as a killed process leaves it
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	_ = l.Close()
}
