// Package luck holds tests that fail as TestSuites of package lanes tells them to.
package luck

import (
	"os"
	"testing"
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
