package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

// moment is second, where 0 is never.
func moment(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return second(n)
}

// TestOrderOfTimes: never is after every time for what comes first, and before it for what comes last.
func TestOrderOfTimes(t *testing.T) {
	for _, tt := range []struct {
		a, b          int
		first, last   string
		reached, late bool // a by b
	}{
		{0, 0, "-", "-", false, false},
		{5, 0, "5", "5", false, false},
		{0, 5, "5", "5", false, false},
		{5, 9, "5", "9", true, true},
		{9, 5, "5", "9", false, false},
		{5, 5, "5", "5", true, false},
	} {
		a, b := moment(tt.a), moment(tt.b)
		if first, last := seen(earliest(a, b)), seen(latest(a, b)); first != tt.first || last != tt.last {
			t.Errorf("%d and %d: first %s, last %s; want %s, %s", tt.a, tt.b, first, last, tt.first, tt.last)
		}
		if got := reached(a, b); got != tt.reached {
			t.Errorf("%d is reached at %d: %v", tt.a, tt.b, got)
		}
		stopped := attempt{stop: stopRequest{term: a}}
		if got := stopped.cut(b); got != tt.late {
			t.Errorf("a stop at %d cuts what would begin at %d: %v", tt.a, tt.b, got)
		}
	}
}

