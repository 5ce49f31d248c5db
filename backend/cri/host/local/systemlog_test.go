package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// logHost is a host with these logs, and this program for journalctl.
func logHost(t *testing.T, journalctl string, logs map[string]string) *Host {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "log")
	for name, text := range logs {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "journalctl")
	if journalctl != "" {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+journalctl), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	return New(Options{LogRoot: root, JournalctlCommand: program})
}

func systemLogText(ctx context.Context, h *Host, r host.SystemLogRequest) (string, error) {
	log, err := h.SystemLog(ctx, r)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(log)
	return string(text), errors.Join(err, log.Close())
}

// TestSystemLogFiles: what is below the logs is read, and nothing that a link there leads to.
func TestSystemLogFiles(t *testing.T) {
	h := logHost(t, "", map[string]string{"a.log": "text of a", "d/b.log": "text of b", "d/e/c": ""})
	root := h.opts.LogRoot
	secret := filepath.Join(filepath.Dir(root), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": secret, "up": "../secret", "within": root + "/d/b.log"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a.log": "text of a", "d/b.log": "text of b", "within": "text of b",
		"": "a.log\x00d/\x00out\x00pipe\x00up\x00within\x00", "d/": "b.log\x00e/\x00",
	} {
		if got, err := systemLogText(t.Context(), h, host.SystemLogRequest{Path: path}); err != nil || got != want {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
	for path, want := range map[string]error{
		"out": class.ErrInvalid, "up": class.ErrInvalid, "../secret": class.ErrInvalid, "/etc/passwd": class.ErrInvalid,
		"pipe": class.ErrInvalid, "d": unix.EISDIR, "a.log/": unix.ENOTDIR, "a.log/x": unix.ENOTDIR, "none": fs.ErrNotExist,
	} {
		if got, err := systemLogText(t.Context(), h, host.SystemLogRequest{Path: path}); !errors.Is(err, want) {
			t.Errorf("%q: %q, %v, want %v", path, got, err, want)
		}
	}
}

// TestSystemLogOfServices: the journal tells of those that it knows, files of the others.
func TestSystemLogOfServices(t *testing.T) {
	const journal = `if [ "$1" = --field ]; then echo one.service; echo two.service; exit; fi
echo "$@"
echo warning >&2
exit 1
`
	h := logHost(t, journal, map[string]string{"a": "text of a\n", "b.log": "text of b\n", "c/c.log": "text of c\n"})
	without := logHost(t, "", map[string]string{"one.log": "a file's"})
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	const begin = "--utc --no-pager --output=short-precise "
	for name, tt := range map[string]struct {
		h    *Host
		r    host.SystemLogRequest
		want string
	}{
		"plain": {h, host.SystemLogRequest{Services: []string{"one", "two"}}, begin + "--unit=one --unit=two\nwarning\n"},
		"options": {
			h,
			host.SystemLogRequest{
				Services: []string{"one"}, Since: at, Until: at.Add(time.Hour), TailLines: new(5), Boot: new(-1), Pattern: "a b",
			},
			begin + "--since=@1772597167 --until=@1772600767 --pager-end --lines=5 --unit=one --grep=a b --boot -1\nwarning\n",
		},
		"files": {
			h,
			host.SystemLogRequest{Services: []string{"a", "b", "c", "d"}},
			"text of a\ntext of b\ntext of c\n\nlog not found for d\n",
		},
		"both": {h, host.SystemLogRequest{Services: []string{"a", "one"}}, begin + "--unit=one\nwarning\ntext of a\n"},
		"files with options": {
			h,
			host.SystemLogRequest{Services: []string{"a"}, TailLines: new(0)},
			"\noptions present and query resolved to log files for [a]\ntry without specifying options\n",
		},
		"no journal": {without, host.SystemLogRequest{Services: []string{"one"}}, "a file's"},
	} {
		if got, err := systemLogText(t.Context(), tt.h, tt.r); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

// TestSystemLogOfServicesIsBounded: what a journal tells without end is cut, and a reader
// that leaves ends it.
func TestSystemLogOfServicesIsBounded(t *testing.T) {
	const journal = `if [ "$1" = --field ]; then echo one.service; exit; fi
exec yes 0123456789012345678901234567890123456789012345678901234567890123456789
`
	h := logHost(t, journal, nil)
	got, err := systemLogText(t.Context(), h, host.SystemLogRequest{Services: []string{"one"}})
	if err != nil || len(got) < maxServiceLog || len(got) > maxServiceLog+200 ||
		!strings.HasSuffix(got, "\nerror: cut after 64 MiB: ask for less, with tailLines, sinceTime or untilTime\n") {
		t.Errorf("%d bytes, %v: …%q", len(got), err, got[max(0, len(got)-100):])
	}
	log, err := h.SystemLog(t.Context(), host.SystemLogRequest{Services: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(log, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil { // returns once journalctl has ended
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log, err = h.SystemLog(ctx, host.SystemLogRequest{Services: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, log); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
