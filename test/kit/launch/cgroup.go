package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/kit/need"
)

// cgroups is where the machine's cgroups are.
const cgroups = "/sys/fs/cgroup"

// MemoryCgroup makes a cgroup whose processes may have so many bytes of memory together,
// as a container's, and returns what has a program run in it (see [Config.Within]). It is
// removed at the end of the test, after what the test then starts.
func MemoryCgroup(t testing.TB, limit int64) (within []string) {
	t.Helper()
	need.Root(t)
	root, file, err := memoryController()
	if err != nil {
		need.Missing(t, "cgroup: %v", err)
	}
	dir, err := os.MkdirTemp(root, "burstlet-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
}

// memoryController is the cgroup below which memory can be limited, and the name of the
// file that limits it.
func memoryController() (root, file string, err error) {
	v1 := filepath.Join(cgroups, "memory")
	if _, err := os.Stat(filepath.Join(v1, "memory.limit_in_bytes")); err == nil {
		return v1, "memory.limit_in_bytes", nil
	}
	passedOn, err := os.ReadFile(filepath.Join(cgroups, "cgroup.subtree_control"))
	if err != nil {
		return "", "", err
	}
	if !slices.Contains(strings.Fields(string(passedOn)), "memory") {
		return "", "", errors.New("the memory controller is not enabled for children of " + cgroups)
	}
	return cgroups, "memory.max", nil
}
