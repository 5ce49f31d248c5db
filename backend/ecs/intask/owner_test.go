package intask

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// owner is mode, user and group of a file.
func owner(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no owner")
	}
	return fmt.Sprintf("%s %d:%d", info.Mode(), stat.Uid, stat.Gid)
}
