package sim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// epoch is where the tables below begin; their times are seconds after it.
var epoch = time.Unix(1_000_000, 0)

func second(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// seen is a time as a table has it: "-" is never.
func seen(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprint(t.Sub(epoch).Seconds())
}

// TestRunAndStop: a container ends by itself or by a stop, whichever comes first, and its exit
// code tells which. It begins at second 10.
func TestRunAndStop(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		life       Life
		term, kill int // 0: it is not stopped
		want       string
	}{
		"left alone":                        {Life{RunFor: -1}, 0, 0, "10..- 0"},
		"ends":                              {Life{RunFor: 5 * s, ExitCode: 3}, 0, 0, "10..15 3"},
		"ends at once":                      {Life{}, 0, 0, "10..10 0"},
		"out of memory":                     {Life{RunFor: s, OOM: true}, 0, 0, "10..11 137 OOM"},
		"out of memory, by its own code":    {Life{RunFor: s, OOM: true, ExitCode: 9}, 0, 0, "10..11 9 OOM"},
		"stopped before it began":           {Life{RunFor: -1}, 9, 40, "-..9 137 stopped before it started"},
		"stopped as it begins":              {Life{RunFor: -1}, 10, 40, "10..10 143"},
		"stopped":                           {Life{RunFor: -1, StopTakes: 2 * s}, 12, 40, "10..14 143"},
		"takes all of its grace":            {Life{RunFor: -1, StopTakes: 2 * s}, 12, 14, "10..14 143"},
		"takes longer than its grace":       {Life{RunFor: -1, StopTakes: 3 * s}, 12, 14, "10..14 137"},
		"killed without grace":              {Life{RunFor: -1}, 12, 12, "10..12 137"},
		"ignores TERM":                      {Life{RunFor: -1, IgnoreTerm: true}, 12, 40, "10..40 137"},
		"ends by itself while it stops":     {Life{RunFor: 5 * s, ExitCode: 3, StopTakes: 9 * s}, 12, 40, "10..15 3"},
		"ends by itself as it would stop":   {Life{RunFor: 5 * s, StopTakes: 3 * s}, 12, 40, "10..15 0"},
		"stopped before it runs out":        {Life{RunFor: 5 * s, OOM: true}, 12, 40, "10..12 143"},
		"runs out before it would be ended": {Life{RunFor: 5 * s, OOM: true, IgnoreTerm: true}, 12, 40, "10..15 137 OOM"},
	} {
		c := &container{program: program{Life: tt.life}, exitCode: 99, oom: true}
		if tt.term > 0 {
			c.stop = stopRequest{second(tt.term), second(tt.kill)}
		}
		c.run(second(10))
		got := fmt.Sprintf("%s..%s %d", seen(c.started), seen(c.finished), c.exitCode)
		if c.oom {
			got += " OOM"
		}
		if c.message != "" {
			got += " " + c.message
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestStopsMerge: TERM is sent once, with the first request; KILL comes with the earliest.
func TestStopsMerge(t *testing.T) {
	for _, tt := range []struct {
		requests [][2]int // when, and the grace
		want     string
	}{
		{nil, "-, -"},
		{[][2]int{{1, 30}}, "1, 31"},
		{[][2]int{{1, 30}, {5, 10}}, "1, 15"},
		{[][2]int{{1, 30}, {5, 60}}, "1, 31"},
		{[][2]int{{1, 30}, {5, 0}, {6, 30}}, "1, 5"},
		{[][2]int{{1, -5}}, "1, 1"},
		{[][2]int{{1, 30}, {5, -60}}, "1, 5"},
	} {
		var s stopRequest
		for _, r := range tt.requests {
			s.lodge(second(r[0]), time.Duration(r[1])*time.Second)
		}
		if got := seen(s.term) + ", " + seen(s.kill); got != tt.want || s.asked() != (len(tt.requests) > 0) {
			t.Errorf("%v: %s, want %s", tt.requests, got, tt.want)
		}
	}
}

// TestNextChange: what will change next is hinted at then; what lies behind, or may not come,
// is not.
func TestNextChange(t *testing.T) {
	probe := backend.ContainerSpec{Container: corev1.Container{ReadinessProbe: &corev1.Probe{}}}
	healthy := program{Life: Life{HealthyAfter: 3 * time.Second, UnhealthyAfter: 9 * time.Second}}
	for name, tt := range map[string]struct {
		attempt attempt
		now     int
		want    string
	}{
		"nothing foreseen": {attempt{ready: second(1)}, 1, "-"},
		"ready":            {attempt{ready: second(5), dead: second(9)}, 1, "5"},
		"dead":             {attempt{ready: second(5), dead: second(9), gone: second(9)}, 5, "9"},
		"gone":             {attempt{gone: second(12)}, 5, "12"},
		"a container's start": {
			attempt{dead: second(9), containers: []*container{{started: second(4), finished: second(8)}}}, 1, "4",
		},
		"a container's end": {
			attempt{dead: second(9), containers: []*container{{started: second(4), finished: second(8)}}}, 4, "8",
		},
		"its health": {
			attempt{health: true, containers: []*container{{started: second(4), program: healthy, spec: probe}}}, 4, "7",
		},
		"its health's end": {
			attempt{health: true, containers: []*container{{started: second(4), program: healthy, spec: probe}}}, 7, "13",
		},
		"no health of the ended": {
			attempt{health: true, containers: []*container{{started: second(4), finished: second(5), program: healthy}}}, 6, "-",
		},
		"nothing of what is gone": {
			attempt{gone: second(5), containers: []*container{{started: second(4), finished: second(8)}}}, 5, "-",
		},
		"nobody asks for health": {attempt{containers: []*container{{started: second(4), program: healthy}}}, 4, "-"},
	} {
		if got := seen(tt.attempt.next(second(tt.now))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestHealth: the remote's verdict of a container with a probe, while it runs.
func TestHealth(t *testing.T) {
	probes := map[string]corev1.Container{
		"none": {}, "readiness": {ReadinessProbe: &corev1.Probe{}}, "liveness": {LivenessProbe: &corev1.Probe{}},
		"startup": {StartupProbe: &corev1.Probe{}},
	}
	for name, tt := range map[string]struct {
		probe   string
		now     int
		unasked bool
		want    string
	}{
		"too early": {"readiness", 12, false, "unknown"}, "healthy": {"readiness", 13, false, "true"},
		"to the last": {"liveness", 18, false, "true"}, "not any more": {"liveness", 19, false, "false"},
		"ended": {"startup", 30, false, "unknown"}, "by its startup probe": {"startup", 15, false, "true"},
		"no probe": {"none", 15, false, "unknown"}, "nobody asks": {"readiness", 15, true, "unknown"},
	} {
		c := &container{
			started: second(10), finished: second(30), spec: backend.ContainerSpec{Container: probes[tt.probe]},
			program: program{Life: Life{HealthyAfter: 3 * time.Second, UnhealthyAfter: 9 * time.Second}},
		}
		got := "unknown"
		if verdict := (&attempt{health: !tt.unasked}).healthy(c, second(tt.now)); verdict != nil {
			got = fmt.Sprint(*verdict)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestAddressesRunOut: each is given to one at a time, none ends in 0 or 255, and who comes
// when all are taken gets none until one is given back.
func TestAddressesRunOut(t *testing.T) {
	p := addresses{next: poolSize - 4}
	for _, want := range []string{"10.88.255.252", "10.88.255.253", "10.88.255.254", ""} {
		if got, ok := p.take(); got != want || ok != (want != "") {
			t.Errorf("%q, %v, want %q", got, ok, want)
		}
	}
	p.release("10.88.255.253")
	p.release("") // the host's is nobody's to give back
	for _, want := range []string{"10.88.255.253", ""} {
		if got, ok := p.take(); got != want || ok != (want != "") {
			t.Errorf("given back: %q, %v, want %q", got, ok, want)
		}
	}
	first := addresses{}
	if got, _ := first.take(); got != "10.88.0.1" {
		t.Errorf("the first is %s", got)
	}
}

// TestWhoAContainerRunsAs: the container's security context goes before the pod's, field by
// field; groups are listed once.
func TestWhoAContainerRunsAs(t *testing.T) {
	type ids struct{ user, group *int64 }
	for name, tt := range map[string]struct {
		pod    *corev1.PodSecurityContext
		own    *ids
		groups []int64
		uid    int64
	}{
		"nobody says": {nil, nil, []int64{0}, 0},
		"the pod": {
			&corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: new(int64(6))}, nil, []int64{6}, 5,
		},
		"the container": {nil, &ids{new(int64(7)), new(int64(8))}, []int64{8}, 7},
		"one field each": {
			&corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: new(int64(6))}, &ids{user: new(int64(7))},
			[]int64{6},
			7,
		},
		"root, of all": {
			&corev1.PodSecurityContext{RunAsUser: new(int64(5))}, &ids{user: new(int64(0))}, []int64{0}, 0,
		},
		"groups of the pod": {
			&corev1.PodSecurityContext{SupplementalGroups: []int64{9, 3}, FSGroup: new(int64(4))}, nil, []int64{0, 3, 4, 9}, 0,
		},
		"each group is once": {
			&corev1.PodSecurityContext{RunAsGroup: new(int64(3)), SupplementalGroups: []int64{3, 4}, FSGroup: new(int64(4))},
			nil,
			[]int64{3, 4},
			0,
		},
	} {
		spec := &backend.ContainerSpec{Pod: &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: tt.pod}}}
		if tt.own != nil {
			spec.Container.SecurityContext = &corev1.SecurityContext{RunAsUser: tt.own.user, RunAsGroup: tt.own.group}
		}
		u := linuxUser(spec)
		if u.UID != tt.uid || fmt.Sprint(u.SupplementalGroups) != fmt.Sprint(tt.groups) {
			t.Errorf("%s: %+v, want user %d, groups %d", name, u, tt.uid, tt.groups)
		}
	}
}
