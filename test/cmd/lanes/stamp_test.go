package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clone is a directory of a repository.
type clone struct {
	*testing.T
	dir string
}

func newClone(t *testing.T) clone { return clone{t, filepath.Join(t.TempDir(), "clone")} }

func (c clone) git(args ...string) {
	c.Helper()
	args = append([]string{"-C", c.dir, "-c", "user.name=t", "-c", "user.email=t@burstlet.test"}, args...)
	if out, err := exec.CommandContext(c.Context(), "git", args...).CombinedOutput(); err != nil {
		c.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (c clone) write(path, content string) {
	c.Helper()
	path = filepath.Join(c.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.Fatal(err)
	}
}

func (c clone) stamp() {
	c.Helper()
	if err := stamp(c.Context(), c.dir); err != nil {
		c.Fatal(err)
	}
}

// modified is when something was changed last.
func (c clone) modified(path string) time.Time {
	c.Helper()
	info, err := os.Stat(filepath.Join(c.dir, path))
	if err != nil {
		c.Fatal(err)
	}
	return info.ModTime()
}

// TestStamp: what two clones have of the same content has the same time in both, and
// nothing else has.
func TestStamp(t *testing.T) {
	all := []string{"docs", "docs/a b.md", "docs/same.md", "docs/deep", "docs/deep/c", "d"}
	first, second := newClone(t), newClone(t)
	for i, path := range []string{"docs/a b.md", "docs/same.md", "docs/deep/c", "d"} {
		first.write(path, string(rune('a'+i)))
	}
	first.git("init", "-q")
	first.git("add", "-A")
	first.git("commit", "-q", "-m", "c")
	first.git("clone", "-q", first.dir, second.dir)
	first.stamp()
	second.stamp()
	seen := map[time.Time]string{}
	for _, path := range all {
		at := first.modified(path)
		if other := second.modified(path); !at.Equal(other) {
			t.Errorf("%s is of %s in one clone and of %s in the other", path, at, other)
		}
		if same, ok := seen[at]; ok {
			t.Errorf("%s and %s are both of %s", path, same, at)
		}
		if seen[at] = path; at.Before(earliest) || at.After(earliest.AddDate(10, 0, 0)) {
			t.Errorf("%s is of %s", path, at)
		}
	}

	second.git("update-index", "--refresh") // with the files' times
	before := second.modified("d")
	second.write("d", "d") // as it was
	if second.stamp(); !second.modified("d").Equal(before) {
		t.Errorf("a file that was written as it was is of %s, want %s", second.modified("d"), before)
	}

	second.write("docs/deep/c", "e") // as long as it was
	written := second.modified("docs/deep/c")
	second.stamp()
	if now := second.modified("docs/deep/c"); !now.Equal(written) {
		t.Errorf("a file that is not committed is of %s, it was written at %s", now, written)
	}
	second.git("commit", "-q", "-a", "-m", "e")
	second.stamp()
	for _, path := range all {
		changed := path == "docs" || path == "docs/deep" || path == "docs/deep/c"
		if is := !second.modified(path).Equal(first.modified(path)); is != changed {
			t.Errorf("%s differs: %v, want %v", path, is, changed)
		}
	}
}
