package sim

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// TestOverlapsOfAttempts: what is launched beside an attempt that is live is a violation, and nothing else is.
func TestOverlapsOfAttempts(t *testing.T) {
	runs := []*container{{started: second(1)}}
	ended := []*container{{started: second(1), finished: second(2)}}
	beside := func(number int) string { return fmt.Sprintf("attempt 7 launched while attempt %d is live", number) }
	for name, tt := range map[string]struct {
		others []*attempt
		want   []string
	}{
		"none":                         {nil, nil},
		"a live one":                   {[]*attempt{{}}, []string{beside(0)}},
		"one that will end":            {[]*attempt{{dead: second(11)}}, []string{beside(0)}},
		"one that just ended":          {[]*attempt{{dead: second(10)}}, nil},
		"one that is gone":             {[]*attempt{{gone: second(9)}}, nil},
		"one that is being torn down":  {[]*attempt{{gone: second(11)}}, []string{beside(0)}},
		"one without its sandbox":      {[]*attempt{{broken: second(9), containers: ended}}, nil},
		"one without, where more runs": {[]*attempt{{broken: second(9), containers: runs}}, []string{beside(0)}},
		"two, and one that ended": {
			[]*attempt{{ref: backend.Ref{Attempt: 1}}, {dead: second(9)}, {ref: backend.Ref{Attempt: 3}}},
			[]string{beside(1), beside(3)},
		},
	} {
		r := newRecorder(false)
		r.launched(&attempt{ref: backend.Ref{UID: "u", Attempt: 7}}, tt.others, second(10))
		if diff := cmp.Diff(tt.want, texts(r, "u", "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(r.audit.Launches) > 0 || len(r.history) > 0 {
			t.Errorf("%s: kept, though nobody asked: %+v", name, r)
		}
	}
}

// texts are those of the violations, all of which are of one pod and one of its containers.
func texts(r recorder, uid types.UID, container string) []string {
	var out []string
	for _, v := range r.audit.Violations {
		if v.UID != uid || v.Container != container || !v.At.Equal(second(10)) {
			out = append(out, "of another: "+v.Error())
		}
		out = append(out, v.Text)
	}
	return out
}

// TestOverlapsOfContainers: what is started beside a container of its name, in whichever attempt of the pod, that has
// not ended.
func TestOverlapsOfContainers(t *testing.T) {
	beside := func(number int) string {
		return fmt.Sprintf("attempt 7 started while attempt %d has not ended", number)
	}
	in := func(containers ...*container) []*attempt { return []*attempt{{containers: containers}} }
	for name, tt := range map[string]struct {
		others []*attempt
		want   []string
	}{
		"none":                 {nil, nil},
		"nothing in it":        {in(), nil},
		"one that runs":        {in(&container{name: "c", started: second(1)}), []string{beside(0)}},
		"one that did not yet": {in(&container{name: "c", started: second(20)}), []string{beside(0)}},
		"one that will end": {
			in(&container{name: "c", started: second(1), finished: second(11)}), []string{beside(0)},
		},
		"one that just ended": {in(&container{name: "c", started: second(1), finished: second(10)}), nil},
		"one that never ran":  {in(&container{name: "c", finished: second(2)}), nil},
		"one of another name": {in(&container{name: "d", started: second(1)}), nil},
		"one that is gone":    {[]*attempt{{gone: second(9), containers: in(&container{name: "c"})[0].containers}}, nil},
		"the second of its own": {
			in(&container{name: "c", finished: second(2)}, &container{name: "c", attempt: 3}), []string{beside(3)},
		},
		"in two attempts": {
			append(in(&container{name: "c", attempt: 1}), in(&container{name: "c", attempt: 2})...),
			[]string{beside(1), beside(2)},
		},
	} {
		r := newRecorder(false)
		r.started(&attempt{ref: backend.Ref{UID: "u"}}, &container{name: "c", attempt: 7}, tt.others, second(10))
		if diff := cmp.Diff(tt.want, texts(r, "u", "c")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(r.audit.Starts) > 0 || len(r.history) > 0 {
			t.Errorf("%s: kept, though nobody asked: %+v", name, r)
		}
	}
}

// TestWhatIsRecorded: events in their order, counts and contents, where they are to be kept.
func TestWhatIsRecorded(t *testing.T) {
	v := filesystem.NewVolume(
		backend.Ref{UID: "u", Attempt: 3, ID: "x"}, backend.VolumeSpec{Name: "v", Hash: "one"}, second(1),
	)
	a := &attempt{
		ref: backend.Ref{UID: "u"}, containers: []*container{{name: "c"}, {name: "d"}},
		volumes: map[string]*filesystem.Volume{"v": v},
	}
	for _, keep := range []bool{true, false} {
		r := newRecorder(keep)
		r.launched(a, nil, second(2))
		r.started(a, &container{name: "c", attempt: 1}, nil, second(3))
		v.Now = filesystem.NewVolume(backend.Ref{}, backend.VolumeSpec{Hash: "two"}, second(4)).Now
		r.placed(v, second(4))
		var kinds []Kind
		for i, e := range r.history {
			kinds = append(kinds, e.Kind)
			if !e.At.Equal(second(2+i)) || e.Pod != (backend.Ref{UID: "u"}) {
				t.Errorf("event %d: %+v", i, e)
			}
		}
		var hashes []string
		for _, p := range r.placements[VolumeKey{"u", "v"}] {
			hashes = append(hashes, p.Hash)
		}
		c, d := r.audit.Starts[ContainerKey{"u", "c"}], r.audit.Starts[ContainerKey{"u", "d"}]
		got := fmt.Sprint(kinds, r.audit.Launches["u"], c, d, hashes)
		want := "[Launched Started Placed] 1 2 1 [one two]"
		if !keep {
			want = "[] 0 0 0 []"
		}
		if got != want {
			t.Errorf("kept: %v: %s, want %s", keep, got, want)
		}
		v.Now = filesystem.NewVolume(backend.Ref{}, backend.VolumeSpec{Hash: "one"}, second(1)).Now
	}
}

// TestViolationsAreBounded: an engine that goes wrong all the time is told of it for a while.
func TestViolationsAreBounded(t *testing.T) {
	r := newRecorder(false)
	for i := range maxViolations + 5 {
		r.violation(Violation{At: second(i), UID: "u", Container: "c", Text: "again"})
	}
	if n := len(r.audit.Violations); n != maxViolations {
		t.Errorf("%d are kept", n)
	}
	r.audit.Violations[0].At = r.audit.Violations[0].At.UTC()
	if got := r.audit.Violations[0].Error(); got != "1970-01-12T13:46:40Z pod u c: again" {
		t.Errorf("it says %q", got)
	}
}
