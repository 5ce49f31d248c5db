// Package luck holds tests that fail as TestSuites of package lanes tells them to.
package luck

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/need"
)

// TestOnce fails the first time, which a file remembers. Its row needs the one before
// it.
func TestOnce(t *testing.T) {
	path := os.Getenv("LUCK_ONCE")
	if path == "" {
		t.Skip("not told to fail")
	}
	var ground bool
	t.Run("ground", func(*testing.T) { ground = true })
	t.Run("row", func(t *testing.T) {
		if !ground {
			t.Error("run without what stands before it")
		}
		if _, err := os.Stat(path); err == nil {
			return
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Error("no luck at first")
	})
}

func TestNever(t *testing.T) {
	if os.Getenv("LUCK_NEVER") != "" {
		t.Error("no luck at all")
	}
}

func TestHang(t *testing.T) {
	if os.Getenv("LUCK_HANG") != "" {
		select {}
	}
}

// TestYield passes at another priority than the one it is told, which is as getpriority(2) has it.
func TestYield(t *testing.T) {
	usual := os.Getenv("LUCK_YIELD")
	if usual == "" {
		t.Skip("not told of a priority")
	}
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	if strconv.Itoa(priority) == usual {
		t.Errorf("priority %d, like that of other suites", priority)
	}
}

// TestMeet passes where a second process runs it at the same time.
func TestMeet(t *testing.T) {
	path := os.Getenv("LUCK_MEET")
	if path == "" {
		t.Skip("not told to meet")
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	defer func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := listener.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); err != nil {
		t.Errorf("nobody came: %v", err)
	}
}

// TestCount adds a byte to a file, so that it is seen how often it ran. It depends on what is
// installed.
func TestCount(t *testing.T) {
	path := os.Getenv("LUCK_COUNT")
	if path == "" {
		t.Skip("not told where to count")
	}
	need.Machine()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte{'x'}); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
