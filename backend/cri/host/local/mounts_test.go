package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/kit/need"
)

// inMounts marks the process of a test that mounts.
const inMounts = "BURSTLET_TEST_MOUNTS"

// withMounts runs a test in a process whose mounts are its own: none reaches the
// machine. It needs root.
func withMounts(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inMounts) == t.Name() {
		test(t)
		return
	}
	need.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private",
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inMounts+"="+t.Name())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if strings.Contains(string(output), "--- SKIP") {
		need.Missing(t, "%s", output)
	}
	if !strings.Contains(string(output), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("it did not run:\n%s", output)
	}
}

// mountRoot is a directory of a test that mounts; what is mounted below it goes
// before it does.
func mountRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() {
		for _, m := range mustMounts(t).below(root) {
			if err := unix.Unmount(m.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				t.Errorf("unmount %s: %v", m.path, err)
			}
		}
	})
	return root
}

func mustMounts(t *testing.T) mountTable {
	t.Helper()
	table, err := New(Options{}).mounts()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func mountOn(t *testing.T, source, target, fstype string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		t.Fatalf("mount %s on %s: %v", source, target, err)
	}
}

// only is the error of what also returns something.
func only[T any](_ T, err error) error { return err }

// noError is for steps that a test takes for granted.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func putDir(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	noError(t, os.MkdirAll(path, 0o755))
	return path
}

func putFile(t *testing.T, path, data string) string {
	t.Helper()
	putDir(t, filepath.Dir(path))
	noError(t, os.WriteFile(path, []byte(data), 0o644))
	return path
}

func readBack(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	noError(t, err)
	return string(data)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestMountInfoIsReadAsTheKernelWritesIt(t *testing.T) {
	table, err := parseMounts([]byte(`27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
36 27 0:40 / /pods/a/volumes/x rw,relatime - tmpfs tmpfs rw,size=64k,noswap
37 27 8:1 /data\040dir /pods/a/volumes/sp\040ace ro,nosuid master:3 - ext4 /dev/sda1 rw
38 36 0:41 / /pods/a/volumes/x rw shared:4 master:2 - nfs4 server:/x rw,vers=4.2
39 27 0:42 / /pods/ab rw - tmpfs  rw
`))
	if err != nil {
		t.Fatal(err)
	}
	top, ok := table.at("/pods/a/volumes/x")
	if !ok || top.id != 38 || !top.nfs() || !top.shared {
		t.Errorf("at a path with two mounts: %+v, want the later one", top)
	}
	if size, _ := table[1].option("size"); size != "64k" {
		t.Errorf("size = %q", size)
	}
	if _, noswap := table[1].option("noswap"); !noswap {
		t.Error("noswap is not seen")
	}
	if got := table[2]; got.root != "/data dir" || got.path != "/pods/a/volumes/sp ace" || got.shared {
		t.Errorf("escaped: %+v", got)
	}
	var order []int
	for _, m := range table.below("/pods/a") {
		order = append(order, m.id)
	}
	if diff := cmp.Diff([]int{38, 37, 36}, order); diff != "" {
		t.Errorf("order of unmounting (-want +got):\n%s", diff)
	}
	if len(table.below("/")) != len(table) {
		t.Error("not everything is below /")
	}
}

func FuzzMountInfo(f *testing.F) {
	f.Add(`27 1 254:0 / /a\040b rw,relatime shared:1 - ext4 /dev/vda rw,discard`)
	f.Add(`- - - - - - - -`)
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseMount(line)
		if ok && m.fstype == "" {
			t.Errorf("%q has no type of file system", line)
		}
	})
}

func TestAStepOfTheKernelsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		release := make(chan struct{})
		err := bounded(ctx, "unmount /x", func() error { <-release; return nil })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "unmount /x") {
			t.Errorf("err = %v", err)
		}
		close(release)
		ran := false
		if err := bounded(ctx, "late", func() error { ran = true; return nil }); err == nil || ran {
			t.Error("a step was begun after the end of its context")
		}
	})
}
