package taskstats

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// here is a machine whose clock is the task's.
func here(at *time.Time) time.Time { return *at }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestMemoryOfAContainer: the working set is what a kubelet says it is, under the names of either
// version of cgroups, and a limit that is none is not told.
func TestMemoryOfAContainer(t *testing.T) {
	type memory struct{ usage, set, available, rss, faults, major *uint64 }
	n := func(v uint64) *uint64 { return &v }
	for name, tt := range map[string]struct {
		said string
		want memory
	}{
		"nothing":         {`{}`, memory{}},
		"a limit alone":   {`{"limit":100}`, memory{}},
		"usage alone":     {`{"usage":50}`, memory{usage: n(50), set: n(50)}},
		"no usage at all": {`{"usage":0,"limit":100}`, memory{usage: n(0), set: n(0), available: n(100)}},
		"with a limit":    {`{"usage":50,"limit":100}`, memory{usage: n(50), set: n(50), available: n(50)}},
		"at its limit":    {`{"usage":100,"limit":100}`, memory{usage: n(100), set: n(100), available: n(0)}},
		"beyond it":       {`{"usage":120,"limit":100}`, memory{usage: n(120), set: n(120), available: n(0)}},
		"a limit of 0":    {`{"usage":50,"limit":0}`, memory{usage: n(50), set: n(50)}},
		"no limit of v1":  {`{"usage":50,"limit":9223372036854771712}`, memory{usage: n(50), set: n(50)}},
		"no limit of v2":  {`{"usage":50,"limit":18446744073709551615}`, memory{usage: n(50), set: n(50)}},
		"of v2": {
			`{"usage":50,"limit":100,"stats":{"inactive_file":20,"anon":25,"pgfault":7,"pgmajfault":3}}`,
			memory{n(50), n(30), n(70), n(25), n(7), n(3)},
		},
		"of v1": {
			`{"usage":50,"limit":100,"stats":{"total_inactive_file":20,"total_rss":25,"total_pgfault":7,"total_pgmajfault":3}}`,
			memory{n(50), n(30), n(70), n(25), n(7), n(3)},
		},
		"of v1, whose own are another's": {
			`{"usage":50,"stats":{"inactive_file":1,"total_inactive_file":20,"pgfault":1,"total_pgfault":7}}`,
			memory{usage: n(50), set: n(30), faults: n(7)},
		},
		"more inactive than used": {`{"usage":50,"stats":{"inactive_file":60}}`, memory{usage: n(50), set: n(0)}},
		"counters of 0": {
			`{"usage":50,"stats":{"anon":0,"pgfault":0}}`, memory{usage: n(50), set: n(50), rss: n(0), faults: n(0)},
		},
	} {
		var s dockerStats
		if err := json.Unmarshal([]byte(`{"memory_stats":`+tt.said+`}`), &s); err != nil {
			t.Fatal(name, err)
		}
		u := s.usage(here)
		got := memory{u.MemoryUsage, u.MemoryWorkingSet, u.MemoryAvailable, u.MemoryRSS, u.PageFaults, u.MajorPageFaults}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(memory{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCPUOfAContainer: a rate needs two readings in their order, of one counter.
func TestCPUOfAContainer(t *testing.T) {
	for name, tt := range map[string]struct {
		read, before    string
		total, previous uint64
		want            string // in thousandths of a core
	}{
		"a whole core":            {"12:00:10", "12:00:00", 15e9, 5e9, "1000"},
		"a tenth":                 {"12:00:10", "12:00:00", 6e9, 5e9, "100"},
		"several":                 {"12:00:01", "12:00:00", 9e9, 5e9, "4000"},
		"idle":                    {"12:00:10", "12:00:00", 5e9, 5e9, "0"},
		"the first reading":       {"12:00:10", "", 5e9, 0, "none"},
		"the same reading":        {"12:00:10", "12:00:10", 5e9, 5e9, "none"},
		"a clock that went back":  {"12:00:00", "12:00:10", 6e9, 5e9, "none"},
		"a counter that restarts": {"12:00:10", "12:00:00", 1e9, 5e9, "none"},
	} {
		s := dockerStats{}
		at := func(clock string) (out time.Time) {
			if clock != "" {
				out, _ = time.Parse(time.DateTime, "2026-01-02 "+clock)
			}
			return out
		}
		s.Read, s.PreRead = at(tt.read), at(tt.before)
		s.CPU.Usage.Total, s.PreCPU.Usage.Total = tt.total, tt.previous
		u := s.usage(func(a *time.Time) time.Time { return a.Add(time.Hour) })
		got := "none"
		if u.CPUNanoCores != nil {
			got = fmt.Sprint(*u.CPUNanoCores / 1e6)
		}
		if got != tt.want || *u.CPUCoreNanoSeconds != tt.total || !u.Time.Equal(at(tt.read).Add(time.Hour)) {
			t.Errorf("%s: %s of %d at %v; want %s", name, got, *u.CPUCoreNanoSeconds, u.Time, tt.want)
		}
	}
}

// TestContainersOfATask: only those that run and of which the task says something; the task's own
// numbers are of all that it says something of.
func TestContainersOfATask(t *testing.T) {
	facts := func(name string, attempt int, more ...time.Time) backend.ContainerFacts {
		c := backend.ContainerFacts{Name: name, Attempt: attempt, StartedAt: noon}
		if len(more) > 0 {
			c.FinishedAt = more[0]
		}
		return c
	}
	const read = `"read":"2026-01-02T12:00:10Z"`
	for name, tt := range map[string]struct {
		task, stats string
		facts       []backend.ContainerFacts
		want        []string // name, attempt, start after noon
		processes   string
		network     string
		err         string
	}{
		"one": {
			task:  `{"Containers":[{"DockerId":"1","Name":"a","StartedAt":"2026-01-02T12:00:05Z"}]}`,
			stats: `{"1":{` + read + `,"pids_stats":{"current":3},"networks":{"eth1":{"rx_bytes":1}}}}`,
			facts: []backend.ContainerFacts{facts("a", 2)}, want: []string{"a 2 5s"}, processes: "3", network: "eth1",
		},
		"one without its start": {
			task: `{"Containers":[{"DockerId":"1","Name":"a"}]}`, stats: `{"1":{` + read + `}}`,
			facts: []backend.ContainerFacts{facts("a", 0)}, want: []string{"a 0 0s"}, processes: "none",
		},
		"one beside the agent": {
			task: `{"Containers":[{"DockerId":"1","Name":"a"},{"DockerId":"2","Name":"burstlet-agent"}]}`,
			stats: `{"1":{` + read + `,"pids_stats":{"current":3},"networks":{"eth1":{},"eth0":{}}},` +
				`"2":{` + read + `,"pids_stats":{"current":4},"networks":{"eth9":{}}}}`,
			facts: []backend.ContainerFacts{facts("a", 0)}, want: []string{"a 0 0s"}, processes: "7", network: "eth0 eth1",
		},
		"two": {
			task: `{"Containers":[{"DockerId":"1","Name":"a","StartedAt":"2026-01-02T12:00:02Z"},` +
				`{"DockerId":"2","Name":"b","StartedAt":"2026-01-02T12:00:01Z"}]}`,
			stats: `{"1":{` + read + `},"2":{` + read + `}}`,
			facts: []backend.ContainerFacts{facts("b", 0), facts("a", 1)}, want: []string{"a 1 2s", "b 0 1s"}, processes: "none",
		},
		"one that has ended": {
			task:  `{"Containers":[{"DockerId":"1","Name":"a"},{"DockerId":"2","Name":"b"}]}`,
			stats: `{"1":{` + read + `},"2":{` + read + `}}`,
			facts: []backend.ContainerFacts{facts("a", 0, noon.Add(time.Second)), facts("b", 0)}, want: []string{"b 0 0s"},
			processes: "none",
		},
		"one of which nothing is said": {
			task:  `{"Containers":[{"DockerId":"1","Name":"a"},{"DockerId":"2","Name":"b"}]}`,
			stats: `{"1":null,"2":{` + read + `}}`,
			facts: []backend.ContainerFacts{facts("a", 0), facts("b", 0)}, want: []string{"b 0 0s"}, processes: "none",
		},
		"none": {
			task: `{"Containers":[]}`, stats: `{}`, facts: []backend.ContainerFacts{facts("a", 0)},
			err: "the task's statistics have none of a container that runs",
		},
		"none that runs": {
			task: `{"Containers":[{"DockerId":"1","Name":"a"}]}`, stats: `{"1":{` + read + `}}`,
			facts: []backend.ContainerFacts{facts("a", 0, noon)},
			err:   "the task's statistics have none of a container that runs",
		},
		"no metadata":   {task: `x`, stats: `{}`, err: "decode the task's metadata: "},
		"no statistics": {task: `{}`, stats: `[]`, err: "decode the task's statistics: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := backend.PodFacts{Containers: tt.facts}
			p, err := Decode(intask.TaskStats{Task: json.RawMessage(tt.task), Stats: json.RawMessage(tt.stats)}, f, here)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
				return
			}
			var got, network []string
			for _, c := range p.Containers {
				got = append(got, fmt.Sprint(c.Name, " ", c.Attempt, " ", c.StartTime.Sub(noon)))
			}
			for _, i := range p.Network {
				network = append(network, i.Name)
			}
			processes := "none"
			if p.Processes != nil {
				processes = fmt.Sprint(*p.Processes)
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" || processes != tt.processes {
				t.Errorf("%v, %s processes (-want +got):\n%s", err, processes, diff)
			}
			if strings.Join(network, " ") != tt.network || !p.Time.Equal(noon.Add(10*time.Second)) {
				t.Errorf("network %v at %v", network, p.Time)
			}
		})
	}
}

// TestWhichTimeCounts: the latest reading, and the earliest start, of which none is no start.
func TestWhichTimeCounts(t *testing.T) {
	var none time.Time
	after := noon.Add(time.Second)
	for _, tt := range []struct{ a, b, later, earlier time.Time }{
		{noon, after, after, noon},
		{after, noon, after, noon},
		{noon, noon, noon, noon},
		{none, noon, noon, noon},
	} {
		if l, e := later(tt.a, tt.b), earlier(tt.a, tt.b); !l.Equal(tt.later) || !e.Equal(tt.earlier) {
			t.Errorf("%v and %v: later %v, earlier %v", tt.a, tt.b, l, e)
		}
	}
}
