package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// number is what a measure says, "-" where it says nothing.
func number(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// TestWhatIsLeft: never less than nothing, and unknown where it has no bound.
func TestWhatIsLeft(t *testing.T) {
	list := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("1k"), "pods": resource.MustParse("0"),
		"debt": resource.MustParse("-5"),
	}
	for _, tt := range []struct {
		name corev1.ResourceName
		used uint64
		want string
	}{
		{"memory", 0, "1000"},
		{"memory", 400, "600"},
		{"memory", 1000, "0"},
		{"memory", 1001, "0"},
		{"cpu", 1, "1"},
		{"pods", 0, "-"},
		{"debt", 0, "-"},
		{"none", 0, "-"},
	} {
		if got := number(left(list, tt.name, tt.used)); got != tt.want {
			t.Errorf("%s, of which %d are used: %s, want %s", tt.name, tt.used, got, tt.want)
		}
	}
}

// TestLevels: what is left is known where both it and the whole are.
func TestLevels(t *testing.T) {
	for name, tt := range map[string]struct {
		given *backend.FilesystemUsage
		want  string
	}{
		"nothing":     {nil, "-"},
		"no capacity": {&backend.FilesystemUsage{Available: new(uint64(1))}, "-"},
		"only that":   {&backend.FilesystemUsage{Capacity: new(uint64(1))}, "-"},
		"both":        {&backend.FilesystemUsage{Available: new(uint64(1)), Capacity: new(uint64(2))}, "{1 2}"},
		"none left":   {&backend.FilesystemUsage{Available: new(uint64(0)), Capacity: new(uint64(2))}, "{0 2}"},
	} {
		got := "-"
		if l := level(tt.given); l != nil {
			got = fmt.Sprint(*l)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestWhatAContainerLeaves: its log and its own files as they were so long after its start; volumes are not its own.
func TestWhatAContainerLeaves(t *testing.T) {
	at := func(n int, name string, op shell.Op, data string) filesystem.Write {
		return filesystem.Write{At: time.Duration(n) * time.Second, Place: filesystem.Place{Path: name}, Op: op, Data: data}
	}
	c := &container{started: second(100), program: program{
		lines: []line{{text: "12345"}, {at: time.Second, text: ""}, {at: 9 * time.Second, text: "123"}},
		writes: []filesystem.Write{
			at(1, "/a", shell.Replace, "12345"), at(2, "/b", shell.Append, "12"), at(3, "/a", shell.Append, "6"),
			at(4, "/d", shell.MakeDir, ""),
			{
				At: 4 * time.Second, Place: filesystem.Place{Volume: &filesystem.Volume{}, Path: "/a"},
				Data: strings.Repeat("x", 99),
			},
			at(5, "/b", shell.Replace, "1"), at(6, "/a", shell.Remove, ""),
		},
	}}
	for _, tt := range []struct {
		after       int
		logs, layer uint64
	}{
		{-1, 0, 0}, {0, 6, 0}, {1, 7, 5}, {2, 7, 7}, {3, 7, 8}, {4, 7, 8}, {5, 7, 7}, {6, 7, 1}, {9, 11, 1}, {99, 11, 1},
	} {
		ran := time.Duration(tt.after) * time.Second
		if logs, layer := c.logged(ran), c.layer(c.started.Add(ran)); logs != tt.logs || layer != tt.layer {
			t.Errorf("after %v: %d bytes of log, %d of files; want %d, %d", ran, logs, layer, tt.logs, tt.layer)
		}
	}
}

// TestMostMemory: what was ever used, as its limits let it.
func TestMostMemory(t *testing.T) {
	loads := []load{{memory: 5}, {at: 2 * time.Second, memory: 90}, {at: 4 * time.Second, memory: 7}}
	for name, tt := range map[string]struct {
		loads []load
		limit string
		after int
		want  uint64
	}{
		"at first":             {loads, "", 0, 5},
		"before its start":     {loads, "", -1, 5},
		"before it uses more":  {loads, "", 1, 5},
		"as it uses more":      {loads, "", 2, 90},
		"when it uses less":    {loads, "", 9, 90},
		"within its limit":     {loads, "60", 9, 60},
		"of a limit of before": {[]load{{memory: 90, settled: true}, {at: 1, memory: 90}}, "60", 9, 90},
		"nothing is said":      {nil, "", 9, defaultMemory},
		"half of the limit":    {nil, "60", 9, 30},
	} {
		c := &container{program: program{loads: tt.loads}}
		c.spec.Container.Resources.Limits = resources("", tt.limit)
		if got := c.peak(time.Duration(tt.after) * time.Second); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestTimeOfProcessors: that of what ran, until its end or that of the attempt; what was removed still counts.
func TestTimeOfProcessors(t *testing.T) {
	for name, tt := range map[string]struct {
		started, finished, gone int
		now                     int
		burnt                   uint64
		want                    float64 // seconds of a core
	}{
		"it never ran":              {now: 90},
		"before its start":          {started: 10, now: 9},
		"as it starts":              {started: 10, now: 10},
		"while it runs":             {started: 10, now: 14, want: 8},
		"before its end":            {started: 10, finished: 20, now: 14, want: 8},
		"after its end":             {started: 10, finished: 20, now: 90, want: 20},
		"after that of the attempt": {started: 10, gone: 13, now: 90, want: 6},
		"after both":                {started: 10, finished: 12, gone: 13, now: 90, want: 4},
		"with what was removed":     {started: 10, finished: 20, now: 90, burnt: 1e9, want: 21},
		"only what was removed":     {now: 90, burnt: 1e9, want: 1},
	} {
		c := &container{
			started: moment(tt.started), finished: moment(tt.finished), program: program{loads: []load{{milliCPU: 2000}}},
		}
		a := &attempt{burnt: tt.burnt, gone: moment(tt.gone), containers: []*container{c}}
		if got := float64(a.spent(second(tt.now))) / 1e9; got != tt.want {
			t.Errorf("%s: %v s, want %v", name, got, tt.want)
		}
	}
}

// TestWhatItGotItGot: what was used under former limits stays so, and what the program asks for holds under the next.
func TestWhatItGotItGot(t *testing.T) {
	type change struct {
		after int
		limit string
	}
	for name, tt := range map[string]struct {
		changes []change
		now     uint64  // thousandths of a core after 20 s
		spent   float64 // seconds of a core until then
	}{
		"never changed":     {nil, 4000, 10*1 + 10*4},
		"a limit at first":  {[]change{{0, "2"}}, 2000, 10*1 + 10*2},
		"less later":        {[]change{{15, "2"}}, 2000, 10*1 + 5*4 + 5*2},
		"more later":        {[]change{{0, "2"}, {15, "3"}}, 3000, 10*1 + 5*2 + 5*3},
		"none any more":     {[]change{{0, "2"}, {15, ""}}, 4000, 10*1 + 5*2 + 5*4},
		"less and more":     {[]change{{12, "2"}, {16, "4"}}, 4000, 10*1 + 2*4 + 4*2 + 4*4},
		"twice at once":     {[]change{{12, "2"}, {12, "3"}}, 3000, 10*1 + 2*4 + 8*3},
		"before it matters": {[]change{{5, "2"}}, 2000, 10*1 + 10*2},
		"as it matters":     {[]change{{10, "2"}}, 2000, 10*1 + 10*2},
	} {
		c := &container{program: program{loads: []load{{milliCPU: 1000}, {at: 10 * time.Second, milliCPU: 4000}}}}
		for _, change := range tt.changes {
			c.settle(time.Duration(change.after) * time.Second)
			c.hold(corev1.ResourceRequirements{Limits: resources(change.limit, "")})
		}
		now, cpu := c.used(20 * time.Second)
		if now.milliCPU != tt.now || float64(cpu)/1e9 != tt.spent {
			t.Errorf("%s: %dm and %v s, want %dm and %v s", name, now.milliCPU, float64(cpu)/1e9, tt.now, tt.spent)
		}
	}
}

// TestUsageOfAPod: it has the disk of its containers and of its local volumes, and a network of its own or none.
func TestUsageOfAPod(t *testing.T) {
	for name, tt := range map[string]struct {
		attempt attempt
		runs    bool
		want    string // disk, processes, received, of its volumes
	}{
		"nothing runs":       {attempt{release: "1.1.1.1"}, false, "- - - -"},
		"a pod":              {attempt{release: "1.1.1.1"}, true, "13 1 20000 3"},
		"on the host's":      {attempt{}, true, "13 1 - 3"},
		"a task":             {attempt{hostIPs: []string{"1.1.1.1"}}, true, "13 1 20000 3"},
		"before it is ready": {attempt{release: "1.1.1.1", ready: second(70)}, true, "13 1 0 3"},
	} {
		a := tt.attempt
		if a.ready.IsZero() {
			a.ready = second(50)
		}
		c := &container{started: second(51), program: program{lines: []line{{text: "123456789"}}}}
		if !tt.runs {
			c.finished = second(52)
		}
		a.containers = []*container{c}
		holding := func(text string) *filesystem.Placement {
			files := []backend.File{{Path: "f", Data: []byte(text)}}
			return filesystem.NewVolume(backend.Ref{}, backend.VolumeSpec{Files: files}, epoch).Now
		}
		p, sum := a.stats(map[string]*filesystem.Volume{
			"local": {Local: true, Now: holding("123")}, "memory": {Now: holding("12345")},
		}, second(60))
		got := []string{"-", number(p.Processes), "-", "-"}
		if p.EphemeralStorage != nil {
			got[0] = number(p.EphemeralStorage.Used)
		}
		if p.Network != nil {
			got[2] = number(p.Network[0].RxBytes)
		}
		if v, ok := p.Volumes["local"]; ok {
			got[3] = number(v.Used)
		}
		if text := strings.Join(got, " "); text != tt.want || (sum.disk > 0) != tt.runs {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}
