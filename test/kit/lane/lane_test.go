package lane

import (
	"fmt"
	"testing"
)

func TestLanes(t *testing.T) {
	for _, tt := range []struct {
		env  string
		want Lane
		pick string
		runs []Lane // the tests of these lanes run
	}{
		{"", Gate, "gate", []Lane{Test, Gate}},
		{"test", Test, "test", []Lane{Test}},
		{"gate", Gate, "gate", []Lane{Test, Gate}},
		{"all", All, "all", []Lane{Test, Gate, All}},
	} {
		t.Run("env "+tt.env, func(t *testing.T) {
			t.Setenv(Env, tt.env)
			if got := Current(); got != tt.want {
				t.Errorf("current lane %s, want %s", got, tt.want)
			}
			if got := Thinned(); got != (Raced && tt.want < All) {
				t.Errorf("thinned: %v", got)
			}
			if got := Pick("test", "gate", "all"); got != tt.pick {
				t.Errorf("picked %s, want %s", got, tt.pick)
			}
			var runs []Lane
			for _, first := range []Lane{Test, Gate, All} {
				t.Run(first.String(), func(t *testing.T) {
					From(t, first)
					runs = append(runs, first)
				})
			}
			if fmt.Sprint(runs) != fmt.Sprint(tt.runs) {
				t.Errorf("tests of lanes %s run, want %s", runs, tt.runs)
			}
		})
	}
}

func TestAMisspeltLaneIsNoLane(t *testing.T) {
	t.Setenv(Env, "tset")
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Current()
}
