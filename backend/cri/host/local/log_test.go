package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// logLine is a record as a runtime writes it.
func logLine(second int, stream, tag, text string) string {
	return fmt.Sprintf("2026-01-02T03:04:%02d.000000000Z %s %s %s\n", second, stream, tag, text)
}

// writtenLog is a log file in a directory of its own, to be written on.
type writtenLog struct {
	t    *testing.T
	path string
	f    *os.File
}

func newLog(t *testing.T, content string) *writtenLog {
	t.Helper()
	l := &writtenLog{t: t, path: filepath.Join(t.TempDir(), "0.log")}
	l.reopen()
	l.write(content)
	t.Cleanup(func() { l.f.Close() })
	return l
}

// reopen is what a runtime does when it is told to.
func (l *writtenLog) reopen() {
	l.t.Helper()
	if l.f != nil {
		l.f.Close()
	}
	var err error
	if l.f, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640); err != nil {
		l.t.Fatal(err)
	}
}

func (l *writtenLog) write(content string) {
	l.t.Helper()
	if _, err := l.f.WriteString(content); err != nil {
		l.t.Fatal(err)
	}
}

func (l *writtenLog) rename(suffix string) {
	l.t.Helper()
	if err := os.Rename(l.path, l.path+suffix); err != nil {
		l.t.Fatal(err)
	}
}

func (l *writtenLog) open(ctx context.Context, r host.LogRequest) io.ReadCloser {
	l.t.Helper()
	r.Path = l.path
	log, err := New(Options{}).Log(ctx, r)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { log.Close() })
	return log
}

// expect reads so much and compares.
func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

func expectEnd(t *testing.T, r io.Reader, want string) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || string(rest) != want {
		t.Fatalf("at the end %q, %v; want %q", rest, err, want)
	}
}

func TestLogIsDecoded(t *testing.T) {
	content := "damaged\n" + logLine(1, "stdout", "F", "one") + logLine(2, "stderr", "P", "tw") +
		logLine(3, "stderr", "F", "o") +
		strings.TrimSuffix(logLine(4, "stdout", "F", "cut off"), "\n")
	for name, tt := range map[string]struct {
		request host.LogRequest
		want    string
	}{
		"whole, with a last line without its end": {host.LogRequest{}, "one\ntwo\ncut off\n"},
		"the last lines": {host.LogRequest{Tail: new(int64(2))}, "two\ncut off\n"},
		"no lines":       {host.LogRequest{Tail: new(int64(0))}, ""},
		"since":          {host.LogRequest{Since: time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC)}, "cut off\n"},
		"limit":          {host.LogRequest{LimitBytes: new(int64(5))}, "one\nt"},
		"timestamps": {
			host.LogRequest{Timestamps: true, Tail: new(int64(1))}, "2026-01-02T03:04:04.000000000Z cut off\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			expectEnd(t, newLog(t, content).open(t.Context(), tt.request), tt.want)
		})
	}
}

func TestLogCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "none"):      fs.ErrNotExist,
		filepath.Join(dir, "none/none"): fs.ErrNotExist,
		dir:                             errNotRegular,
		pipe:                            errNotRegular,
	} {
		for _, follow := range []bool{false, true} {
			if _, err := New(Options{}).Log(t.Context(), host.LogRequest{Path: path, Follow: follow}); !errors.Is(err, want) {
				t.Errorf("%s, follow %t: %v, want %v", path, follow, err, want)
			}
		}
	}
}

func TestFollowedLogGrowsAndEnds(t *testing.T) {
	log := newLog(t, logLine(1, "stdout", "F", "one"))
	ended := make(chan struct{})
	r := log.open(t.Context(), host.LogRequest{Follow: true, Ended: ended})
	expect(t, r, "one\n")
	log.write(logLine(2, "stdout", "F", "two"))
	expect(t, r, "two\n")
	half := logLine(3, "stdout", "F", "three")
	log.write(half[:20])
	log.write(half[20:])
	expect(t, r, "three\n")
	log.write(strings.TrimSuffix(logLine(4, "stdout", "F", "cut off"), "\n"))
	close(ended)
	expectEnd(t, r, "cut off\n")
}

