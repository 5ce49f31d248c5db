package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// earliest is before every time that stamp gives; the latest is nine years after it.
var earliest = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// stamp gives all that the commit in dir has a time of modification that is made of its
// content. Go's test cache knows a file that a test reads by its size and time alone
// (hashOpen in cmd/go), so in a new clone every test that reads one would be run again.
// What differs from the commit keeps its time, which is when it was written.
func stamp(ctx context.Context, dir string) error {
	changed := map[string]bool{}
	status, err := git(ctx, dir, "diff", "--name-only", "-z", "HEAD")
	if err != nil {
		return err
	}
	for _, path := range status {
		for ; path != "."; path = filepath.Dir(path) { // and the directories that it is in
			changed[path] = true
		}
	}
	tree, err := git(ctx, dir, "ls-tree", "-r", "-t", "-z", "HEAD")
	if err != nil {
		return err
	}
	for _, entry := range tree {
		about, path, _ := strings.Cut(entry, "\t")
		mode, hash, _ := strings.Cut(about, " ")
		if _, hash, _ = strings.Cut(hash, " "); changed[path] || mode == "120000" { // a link has no time that counts
			continue
		}
		at, err := timeOf(hash)
		if err != nil {
			return fmt.Errorf("stamp %s: %w", path, err)
		}
		if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil {
			return fmt.Errorf("stamp %s: %w", path, err)
		}
	}
	return nil
}

// timeOf makes a time of the beginning of a hash.
func timeOf(hash string) (time.Time, error) {
	if len(hash) < 16 {
		return time.Time{}, fmt.Errorf("%q is too short for a hash", hash)
	}
	seconds, err := strconv.ParseUint(hash[:7], 16, 32)
	if err != nil {
		return time.Time{}, fmt.Errorf("read hash: %w", err)
	}
	nanoseconds, err := strconv.ParseUint(hash[7:16], 16, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read hash: %w", err)
	}
	since := time.Duration(seconds)*time.Second + time.Duration(nanoseconds%uint64(time.Second))
	return earliest.Add(since), nil
}

// git returns what a command of git lists, each ended by NUL.
func git(ctx context.Context, dir string, args ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\x00"), nil
}