// TestWhatIsLive: an attempt until it is dead or gone, one whose sandbox was killed while something runs in it.
func TestWhatIsLive(t *testing.T) {
	for name, tt := range map[string]struct {
		dead, broken, gone int
		now                int
		want               string
	}{
		"before its container starts":      {now: 9, want: "live"},
		"as its container starts":          {now: 10, want: "live runs"},
		"when its container has ended":     {now: 20, want: "live"},
		"before its end":                   {dead: 30, now: 29, want: "live"},
		"at its end":                       {dead: 30, now: 30, want: ""},
		"before its sandbox is killed":     {broken: 15, now: 14, want: "live runs"},
		"its sandbox is killed":            {broken: 15, now: 15, want: "live runs"},
		"killed, and its container ended":  {broken: 15, now: 20, want: ""},
		"killed before its container runs": {broken: 5, now: 9, want: ""},
		"before it is removed":             {gone: 15, now: 14, want: "live runs"},
		"removed, with what runs":          {gone: 15, now: 15, want: "gone"},
		"removed after its end":            {dead: 30, gone: 40, now: 35, want: ""},
		"removed after a killed sandbox":   {broken: 12, gone: 15, now: 16, want: "gone"},
	} {
		c := &container{started: second(10), finished: second(20)}
		a := &attempt{
			dead: moment(tt.dead), broken: moment(tt.broken), gone: moment(tt.gone), containers: []*container{c},
		}
		var got []string
		for word, is := range map[string]bool{"live": a.live(second(tt.now)), "gone": a.isGone(second(tt.now))} {
			if is {
				got = append(got, word)
			}
		}
		if c.runs(a, second(tt.now)) {
			got = append(got, "runs")
		}
		if strings.Join(got, " ") != tt.want || a.anyRuns(second(tt.now)) != strings.Contains(tt.want, "runs") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestContainersOneByOne: each starts once it is made and its sandbox is ready; the attempt ends after the last of
// them, when it was asked to.
func TestContainersOneByOne(t *testing.T) {
	const s = time.Second
	type one struct {
		made int
		life Life
	}
	forever := Life{RunFor: -1}
	for name, tt := range map[string]struct {
		containers []one
		term, kill int  // 0: it is not stopped
		alone      bool // the containers are stopped, and not the attempt
		want       string
	}{
		"none":                         {nil, 0, 0, false, "dead -"},
		"made before the sandbox":      {[]one{{5, forever}}, 0, 0, false, "12..- dead -"},
		"made after it":                {[]one{{20, forever}}, 0, 0, false, "22..- dead -"},
		"with a delay of its own":      {[]one{{20, Life{RunFor: s, StartAfter: 4 * s}}}, 0, 0, false, "26..27 dead -"},
		"all have ended":               {[]one{{5, Life{}}, {5, Life{RunFor: s}}}, 0, 0, false, "12..12 12..13 dead -"},
		"none, stopped":                {nil, 30, 40, false, "dead 33"},
		"stopped after all have ended": {[]one{{5, Life{RunFor: s}}}, 30, 40, false, "12..13 dead 33"},
		"stopped, it takes its time":   {[]one{{5, Life{RunFor: -1, StopTakes: 4 * s}}}, 30, 40, false, "12..34 dead 37"},
		"stopped, it does not listen":  {[]one{{5, Life{RunFor: -1, IgnoreTerm: true}}}, 30, 40, false, "12..40 dead 43"},
		"stopped, the last one counts": {
			[]one{{5, Life{RunFor: 30 * s, IgnoreTerm: true}}, {5, forever}}, 30, 99, false, "12..42 12..30 dead 45",
		},
		"stopped before it began":           {[]one{{29, forever}}, 30, 40, false, "-..30 dead 33"},
		"the containers alone were stopped": {[]one{{5, forever}, {5, Life{}}}, 30, 40, true, "12..30 12..12 dead -"},
	} {
		a := &attempt{ready: second(10)}
		stop := stopRequest{moment(tt.term), moment(tt.kill)}
		for _, c := range tt.containers {
			made := &container{created: second(c.made), program: program{Life: c.life}, stop: stop}
			a.containers = append(a.containers, made)
		}
		if !tt.alone {
			a.stop = stop
		}
		a.projectContainers(Latency{Start: 2 * s, Stop: 3 * s})
		got := ""
		for _, c := range a.containers {
			got += fmt.Sprintf("%s..%s ", seen(c.started), seen(c.finished))
		}
		if got += "dead " + seen(a.dead); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestWhatCannotBePulled: a task fails with the images that are not there, says of which containers, and of no other.
func TestWhatCannotBePulled(t *testing.T) {
	const pull = `pull image "missing": failed to resolve reference: not found`
	for name, tt := range map[string]struct {
		images []string
		want   string // of the attempt, and which containers
		failed []bool
	}{
		"none":         {nil, ": ", nil},
		"all there":    {[]string{"a", "b"}, ": ", []bool{false, false}},
		"one is not":   {[]string{"a", "missing"}, "FailedToStart: container c1: " + pull, []bool{false, true}},
		"two are not":  {[]string{"missing", "missing"}, "FailedToStart: container c1: " + pull, []bool{true, true}},
		"only the tag": {[]string{"a:missing"}, ": ", []bool{false}},
	} {
		a := &attempt{}
		for i, image := range tt.images {
			a.containers = append(a.containers, &container{name: fmt.Sprint("c", i), image: image})
		}
		a.failMissing(second(9))
		if got := a.reason + ": " + a.message; got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		for i, c := range a.containers {
			got, want := fmt.Sprint(seen(c.finished), c.reason, c.message), "-"
			if tt.failed[i] {
				want = "9ErrImagePull" + pull
			}
			if got != want {
				t.Errorf("%s: %s: %s, want %s", name, c.name, got, want)
			}
		}
	}
}

// TestWhichContainerIsMeant: by its name and its attempt; a pod by its node and its attempt.
func TestWhichContainerIsMeant(t *testing.T) {
	a := &attempt{node: "n", ref: backend.Ref{UID: "u", Attempt: 2}, containers: []*container{
		{name: "c", id: "first"}, {name: "c", attempt: 1, id: "second"}, {name: "d", attempt: 1, id: "other"},
	}}
	for _, tt := range []struct {
		name    string
		attempt int
		want    string
	}{{"c", 0, "first"}, {"c", 1, "second"}, {"d", 1, "other"}, {"d", 0, ""}, {"c", 2, ""}, {"", 0, ""}} {
		got := ""
		if c := a.find(tt.name, tt.attempt); c != nil {
			got = c.id
		}
		if got != tt.want {
			t.Errorf("%s, attempt %d: %q, want %q", tt.name, tt.attempt, got, tt.want)
		}
	}
	for _, tt := range []struct {
		node    string
		attempt int
		want    bool
	}{{"n", 2, true}, {"n", 1, false}, {"m", 2, false}, {"", 2, false}} {
		if got := a.is(tt.node, backend.Ref{UID: "u", Attempt: tt.attempt}); got != tt.want {
			t.Errorf("attempt %d of %q: %v", tt.attempt, tt.node, got)
		}
	}
}

// TestHostname: the pod's name, unless it says another.
func TestHostname(t *testing.T) {
	named := func(hostname string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Hostname: hostname}}
	}
	for want, pod := range map[string]*corev1.Pod{"": nil, "p": named(""), "h": named("h")} {
		c := &container{spec: backend.ContainerSpec{Pod: pod}}
		if got := c.forShell().Hostname; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestChangesWakeThoseThatWait: all of them, once.
func TestChangesWakeThoseThatWait(t *testing.T) {
	a := &attempt{}
	a.wake() // nobody waits
	first := a.wait()
	if a.wait() != first {
		t.Error("two that wait for one change wait for two")
	}
	a.wake()
	select {
	case <-first:
	default:
		t.Error("who waited was not woken")
	}
	select {
	case <-a.wait():
		t.Error("the next change has come before it was")
	default:
	}
}
