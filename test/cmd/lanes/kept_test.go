package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestKept: tests of the world whose results are kept run once, and again when something else
// is installed; others run each time.
func TestKept(t *testing.T) {
	atRoot(t)
	installed := filepath.Join(t.TempDir(), "installed")
	install := func(what string) {
		if err := os.WriteFile(installed, []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := stateFiles
	stateFiles = []string{installed}
	t.Cleanup(func() { stateFiles = files })
	for kept, want := range map[bool][]int64{true: {1, 1, 2}, false: {1, 2, 3}} {
		counted := filepath.Join(t.TempDir(), "count")
		t.Setenv("LUCK_COUNT", counted)
		s := suite{
			name: "of the world", bound: time.Minute, lane: "gate", world: true, kept: kept,
			packages: []string{module + "/test/cmd/lanes/testdata/luck"},
		}
		for i, packages := range []string{"containerd 1.6", "containerd 1.6", "containerd 1.7"} {
			install(packages)
			r, err := s.run(t.Context(), t.TempDir(), time.Now().Add(time.Hour), t.Output())
			if err != nil || r.Verdict != ok {
				t.Fatalf("%s: %s, %v", packages, r.Verdict, err)
			}
			info, err := os.Stat(counted)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() != want[i] {
				t.Errorf("kept %v, %s: it ran %d times, want %d", kept, packages, info.Size(), want[i])
			}
		}
	}
}

// TestKeptSuitesBuildNothing: what is kept must not depend on a program that its tests build
// of this tree, which go does not know of, and must have told go of what is installed.
func TestKeptSuitesBuildNothing(t *testing.T) {
	atRoot(t)
	all := packagesOf(t, "./...")
	for _, lane := range []string{"test", "gate", "all"} {
		suites, err := suitesOf(lane, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range suites {
			if !s.kept {
				continue
			}
			if !s.world || s.fresh || s.program {
				t.Errorf("lane %s, suite %q: only tests of the world that run no burstlet are kept", lane, s.name)
			}
			for _, path := range s.packages {
				deps := packagesOf(t, "-deps", "-test", path)
				for _, builds := range []string{
					"test/kit/launch", "test/fakeaws/ecsprocess", "test/parts/burstletimage", "test/world",
				} {
					builds = module + "/" + builds
					if slices.ContainsFunc(deps, func(dep string) bool {
						return dep == builds || strings.HasPrefix(dep, builds+"/")
					}) {
						t.Errorf("lane %s, suite %q: %s uses %s, which builds programs", lane, s.name, path, builds)
					}
				}
				installed := slices.Contains(deps, module+"/test/parts/remotehost") ||
					slices.Contains(deps, module+"/test/parts/controlplane")
				if installed && !slices.Contains(deps, module+"/test/kit/need") {
					t.Errorf("lane %s, suite %q: %s does not tell go what is installed", lane, s.name, path)
				}
			}
		}
	}
}

func packagesOf(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestTheGateTakesUnitsFromTheCache: of the units that make test has run, the gate runs those
// that ask for their lane, and no others.
func TestTheGateTakesUnitsFromTheCache(t *testing.T) {
	atRoot(t)
	packages := packagesOf(t, "./...")
	of := func(lane string) (suite, []string) {
		suites, err := suitesOf(lane, packages)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == "units" })
		if i < 0 {
			t.Fatalf("lane %s has no units", lane)
		}
		s := suites[i]
		return s, slices.DeleteFunc(s.argv(s.bound, "events"), func(arg string) bool { return strings.HasPrefix(arg, "--packages=") })
	}
	first, argv := of("test")
	again, argvAgain := of("gate")
	if diff := cmp.Diff(argv, argvAgain); diff != "" {
		t.Errorf("go test is run with other arguments, and so takes no result of make test (-test +gate):\n%s", diff)
	}
	for _, path := range again.packages {
		if !slices.Contains(first.packages, path) {
			t.Errorf("%s is of the gate's units only: its results are in no cache", path)
		}
	}
}

// TestSkippedTestsAreRunBefore: what a suite leaves out stands in the faster lane, and whole: it
// does not ask for its lane itself.
func TestSkippedTestsAreRunBefore(t *testing.T) {
	atRoot(t)
	all := packagesOf(t, "./...")
	suites, err := suitesOf("gate", all)
	if err != nil {
		t.Fatal(err)
	}
	before, err := suitesOf("test", all)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`^\^\(([A-Za-z0-9|]+)\)\$$`)
	for _, s := range suites {
		if s.skip == "" {
			continue
		}
		of := names.FindStringSubmatch(s.skip)
		if of == nil || len(s.packages) != 1 {
			t.Errorf("suite %q skips %q of %v: want ^(names)$ of one package", s.name, s.skip, s.packages)
			continue
		}
		if !slices.ContainsFunc(before, func(b suite) bool {
			return slices.Contains(b.packages, s.packages[0]) && b.skip == "" && b.race == s.race && b.raced == s.raced
		}) {
			t.Errorf("suite %q: no suite of the test lane runs %s", s.name, s.packages[0])
		}
		source := testSource(t, strings.TrimPrefix(s.packages[0], module+"/"))
		for name := range strings.SplitSeq(of[1], "|") {
			_, body, found := strings.Cut(source, "\nfunc "+name+"(t *testing.T) {\n")
			body, _, _ = strings.Cut(body, "\n}\n")
			if !found || strings.Contains(body, "lane.") {
				t.Errorf("suite %q skips %s: it is no test there, or not one of the test lane", s.name, name)
			}
		}
	}
}

// testSource is all that the files of tests in a directory say.
func testSource(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(data)
	}
	return source.String()
}
