package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// releases are the programs of commits that this process has built.
var releases = struct {
	sync.Mutex
	all map[string]build
}{all: map[string]build{}}

// Release builds burstlet, with the host helper that it carries, from a commit of the
// history that the checkout around the working directory has, once per process. The test is
// skipped where that commit is not there: of a clone without its history, or of no clone.
func Release(t testing.TB, commit string) string {
	t.Helper()
	top := checkoutWith(t, commit)
	releases.Lock()
	defer releases.Unlock()
	done, ok := releases.all[commit]
	if !ok {
		done.path, done.err = buildRelease(top, commit)
		releases.all[commit] = done
	}
	if done.err != nil {
		t.Fatalf("build burstlet of commit %s: %v", commit, done.err)
	}
	return done.path
}

// ReleaseSource is a file of that commit; path is relative to the checkout. The test is
// skipped as by Release.
func ReleaseSource(t testing.TB, commit, path string) string {
	t.Helper()
	text, err := command(checkoutWith(t, commit), "git", "show", commit+":"+path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkoutWith is the checkout around the working directory, whose history must have the
// commit.
func checkoutWith(t testing.TB, commit string) string {
	t.Helper()
	top, err := command("", "git", "rev-parse", "--show-toplevel")
	if err == nil {
		_, err = command(top, "git", "cat-file", "-e", commit+"^{commit}")
	}
	if err != nil {
		t.Skipf("commit %s is not here (a clone without its history?): %v", commit, err)
	}
	return top
}

// buildRelease builds in a directory of its own, which is removed, so that the checkout has
// nothing of it.
func buildRelease(top, commit string) (path string, err error) {
	tree, err := os.MkdirTemp("", "burstlet-release-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	archive := filepath.Join(tree, ".archive.tar")
	if _, err := command(top, "git", "archive", "--output", archive, commit); err != nil {
		return "", err
	}
	if _, err := command(tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	if _, err := command(tree, filepath.Join("tools", "build-helper")); err != nil {
		return "", err
	}
	dir, err := built.directory()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "release-"+commit, "burstlet")
	_, err = command(tree, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./cmd/burstlet")
	return path, err
}

// command runs one without cgo in a directory and returns what it prints.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}
