package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// atRoot runs the test in the root of the checkout, as the command runs.
func atRoot(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(strings.TrimSpace(string(out)))
}

// TestEveryPackageHasItsSuite: the gate and the lane of everything run every package
// once, and say so when one is in no suite.
func TestEveryPackageHasItsSuite(t *testing.T) {
	atRoot(t)
	packages := packagesOf(t, "./...")
	for _, name := range []string{"gate", "all"} {
		suites, err := suitesOf(name, packages)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAll(suites, packages); err != nil {
			t.Errorf("lane %s: %v", name, err)
		}
		if err := checkAll(suites, append(packages, module+"/new")); err == nil || !strings.Contains(err.Error(), "/new") {
			t.Errorf("lane %s: a package in no suite: %v", name, err)
		}
		for _, s := range suites {
			if s.command == nil && s.race != strings.Contains(s.name, "-race") {
				t.Errorf("lane %s, suite %q: the name does not tell whether it looks for races", name, s.name)
			}
		}
	}
}

func TestUnknownLane(t *testing.T) {
	if _, err := suitesOf("night", nil); err == nil || !strings.Contains(err.Error(), `"night"`) {
		t.Errorf("error %v", err)
	}
}

// TestSuites runs suites of tests that fail by chance, always, or hang.
func TestSuites(t *testing.T) {
	atRoot(t)
	luck := module + "/test/cmd/lanes/testdata/luck"
	for _, tt := range []struct {
		name, env       string
		world, clusters bool
		bound           time.Duration
		verdict         string
		flaky           int
		failures        []string
	}{
		{"all is well", "", true, false, time.Minute, ok, 0, nil},
		{"one by chance", "LUCK_ONCE", true, false, time.Minute, ok, 1, nil},
		{
			"nothing is by chance outside the world", "LUCK_ONCE", false, false, time.Minute, failed, 0,
			[]string{"TestOnce/row"},
		},
		{"nor beside clusters", "LUCK_ONCE", false, true, time.Minute, failed, 1, nil},
		{"one for good", "LUCK_NEVER", true, false, time.Minute, failed, 0, []string{"TestNever"}},
		{"one hangs", "LUCK_HANG", true, false, 12 * time.Second, cut, 0, []string{"TestHang"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.env != "" {
				t.Setenv(tt.env, filepath.Join(t.TempDir(), "failed"))
			}
			s := suite{
				name: tt.name, bound: tt.bound, lane: "gate", packages: []string{luck}, world: tt.world, clusters: tt.clusters,
			}
			r, err := s.run(t.Context(), t.TempDir(), time.Now().Add(time.Hour), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			var failures []string
			for _, f := range r.Failures {
				failures = append(failures, f.Test)
			}
			if r.Verdict != tt.verdict || len(r.Flaky) != tt.flaky || !slices.Equal(failures, tt.failures) {
				t.Errorf(
					"verdict %s, flaky %v, failures %v; want %s, %d, %v", r.Verdict, r.Flaky, failures, tt.verdict, tt.flaky,
					tt.failures,
				)
			}
			for _, f := range r.Flaky {
				if f.Test != "TestOnce/row" || !strings.Contains(f.Output, "no luck at first") {
					t.Errorf("flaky: %+v", f)
				}
			}
		})
	}
}

func TestASuiteWithoutTimeIsNotRun(t *testing.T) {
	r, err := suite{name: "late", bound: time.Hour}.run(t.Context(), t.TempDir(), time.Now().Add(time.Minute), t.Output())
	if err != nil || r.Verdict != notRun {
		t.Errorf("verdict %s, error %v", r.Verdict, err)
	}
}

// TestTogether runs two suites of which one waits for the other.
func TestTogether(t *testing.T) {
	atRoot(t)
	t.Setenv("LUCK_MEET", filepath.Join(t.TempDir(), "socket"))
	one := suite{
		name: "one", bound: 5 * time.Minute, lane: "gate", packages: []string{module + "/test/cmd/lanes/testdata/luck"},
		world: true,
	}
	other, alone := one, one
	other.name, other.beside, alone.name = "other", true, "alone"
	got := groups([]suite{one, other, alone})
	if len(got) != 2 || len(got[0]) != 2 || got[1][0].name != "alone" {
		t.Fatalf("groups %v", got)
	}
	rows, err := runTogether(t.Context(), got[0], t.TempDir(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	beside := 0
	for i, r := range rows {
		if r.Verdict != ok || r.Suite != got[0][i].name {
			t.Errorf("%+v", r)
		}
		if r.Beside != "" {
			beside++
		}
	}
	if beside != 1 {
		t.Errorf("%d of two ran beside the other", beside)
	}
}

// TestASuiteThatYields has a lower priority than others.
func TestASuiteThatYields(t *testing.T) {
	atRoot(t)
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LUCK_YIELD", strconv.Itoa(priority))
	for yields, want := range map[bool]string{true: ok, false: failed} {
		s := suite{
			name: "computes", bound: time.Minute, lane: "gate", packages: []string{module + "/test/cmd/lanes/testdata/luck"},
			fresh: true, yields: yields,
		}
		r, err := s.run(t.Context(), t.TempDir(), time.Now().Add(time.Hour), t.Output())
		if err != nil || r.Verdict != want {
			t.Errorf("yields %v: verdict %s, %v", yields, r.Verdict, err)
		}
	}
}

// TestSecondsOfSuitesBesideEachOther: a table adds up to the time that passed.
func TestSecondsOfSuitesBesideEachOther(t *testing.T) {
	var out bytes.Buffer
	show(&out, told([]row{
		{Suite: "e2e", Seconds: 300, Cores: 1.5, Verdict: ok}, {Suite: "worlds", Seconds: 200, Cores: 2, Verdict: ok},
	}))
	for _, want := range []string{"300    1.5", "200    2.0", "worlds ran beside e2e"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &out)
		}
	}
	_, all, _ := strings.Cut(out.String(), "\nall ")
	if fields := strings.Fields(all); len(fields) < 3 || fields[1] != "300" || fields[2] != "1.5" {
		t.Errorf("the sum: %q", all)
	}
}

func TestReadResults(t *testing.T) {
	line := func(action, test string, output ...string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":"p","Test":%q,"Output":%q}`+"\n", action, test, strings.Join(output, ""))
	}
	for _, tt := range []struct {
		name, events string
		want         results
	}{
		{"nothing", "", results{}},
		{"passed and skipped", line("pass", "A") + line("skip", "B") + line("pass", ""), results{Passed: 1, Skipped: 1}},
		{
			"a subtest failed: told once",
			line("output", "A/x", "why\n") + line("fail", "A/x") + line("fail", "A") + line("fail", ""),
			results{Failed: 2, Failures: []failure{{"p", "A/x", "why\n"}}},
		},
		{
			"a subtest passed at the second try",
			line("output", "A/x", "why\n") + line("fail", "A/x") + line("fail", "A") + line("fail", "") +
				line("output", "A/x", "fine\n") + line("pass", "A/x") + line("pass", "A") + line("pass", ""),
			results{Passed: 2, Flaky: []failure{{"p", "A/x", "why\n"}}},
		},
		{
			"a package that does not build", line("output", "", "syntax error\n") + line("fail", ""),
			results{Failed: 1, Failures: []failure{{"p", "", "syntax error\n"}}},
		},
		{
			"one never ended", line("run", "A") + line("output", "A", "waiting\n") + line("pass", "B") + line("fail", ""),
			results{Passed: 1, Failed: 1, Failures: []failure{{"p", "A", "waiting\n(it did not end)\n"}}},
		},
		{
			"a data race", line("output", "A", "======\n") + line("output", "A", "WARNING: DATA RACE\n") +
				line(
					"output", "B", "Write at 0x0\n",
				) + line("output", "A", "======\n") + line("output", "A", "else\n") + line("pass", "A") + line("pass", "B"),
			results{Passed: 2, Races: []string{"WARNING: DATA RACE\nWrite at 0x0\n"}},
		},
		{
			"a data race, cut off", line("output", "A", "WARNING: DATA RACE\n") + line("pass", "A"),
			results{Passed: 1, Races: []string{"WARNING: DATA RACE\n"}},
		},
		{"the last line is cut off", line("pass", "A") + `{"Action":"fai`, results{Passed: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readResults(strings.NewReader(tt.events))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	world, units := suite{name: "w", world: true}, suite{name: "u", clusters: true}
	flaky := func(pkg, test string) row {
		return row{results: results{Passed: 1, Flaky: []failure{{module + pkg, test, ""}}}}
	}
	for _, tt := range []struct {
		name  string
		suite suite
		row   row
		err   error
		want  string
	}{
		{"good", world, row{results: results{Passed: 1}}, nil, ok},
		{"no test was run", world, row{}, nil, failed},
		{"the command failed", world, row{results: results{Passed: 1}}, os.ErrInvalid, failed},
		{"a race", world, row{results: results{Passed: 1, Races: []string{"WARNING"}}}, nil, failed},
		{"chance in the world", world, flaky("/test/suite/e2e", "TestHost/row"), nil, ok},
		{"no chance in the engine", world, flaky("/syncloop", "TestLife"), nil, failed},
		{"nor below it", world, flaky("/syncloop/pleg", "TestRelist"), nil, failed},
		{"nor in the simulated remote", world, flaky("/backend/sim", "TestExec"), nil, failed},
		{"nor in the contract", world, flaky("/backend/cri", "TestContractOverSSH/pods"), nil, failed},
		{"chance in a cluster among units", units, flaky("/provider/identity", "TestRealRotation"), nil, ok},
		{"not beside it", units, flaky("/provider/identity", "TestRotation"), nil, failed},
		{"nor in the engine's", units, flaky("/statusmgr", "TestRealPatch"), nil, failed},
	} {
		if got := tt.suite.verdict(tt.row, tt.err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	one := failure{module + "/test/suite/e2e", "TestHost/row", "the failure, whole\n"}
	for _, r := range []row{
		{Suite: "units", Seconds: 61, Verdict: ok, results: results{Passed: 1700, Skipped: 3}},
		{Suite: "e2e", Seconds: 300, Verdict: ok, results: results{Passed: 200, Flaky: []failure{one, one}}},
	} {
		if err := addRow(path, r); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readRows(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if !show(&out, rows) {
		t.Error("two flaky tests fail the run")
	}
	for _, want := range []string{
		"FLAKY test/suite/e2e TestHost/row", "the failure, whole", "1900 passed, 0 failed, 3 skipped",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, out.String())
		}
	}
	if show(
		&bytes.Buffer{}, append(rows, row{Suite: "install", Verdict: ok, results: results{Passed: 1, Flaky: []failure{one}}}),
	) {
		t.Error("a third flaky test does not fail the run")
	}
	out.Reset()
	show(&out, []row{{Suite: "engine", Verdict: failed, results: results{Races: []string{"WARNING: DATA RACE\nWrite\n"}}}})
	if !strings.Contains(out.String(), "FAIL engine: a data race\nWARNING: DATA RACE\nWrite\n") {
		t.Errorf("a race is not told of:\n%s", out.String())
	}
	for _, verdict := range []string{failed, cut, notRun} {
		if show(&bytes.Buffer{}, append(rows, row{Suite: "install", Verdict: verdict})) {
			t.Errorf("a suite that is %q does not fail the run", verdict)
		}
	}
}

func TestBusy(t *testing.T) {
	for stat, want := range map[string]float64{
		"cpu  100 20 30 9000 800 4 5 6 0 0\ncpu0 1 2 3\n": 1.65,
		"cpu  100 20 30 9000\n":                           0,
		"cpu  100 20 x 9000 800 4 5 6 0 0\n":              0,
		"":                                                0,
	} {
		if got := parseBusy(stat); got != want {
			t.Errorf("%q: %v s, want %v", stat, got, want)
		}
	}
}