// A user may have few inotify instances, usually 128: all followed logs share one.
func TestManyLogsAreFollowed(t *testing.T) {
	const many = 200
	h, before := New(Options{}), inotifies(t)
	ended := make(chan struct{})
	logs, readers := make([]*writtenLog, many), make([]io.ReadCloser, many)
	for i := range many {
		logs[i] = newLog(t, "")
		r, err := h.Log(t.Context(), host.LogRequest{Path: logs[i].path, Follow: true, Ended: ended})
		if err != nil {
			t.Fatalf("log %d: %v", i, err)
		}
		t.Cleanup(func() { r.Close() })
		readers[i] = r
	}
	again, err := h.Log(t.Context(), host.LogRequest{Path: logs[0].path, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := inotifies(t) - before; n != 1 {
		t.Errorf("%d inotify instances, want 1", n)
	}
	if err := again.Close(); err != nil { // the other reader of this log goes on
		t.Error(err)
	}
	for i, log := range logs {
		log.write(logLine(1, "stdout", "F", fmt.Sprint("one ", i)))
		expect(t, readers[i], fmt.Sprintf("one %d\n", i))
		log.rename(".20260101-000000")
		log.reopen()
		log.write(logLine(2, "stdout", "F", fmt.Sprint("two ", i)))
		expect(t, readers[i], fmt.Sprintf("two %d\n", i))
	}
	close(ended)
	for i, r := range readers {
		expectEnd(t, r, "")
		if err := r.Close(); err != nil {
			t.Errorf("log %d: %v", i, err)
		}
	}
	if n := inotifies(t) - before; n != 0 {
		t.Errorf("%d inotify instances are left", n)
	}
}

// inotifies is how many inotify instances this process has.
func inotifies(t *testing.T) int {
	t.Helper()
	return openFiles(t, "anon_inode:inotify")
}

func TestLogOfEndedContainerIsReadToItsEnd(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	lines := strings.Repeat(logLine(1, "stdout", "F", "word"), 10_000)
	r := newLog(t, lines).open(t.Context(), host.LogRequest{Follow: true, Ended: ended})
	expectEnd(t, r, strings.Repeat("word\n", 10_000))
}

func TestRotationIsFollowed(t *testing.T) {
	log := newLog(t, logLine(1, "stdout", "F", "one"))
	ended := make(chan struct{})
	r := log.open(t.Context(), host.LogRequest{Follow: true, Ended: ended})
	expect(t, r, "one\n")
	log.rename(".20260102-000000")
	log.write(logLine(2, "stdout", "F", "to the renamed file"))
	expect(t, r, "to the renamed file\n")
	old := log.f
	log.f = nil
	log.reopen()
	// The runtime opens the new file before it leaves the old one.
	if _, err := old.WriteString(logLine(3, "stdout", "F", "last of the old")); err != nil {
		t.Fatal(err)
	}
	old.Close()
	log.write(logLine(4, "stdout", "F", "new"))
	expect(t, r, "last of the old\nnew\n")
	log.rename(".20260102-000001")
	log.reopen()
	log.write(logLine(5, "stdout", "F", "third"))
	expect(t, r, "third\n")
	// A rotation that is undone is none.
	log.rename(".20260102-000002")
	if err := os.Rename(log.path+".20260102-000002", log.path); err != nil {
		t.Fatal(err)
	}
	log.write(logLine(6, "stdout", "F", "still there"))
	expect(t, r, "still there\n")
	log.rename(".20260102-000003")
	log.reopen()
	close(ended)
	expectEnd(t, r, "")
}

func TestRotationsBehindASlowReaderAreNotLost(t *testing.T) {
	// More than the pipe and its buffer hold.
	big := strings.Repeat(logLine(1, "stdout", "F", strings.Repeat("x", 100)), 3000)
	log := newLog(t, big)
	ended := make(chan struct{})
	r := log.open(t.Context(), host.LogRequest{Follow: true, Ended: ended})
	expect(t, r, "x")
	files := r.(*logReader)
	var want strings.Builder
	for i := range 3 {
		suffix := fmt.Sprintf(".20260102-00000%d", i)
		log.rename(suffix)
		log.reopen()
		log.write(logLine(i, "stdout", "F", suffix))
		want.WriteString(suffix + "\n")
		// The reader must have seen this file before the next takes its name.
		waitFor(t, func() bool { return openIn(t, filepath.Dir(log.path)) >= i+3 })
	}
	if err := os.Remove(log.path + ".20260102-000002"); err != nil {
		t.Fatal(err)
	}
	close(ended)
	rest, err := io.ReadAll(files)
	if err != nil || !strings.HasSuffix(string(rest), "x\n"+want.String()) {
		t.Errorf("%d bytes, ... %q, %v", len(rest), rest[max(0, len(rest)-80):], err)
	}
}

// openIn counts files of a directory that this process has open; the test's own is
// among them.
func openIn(t *testing.T, dir string) int {
	t.Helper()
	return openFiles(t, dir+"/")
}

// openFiles counts what this process has open whose name begins so.
func openFiles(t *testing.T, prefix string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, prefix) {
			n++
		}
	}
	return n
}

