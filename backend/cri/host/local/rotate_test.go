package local

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// logDir is a directory with files of that content.
func logDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// filesOf reads a directory back: what was compressed is marked, and the time of
// now is "now".
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = f
		prefix := ""
		if strings.HasSuffix(e.Name(), ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatalf("%s: %v", e.Name(), err)
			}
			prefix = "gz:"
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		name := e.Name()
		if stamp, ok := strings.CutPrefix(name, "0.log."); ok {
			if at, err := time.Parse(rotatedTime, stamp); err == nil && time.Since(at) < time.Hour {
				name = "0.log.now"
			}
		}
		out[name] = prefix + string(content)
	}
	return out
}

func TestRotate(t *testing.T) {
	const a, b, c, d = "0.log.20260101-000000", "0.log.20260102-000000", "0.log.20260103-000000", "0.log.20260104-000000"
	for name, tt := range map[string]struct {
		before, after map[string]string
		files         int
		size          int64
		reopen        bool
	}{
		"small enough": {
			map[string]string{"0.log": "123", a: "a"}, map[string]string{"0.log": "123", a: "a"}, 5, 4, false,
		},
		"grown": {
			map[string]string{"0.log": "1234"}, map[string]string{"0.log.now": "1234"}, 5, 4, true,
		},
		"older ones are compressed, the new one is not: collectors still read it": {
			map[string]string{"0.log": "1234", a: "a", b: "b"},
			map[string]string{"0.log.now": "1234", a + ".gz": "gz:a", b + ".gz": "gz:b"},
			5, 4, true,
		},
		"with the new log there are at most so many": {
			map[string]string{"0.log": "1234", a: "a", b: "b", c: "c", d: "d"},
			map[string]string{"0.log.now": "1234", d + ".gz": "gz:d"},
			3, 4, true,
		},
		"two": {
			map[string]string{"0.log": "1234", a: "a"}, map[string]string{"0.log.now": "1234"}, 2, 4, true,
		},
		"leftovers of a crash": {
			map[string]string{"0.log": "1234", a: "a", a + ".tmp": "half"},
			map[string]string{"0.log.now": "1234", a + ".gz": "gz:a"},
			5, 4, true,
		},
		"other files are not touched": {
			map[string]string{"0.log": "1234", "10.log.20260101-000000": "x", "0.log.bak": "x", "0.logs": "x", "1.log": "12345"},
			map[string]string{
				"0.log.now": "1234", "10.log.20260101-000000": "x", "0.log.bak": "x", "0.logs": "x", "1.log": "12345",
			},
			2, 4, true,
		},
		"missing: the newest comes back": {
			map[string]string{a: "a", b: "123"}, map[string]string{"0.log": "123", a: "a"}, 5, 4, false,
		},
		"missing: the newest comes back and is rotated again": {
			map[string]string{b: "1234"}, map[string]string{"0.log.now": "1234"}, 5, 4, true,
		},
		"missing: undone": {
			map[string]string{b: "1234"}, map[string]string{"0.log": "1234"}, 5, math.MaxInt64, false,
		},
		"missing altogether": {map[string]string{}, map[string]string{}, 5, 4, true},
		"turned off":         {map[string]string{"0.log": "1234"}, map[string]string{"0.log": "1234"}, 5, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := logDir(t, tt.before)
			log := filepath.Join(dir, "0.log")
			got, err := New(Options{}).Rotate(
				t.Context(), host.Rotation{Logs: []string{log}, MaxSize: tt.size, MaxFiles: tt.files},
			)
			if err != nil || slices.Contains(got, log) != tt.reopen {
				t.Errorf("to be opened anew: %v, %v", got, err)
			}
			if after := filesOf(t, dir); fmt.Sprint(after) != fmt.Sprint(tt.after) {
				t.Errorf("there is %v, want %v", after, tt.after)
			}
		})
	}
}

func TestRotateRemovesWhatIsCompressedAlready(t *testing.T) {
	dir := logDir(t, map[string]string{"0.log": "1", "0.log.20260101-000000": "a"})
	if err := compress(t.Context(), filepath.Join(dir, "0.log.20260101-000000")); err != nil {
		t.Fatal(err)
	}
	// The crash came before the removal.
	if err := os.WriteFile(filepath.Join(dir, "0.log.20260101-000000"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{}).Rotate(
		t.Context(), host.Rotation{Logs: []string{filepath.Join(dir, "0.log")}, MaxSize: 1, MaxFiles: 5},
	); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"0.log.now": "1", "0.log.20260101-000000.gz": "gz:a"}
	if after := filesOf(t, dir); fmt.Sprint(after) != fmt.Sprint(want) {
		t.Errorf("there is %v, want %v", after, want)
	}
}

func TestRotationsOfOneSecondHaveTwoNames(t *testing.T) {
	log := newLog(t, "one")
	now := time.Date(2026, 1, 2, 3, 4, 59, 0, time.UTC)
	for _, content := range []string{"one", "two"} {
		if content == "two" {
			log.reopen()
			log.write(content)
		}
		if err := moveAway(log.path, now); err != nil {
			t.Fatal(err)
		}
	}
	for stamp, want := range map[string]string{".20260102-030459": "one", ".20260102-030500": "two"} {
		if got, err := os.ReadFile(log.path + stamp); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", stamp, got, err)
		}
	}
}

func TestRotateGoesOnAfterAnError(t *testing.T) {
	bad := logDir(t, map[string]string{"0.log": "1234", "0.log.20260101-000000": "a"})
	// In the place of what compressing writes.
	if err := os.MkdirAll(filepath.Join(bad, "0.log.20260101-000000.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := logDir(t, map[string]string{"0.log": "1234"})
	logs := []string{filepath.Join(bad, "0.log"), filepath.Join(good, "0.log")}
	got, err := New(Options{}).Rotate(t.Context(), host.Rotation{Logs: logs, MaxSize: 4, MaxFiles: 5})
	if err == nil || !strings.Contains(err.Error(), logs[0]) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(got, logs) {
		t.Errorf("rotated %v: what cannot be compressed must not let a log grow", got)
	}
}

func TestRotateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := logDir(t, map[string]string{"0.log": "1234", "0.log.20260101-000000": "a"})
	got, err := New(Options{}).Rotate(
		ctx, host.Rotation{Logs: []string{filepath.Join(dir, "0.log")}, MaxSize: 4, MaxFiles: 5},
	)
	if !errors.Is(err, context.Canceled) || len(got) > 0 || filesOf(t, dir)["0.log"] != "1234" {
		t.Errorf("%v, %v", got, err)
	}
	if err := compress(ctx, filepath.Join(dir, "0.log.20260101-000000")); !errors.Is(err, context.Canceled) ||
		len(filesOf(t, dir)) != 2 {
		t.Errorf("%v, %v", filesOf(t, dir), err)
	}
}
