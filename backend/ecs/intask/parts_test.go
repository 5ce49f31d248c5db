package intask

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestCapabilitiesAreAddedThenDropped(t *testing.T) {
	has := []int{0, 5, 10, 13} // CHOWN, KILL, NET_BIND_SERVICE, NET_RAW
	for name, c := range map[string]struct {
		drop, add []string
		want      []int
		err       string
	}{
		"as they are":          {nil, nil, has, ""},
		"one less":             {[]string{"NET_RAW"}, nil, []int{0, 5, 10}, ""},
		"with its prefix":      {[]string{"cap_kill"}, nil, []int{0, 10, 13}, ""},
		"none":                 {[]string{"ALL"}, nil, nil, ""},
		"none but one":         {[]string{"all"}, []string{"NET_BIND_SERVICE"}, []int{10}, ""},
		"dropped and added":    {[]string{"KILL"}, []string{"KILL"}, []int{0, 10, 13}, ""},
		"all but one":          {[]string{"kill"}, []string{"ALL"}, []int{0, 10, 13}, ""},
		"all that there is":    {nil, []string{"ALL"}, has, ""},
		"all and none":         {[]string{"ALL"}, []string{"ALL"}, nil, ""},
		"none, all, and one":   {[]string{"ALL"}, []string{"ALL", "KILL"}, []int{5}, ""},
		"none and not even it": {[]string{"ALL", "KILL"}, []string{"KILL"}, nil, ""},
		"added twice":          {[]string{"ALL"}, []string{"KILL", "CAP_KILL"}, []int{5}, ""},
		"one that is not had":  {nil, []string{"SYS_ADMIN"}, nil, `"SYS_ADMIN"`},
		"no such one":          {[]string{"FLY"}, nil, nil, `"FLY"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keptCapabilities(has, c.drop, c.add)
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) ||
				c.err == "" && (err != nil || !slices.Equal(got, c.want)) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestSignalNames(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"": syscall.SIGTERM, "SIGQUIT": syscall.SIGQUIT, "int": syscall.SIGINT, "3": syscall.SIGQUIT,
		"SIGRTMIN": 34, "RTMIN+3": 37, "SIGRTMAX-14": 50, "SIGRTMAX": 64,
		"SIGFOO": 0, "SIGRTMIN+99": 0, "65": 0, "0": 0, "SIGRTMINx": 0,
	} {
		if got, err := signalOf(name); got != want || (err != nil) != (want == 0) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestTheChildsEnvironment(t *testing.T) {
	environ := []string{"A=1", "HOME=/root", "HOSTNAME=ip-10", "BURSTLET_SUPERVISE={}", "IP=" + LatePodIP, "EMPTY="}
	cred := credential{home: "/home/app"}
	for name, c := range map[string]struct {
		environ, kept []string
		host          string
		want          string
	}{
		"what runtimes set": {environ, nil, "web-0", "A=1|HOME=/home/app|IP=10.0.0.1|EMPTY=|HOSTNAME=web-0"},
		"what the spec sets": {
			environ, []string{"HOME", "HOSTNAME"}, "web-0", "A=1|HOME=/root|HOSTNAME=ip-10|IP=10.0.0.1|EMPTY=",
		},
		"a home of the image":  {[]string{"HOME=/srv"}, nil, "", "HOME=/srv"},
		"without a home":       {[]string{"A=1"}, nil, "", "A=1|HOME=/home/app"},
		"without another name": {[]string{"HOSTNAME=ip-10", "HOME=/x"}, nil, "", "HOSTNAME=ip-10|HOME=/x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(childEnv(c.environ, c.kept, addresses{"10.0.0.1"}, cred, c.host), "|"); got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
	if got := strings.Join(withEnv([]string{"A=1", "TERM=dumb"}, []string{"TERM=xterm"}), "|"); got != "TERM=xterm|A=1" {
		t.Errorf("%s", got)
	}
}

// TestExpansion: a subPathExpr becomes what a kubelet makes of it (expansion.Expand,
// ExpandContainerVolumeMounts). A variable without a value would make all of the volume of a
// part, so it is missing.
func TestExpansion(t *testing.T) {
	env := []string{"A=1", "B=x$(A)", "EMPTY=", "EQ=a=b", "SP=a b"}
	for in, want := range map[string]string{
		"":                    "",
		"a":                   "a",
		"$(A)/$(B)":           "1/x$(A)",
		"$(A)$(A)":            "11",
		"$$(A)":               "$(A)",
		"$$$(A)":              "$1",
		"$$$$(A)":             "$$(A)",
		"$A $":                "$A $",
		"$":                   "$",
		"$$":                  "$",
		"a$":                  "a$",
		"$(A":                 "$(A",
		"$((A)":               "missing value for (A",
		"$(EQ)/$(SP)":         "a=b/a b",
		"$(a)":                "missing value for a",
		"$(NO)":               "missing value for NO",
		"x/$(EMPTY)":          "missing value for EMPTY",
		"$(NO)/$(A)/$(EMPTY)": "missing value for EMPTY, NO",
		"$(NO)$(NO)":          "missing value for NO",
		"$()":                 "missing value for ",
	} {
		got, err := expand(in, env)
		if err != nil {
			got += err.Error()
		}
		if got != want || (err != nil) != strings.HasPrefix(want, "missing") {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestResolvers(t *testing.T) {
	const host = "# of ECS\nsearch a.internal. b.internal\nnameserver 10.0.0.2\noptions timeout:2 ndots:1\n"
	cluster := DNS{
		Policy: DNSCluster, ClusterServers: []string{"172.20.0.10"}, ClusterSearches: []string{"ns.svc.x", "svc.x", "x"},
	}
	with := func(d DNS, change func(*DNS)) DNS { change(&d); return d }
	for name, c := range map[string]struct {
		dns  DNS
		want string
	}{
		"Default": {
			DNS{
				Policy: DNSDefault, Servers: []string{"1.1.1.1", "10.0.0.2"}, Searches: []string{"c", "a.internal"},
				Options: []string{"ndots:3", "edns0"},
			},
			"search a.internal b.internal c\nnameserver 10.0.0.2\nnameserver 1.1.1.1\noptions timeout:2 ndots:3 edns0\n",
		},
		"ClusterFirst": {cluster, "search ns.svc.x svc.x x a.internal b.internal\nnameserver 172.20.0.10\noptions ndots:5\n"},
		"ClusterFirst with more": {
			with(
				cluster, func(d *DNS) { d.Servers, d.Options = []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"}, []string{"ndots:1"} },
			),
			"search ns.svc.x svc.x x a.internal b.internal\nnameserver 172.20.0.10\nnameserver 1.1.1.1\nnameserver 2.2.2.2\noptions ndots:1\n",
		},
		"None": {DNS{Policy: DNSNone, Servers: []string{"1.1.1.1"}}, "nameserver 1.1.1.1\n"},
		"too long": {
			DNS{Policy: DNSNone, Searches: []string{strings.Repeat("x", 254), "ok"}}, "search ok\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			path := filepath.Join(etc, "resolv.conf")
			must(t, os.WriteFile(path, []byte(host), 0o644))
			for range 2 { // several containers of a task may share it
				must(t, writeResolver(etc, c.dns))
				if got := read(t, path); got != c.want {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

func TestMountsAreNotHidden(t *testing.T) {
	table := []byte("22 1 0:1 / / rw - overlay x rw\n23 22 0:2 / /data/my\\040vol rw - xfs y rw\n")
	for path, want := range map[string]string{
		"/data": "/data/my vol", "/data/my vol": "/data/my vol", "/data/my": "", "/dat": "", "/data/my vol/x": "", "/": "/",
	} {
		if got := mountWithin(table, path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestPartsOfVolumesStayInside(t *testing.T) {
	vol := t.TempDir()
	must(t, os.Mkdir(filepath.Join(vol, "in"), 0o700))
	must(t, os.Symlink("/etc", filepath.Join(vol, "out")))
	must(t, os.Symlink("in", filepath.Join(vol, "inner")))
	for path, ok := range map[string]bool{
		"in": true, "inner": true, "new/deep": true, "out": false, "out/x": false, "/in": false, "a/../b": false,
	} {
		_, err := SubPath{MountPath: "/m", Volume: vol}.find(path)
		if (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := (SubPath{MountPath: "/m", Volume: vol, ReadOnly: true}).find("missing"); err == nil {
		t.Error("it made something in a read-only volume")
	}
}

func TestReportsSurviveTheLog(t *testing.T) {
	want := Report{Exit: 137, Reason: ReasonOOMKilled, Message: "line\n\x1eburstlet {", Hook: &HookFailure{"a", "b"}}
	line, err := want.line()
	must(t, err)
	text, got, ok := CutReport("glued" + strings.TrimSuffix(line, "\n"))
	if !ok || text != "glued" || got.Message != want.Message || *got.Hook != *want.Hook || got.Exit != 137 {
		t.Errorf("%q, %+v, %v", text, got, ok)
	}
	for _, line := range []string{"", "plain", "\x1eburstlet ", "\x1eburstlet {broken"} {
		if text, _, ok := CutReport(line); ok || text != line {
			t.Errorf("%q: %q, %v", line, text, ok)
		}
	}
	long := Report{Message: strings.Repeat("\x01é", 4000), Probe: strings.Repeat("p", 20000)}
	line, err = long.line()
	must(t, err)
	if _, got, ok := CutReport(line); len(line) > 16<<10 || !ok || got.Message == "" || got.Probe == "" {
		t.Errorf("%d bytes, %v", len(line), ok)
	}
}

func TestKillsForWantOfMemoryAreCounted(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]struct {
		n  int
		ok bool
	}{
		"low 0\noom 3\noom_kill 2\noom_group_kill 0\n": {2, true}, // v2
		"oom_kill_disable 0\nunder_oom 0\noom_kill 5":  {5, true}, // v1
		"nothing": {0, false},
	} {
		path := filepath.Join(dir, "f")
		must(t, os.WriteFile(path, []byte(name), 0o600))
		if n, ok := oomKillsIn(path); n != want.n || ok != want.ok {
			t.Errorf("%q: %d, %v", name, n, ok)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte("4:memory:/ecs/x\n2:cpu,cpuacct:/y\n0::/z\n"), 0o600))
	if got := ownCgroups(filepath.Join(dir, "cgroup")); got["memory"] != "/ecs/x" || got["cpuacct"] != "/y" ||
		got[""] != "/z" {
		t.Errorf("%v", got)
	}
}
