package cptest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// recorder is a test that only notes how it ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, _ ...any) {
	r.skipped = format
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestMissingBinaries(t *testing.T) {
	tests := map[string]struct {
		require         string
		skipped, failed string
	}{
		"skips by default":     {skipped: "not built: run make "},
		"fails when required":  {require: "1", failed: "not built"},
		"any other value skip": {require: "0", skipped: "not built"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(binaries.CacheEnv, t.TempDir())
			t.Setenv(need.RequireEnv, tc.require)
			for how, get := range map[string]func(testing.TB){
				"New":    func(tb testing.TB) { New(tb, controlplane.Config{}) },
				"Shared": func(tb testing.TB) { new(Shared).Get(tb) },
				"Tool":   func(tb testing.TB) { Tool(tb, binaries.Kubelet) },
			} {
				r := &recorder{}
				done := make(chan struct{})
				go func() {
					defer close(done)
					get(r)
				}()
				<-done
				if !strings.Contains(r.skipped, tc.skipped) || (r.skipped == "") != (tc.skipped == "") {
					t.Errorf("%s: skipped with %q", how, r.skipped)
				}
				if !strings.Contains(r.failed, tc.failed) || (r.failed == "") != (tc.failed == "") {
					t.Errorf("%s: failed with %q", how, r.failed)
				}
			}
		})
	}
}