// waitFor looks again and again: the kernel tells others, not this test.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	wait.Holds(t, 3*time.Minute, "it happens", done)
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	log := newLog(t, logLine(1, "stdout", "F", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	r := log.open(ctx, host.LogRequest{Follow: true})
	expect(t, r, "one\n")
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// Close waits for everything, whatever happens meanwhile.
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := openIn(t, filepath.Dir(log.path)); n != 1 {
		t.Errorf("%d files are open, the writer's among them", n)
	}
}

func TestFollowingEndsAtItsLimit(t *testing.T) {
	log := newLog(t, logLine(1, "stdout", "F", "one"))
	r := log.open(t.Context(), host.LogRequest{Follow: true, LimitBytes: new(int64(6))})
	expect(t, r, "one\n")
	log.write(logLine(2, "stdout", "F", "two"))
	expectEnd(t, r, "tw")
}

func TestReadFileReadsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := New(Options{})
	for limit, want := range map[int64]string{-1: "", 0: "", 3: "789", 10: "0123456789", 1 << 40: "0123456789"} {
		if got, err := h.ReadFile(t.Context(), path, limit); err != nil || string(got) != want {
			t.Errorf("%d bytes: %q, %v", limit, got, err)
		}
	}
	// A file that does not tell its size.
	whole, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{0, 5, 1 << 20} {
		got, err := h.ReadFile(t.Context(), "/proc/self/environ", limit)
		if want := whole[max(0, int64(len(whole))-limit):]; err != nil || string(got) != string(want) {
			t.Errorf("%d bytes of /proc: %d, %v", limit, len(got), err)
		}
	}
	long := strings.Repeat("0123456789", 100_000)
	if got, err := readEnd(strings.NewReader(long), 7); err != nil || string(got) != "3456789" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := h.ReadFile(t.Context(), path+"x", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := h.ReadFile(t.Context(), filepath.Dir(path), 1); !errors.Is(err, errNotRegular) {
		t.Error(err)
	}
}

func TestFilesThatWaitForASlowReaderAreBounded(t *testing.T) {
	log := newLog(t, "")
	files, err := openLog(log.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rotations = maxWaiting + 3
	for i := range rotations {
		log.rename(fmt.Sprintf(".2026010%d-000000", i))
		files.look() // Nothing has the name.
		log.reopen()
		log.write(fmt.Sprint(i))
		files.look()
		files.look() // The same again.
	}
	if n := len(files.waiting); n != maxWaiting {
		t.Errorf("%d files wait, want %d", n, maxWaiting)
	}
	if oldest, err := io.ReadAll(files.waiting[0]); err != nil || string(oldest) != fmt.Sprint(rotations-maxWaiting) {
		t.Errorf("the oldest is %s, %v", oldest, err)
	}
	if err := files.Close(); err != nil {
		t.Error(err)
	}
	if n := openIn(t, filepath.Dir(log.path)); n != 1 {
		t.Errorf("%d files are open, the writer's among them", n)
	}
}
