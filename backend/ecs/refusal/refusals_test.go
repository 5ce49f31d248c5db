package refusal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A history is of calls, "refused family minute" and "made family minute"; what the last
// refusal proves is wanted.
func TestWhatRefusalsProve(t *testing.T) {
	const again = "refused a 0, made b 1, refused a 3, made b 4, refused a 6, made b 7, refused a 9, made b 10, "
	for name, tc := range map[string]struct {
		history       string
		proved, alone bool
	}{
		"the first says nothing":              {"refused a 0", false, false},
		"others succeed":                      {"refused a 0, made b 1, refused a 2", false, true},
		"refused alone, while others succeed": {again + "refused a 12", true, true},
		"not for long enough": {
			"refused a 0, made b 1, refused a 2, made b 3, refused a 4, made b 5, refused a 6, made b 7, refused a 8", false,
			true,
		},
		"not often enough": {
			"refused a 0, made b 1, refused a 9, made b 10, refused a 20, made b 21, refused a 29", false, true,
		},
		"nothing succeeds": {
			"refused a 0, refused a 3, refused a 6, refused a 9, refused a 12, refused a 15", false, false,
		},
		"nothing succeeded since the last": {again + "refused a 11, refused a 12", false, false},
		"it succeeded once":                {again + "made a 11, refused a 12", false, false},
		"another is refused too":           {again + "refused b 11, made c 11, refused a 12", false, true},
		"another was refused before":       {"refused d 0, made c 0, " + again + "refused a 12", false, true},
		"another was refused long before":  {"refused b -40, made c -39, " + again + "refused a 12", true, true},
		"another recovered":                {"refused b 0, made b 0, " + again + "refused a 12", true, true},
		"half of all are refused, whichever asks": {
			"refused a 0, made b 1, refused b 3, made a 4, refused a 6, made b 7, refused b 9, made a 10, refused a 12", false,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, zero := New(), time.Unix(1_000_000, 0)
			var got verdict
			for _, step := range strings.Split(tc.history, ", ") {
				var what, family string
				var minute int
				if _, err := fmt.Sscan(step, &what, &family, &minute); err != nil {
					t.Fatal(err)
				}
				if what == "made" {
					r.Made(family)
				} else {
					got = r.refused(family, zero.Add(time.Duration(minute)*time.Minute))
				}
			}
			if got.proved != tc.proved || got.alone != tc.alone {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Calls are spaced for all after a refusal, twice as much for whom it was, one at a time,
// until one succeeds.
func TestHowRefusalsSpaceCalls(t *testing.T) {
	r, now := New(), time.Unix(1_000_000, 0)
	may := func(family string) bool { return r.Admit(family, now) == nil }
	for _, family := range []string{"a", "a", "b"} {
		if !may(family) {
			t.Fatal("without a refusal nobody waits")
		}
	}
	for i, delay := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		delay *= time.Second
		if v := r.refused("a", now); v.first != (i == 0) {
			t.Errorf("refusal %d: %+v", i, v)
		}
		now = now.Add(delay - 1)
		if may("b") {
			t.Fatalf("refusal %d: asked before %s are over", i, delay)
		}
		now = now.Add(1)
		if may("a") {
			t.Fatalf("refusal %d: the one that was refused asks first", i)
		}
		if !may("b") || may("c") {
			t.Fatalf("refusal %d: not one at a time after %s", i, delay)
		}
		now = now.Add(2 * delay)
	}
	if !may("a") {
		t.Fatal("the one that was refused never asks")
	}
	if !r.Made("b") || r.Made("b") || !may("a") || !may("a") {
		t.Error("a success ends it, once")
	}
}
