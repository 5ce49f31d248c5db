package imageref

import (
	"errors"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
)

func TestNormalize(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"busybox":                          "busybox:latest",
		"busybox:1.36":                     "busybox:1.36",
		"library/a":                        "library/a:latest",
		"reg.test:5000/a":                  "reg.test:5000/a:latest",
		"localhost/a/b_c/d__e/f-g/h.i:T_1": "localhost/a/b_c/d__e/f-g/h.i:T_1",
		"HOST/a":                           "HOST/a:latest",
		"[fd00::1]:5000/a:b":               "[fd00::1]:5000/a:b",
		"a@" + digest:                      "a@" + digest,
		"a:tag@" + digest:                  "a:tag@" + digest,
		digest:                             digest,
	} {
		if got, err := Normalize(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", ":", "a:", "a@", "/a", "a/", "a//b", "Busybox", "reg.test/App", "a:b:c", "a: b", "a b", "-a",
		"a:" + strings.Repeat("t", 129),
		"a@sha256:short", "a@b@c", "Not/A:Valid:Name", "reg_.test:x/a", strings.Repeat("a", 256), "a.-b/c d",
	} {
		_, err := Normalize(bad)
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%q: %v, want %v", bad, err, backend.ErrInvalid)
		}
		if err != nil && !strings.Contains(err.Error(), bad) {
			t.Errorf("%q is not named: %v", bad, err)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	f.Add("reg.test:5000/a/b:c@sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, in string) {
		out, err := Normalize(in)
		if err != nil {
			return
		}
		if again, err := Normalize(out); err != nil || again != out {
			t.Errorf("%q became %q, which becomes %q, %v", in, out, again, err)
		}
	})
}
