package ecsrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a runtime split is put together again, stdout and stderr apart, a last line without
// an end too; beyond the size of an event it is handed over as it is.
func TestLinesArePutTogether(t *testing.T) {
	const at = "2026-01-02T03:04:05.000000006Z "
	long := strings.Repeat("x", maxEvent/2)
	for name, tc := range map[string]struct{ lines, want []string }{
		"whole lines":          {[]string{"stdout F a", "stderr F b"}, []string{"a", "b"}},
		"a line in two parts":  {[]string{"stdout P a", "stdout F b"}, []string{"ab"}},
		"one between":          {[]string{"stdout P a", "stderr F e", "stdout F b"}, []string{"e", "ab"}},
		"a last line, unended": {[]string{"stdout F a", "stdout P b"}, []string{"a", "b"}},
		"an empty line":        {[]string{"stdout F ", "stdout F b"}, []string{"", "b"}},
		"longer than an event": {[]string{"stdout P " + long, "stdout P " + long, "stdout F b"}, []string{long + long, "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			text := ""
			for _, line := range tc.lines {
				text += at + line + "\n"
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			p := &logPipe{reader: f}
			if err := p.read(func(_ time.Time, line string) { got = append(got, line) }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%.80q, want %.80q", got, tc.want)
			}
		})
	}
}
