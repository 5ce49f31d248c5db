package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// module is the path of this project's module.
const module = "github.com/burstlet/burstlet"

// suite is what runs as one: a command, or tests of packages.
type suite struct {
	name string
	// bound is how long it may take.
	bound time.Duration

	// command is run as it is; nil: tests of packages are run.
	command []string

	packages []string // import paths
	lane     string
	race     bool
	shuffle  bool
	// packagesAtOnce is how many packages run at once, and testsAtOnce how many parallel
	// tests of each; 0: as many as there are cores. Tests that wait leave cores to others.
	packagesAtOnce, testsAtOnce int
	// fresh takes no result from go's cache: the tests run programs that are built of
	// this tree, or let programs read it, and go knows nothing of that.
	fresh bool
	// world says that its tests depend on containers, clusters or clocks: one that
	// fails may have failed by chance. They are fresh, unless kept.
	world bool
	// kept takes results from go's cache though the tests are of the world: they run no
	// program of this tree but those that they embed, and what they run besides is what is
	// installed, which they have told go of ([need.Machine]).
	kept bool
	// skip is a regular expression for tests that an earlier lane has run, just the same.
	skip string
	// clusters says that some of its tests, those whose names begin with TestReal, run a
	// cluster: they are of the world, and the others are not.
	clusters bool
	// program says that they run a burstlet, which is built once; raced, that it looks
	// for data races.
	program, raced bool
	// beside says that the suite runs at the same time as the one before it: one of them, or
	// each, waits for containers and clusters most of its time.
	beside bool
	// yields says that it only computes: the cores are first for the suite that it runs
	// beside, whose tests know clocks.
	yields bool
}

var (
	// engine are the packages in which the race detector can find something, but for those of
	// them that are sequential. Those of the tests themselves wait for real parts, and are
	// clients that poll. cmd/burstlet/config has no goroutines.
	engine = regexp.MustCompile(`^(syncloop|statusmgr|provider|backend)(/|$)|^cmd/[^/]+(/(backends|doctor|explain))?$`)
	// backends are those of them whose tests need no cluster, and run beside the contract.
	backends = regexp.MustCompile(`^backend(/|$)`)
	// worlds are packages whose tests start clusters or hosts of containers.
	worlds = regexp.MustCompile(
		`^test/(suite/(differential|e2e|install|monitoring|conformance)|world/|` +
			`parts/(burstletimage|controlplane|debianhost|kubelet|remotehost)|` +
			`fakeaws/(ecsprocess|ecsrun)|cmd/(debianhost|demo|ecs|remotehost))`,
	)
	// parts are those of them that run no burstlet, and nothing that is built of this tree
	// while they run.
	parts = regexp.MustCompile(`^test/(parts/(controlplane|debianhost|kubelet|remotehost)|fakeaws/ecsrun$)`)
	// made are packages whose tests build images, and render the chart.
	made = regexp.MustCompile(`^(tools/image|test/suite/chart|test/parts/binaries|test/cmd/lanes)$`)
	// contract holds backend/cri, most of whose time goes into the contract on real
	// containers.
	contract = regexp.MustCompile(`^backend/cri$`)
)

// suitesOf returns the suites of a lane; all are the import paths of this module.
func suitesOf(name string, all []string) ([]suite, error) {
	pick := func(yes *regexp.Regexp, no ...*regexp.Regexp) []string {
		return slices.DeleteFunc(slices.Clone(all), func(path string) bool {
			path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			return !yes.MatchString(path) || slices.ContainsFunc(no, func(r *regexp.Regexp) bool { return r.MatchString(path) })
		})
	}
	every := regexp.MustCompile("")
	is := func(pattern string) []string { return pick(regexp.MustCompile("^" + pattern + "$")) }
	lint := suite{name: "lint", bound: 15 * time.Minute, command: []string{"make", "--no-print-directory", "lint"}}
	switch name {
	case "lint":
		return []suite{lint}, nil
	case "test":
		return []suite{
			// All beside each other: the first two wait for containers, and the units compute.
			{
				name: "pods over SSH", lane: "test", bound: 20 * time.Minute, world: true, program: true,
				packages: is("test/suite/e2e"),
			},
			{
				name: "contract over SSH", lane: "test", bound: 20 * time.Minute, world: true, kept: true,
				packages: is("backend/cri"), beside: true,
			},
			{
				name: "units", lane: "test", bound: unitsBound, clusters: true,
				packages: longestFirst(pick(every, worlds, contract, made)), packagesAtOnce: 4, testsAtOnce: 6,
				beside: true, yields: true,
			},
		}, nil
	case "gate":
		plain, err := sequential(pick(engine, contract))
		if err != nil {
			return nil, err
		}
		raced := func(yes *regexp.Regexp, no ...*regexp.Regexp) []string {
			found := pick(yes, append(no, contract)...)
			return slices.DeleteFunc(found, func(path string) bool { return slices.Contains(plain, path) })
		}
		return []suite{
			lint,
			{name: "image and chart", lane: "gate", bound: 10 * time.Minute, packages: pick(made), fresh: true},
			{
				name: "contract over SSH, -race", lane: "gate", bound: 15 * time.Minute, packages: is("backend/cri"), race: true,
				world: true, kept: true, beside: true,
			},
			{
				name: "units", lane: "gate", bound: unitsBound, clusters: true,
				packages: append(pick(every, worlds, engine, made), plain...), packagesAtOnce: 4, testsAtOnce: 6,
				beside: true, yields: true,
			},
			{
				name: "backends, -race", lane: "gate", bound: 20 * time.Minute, race: true, clusters: true,
				packages: longestFirst(raced(backends)), packagesAtOnce: 4, testsAtOnce: 6,
				beside: true, yields: true,
			},
			{
				name: "worlds", lane: "gate", bound: 25 * time.Minute, world: true, program: true,
				packages: longestFirst(pick(worlds, regexp.MustCompile(`^test/suite/e2e$`), parts)), packagesAtOnce: 3, testsAtOnce: 6,
			},
			{
				name: "parts", lane: "gate", bound: 25 * time.Minute, world: true, kept: true,
				packages: pick(parts), packagesAtOnce: 1, testsAtOnce: 6, beside: true,
			},
			{
				name: "engine, -race", lane: "gate", bound: 25 * time.Minute, race: true, clusters: true,
				packages: longestFirst(raced(engine, backends)), packagesAtOnce: 4, testsAtOnce: 6,
				beside: true, yields: true,
			},
			{
				// Seven minutes, three times as long on the slowest machine that was seen.
				name: "e2e", lane: "gate", bound: 40 * time.Minute, packages: is("test/suite/e2e"), world: true, program: true,
				skip: "^(TestHost|TestRights)$",
			},
		}, nil
	case "all":
		makes := func(target string, bound time.Duration, more ...string) suite {
			return suite{
				name: strings.Join(append([]string{target}, more...), " "), bound: bound,
				command: append([]string{"make", "--no-print-directory", target}, more...),
			}
		}
		return []suite{
			lint,
			{
				name: "units, -race", lane: "all", bound: 90 * time.Minute, race: true, shuffle: true, fresh: true, clusters: true,
				packages: pick(every, worlds, contract),
			},
			{
				name: "worlds, -race", lane: "all", bound: 3 * time.Hour, packagesAtOnce: 1, race: true, shuffle: true, world: true,
				program: true, raced: true,
				packages: append(is("backend/cri"), pick(worlds)...),
			},
			makes("breakages", time.Hour),
			makes("chaos", 2*time.Hour),
			makes("soak", time.Hour),
			makes("versions", 3*time.Hour),
			makes("conformance", 90*time.Minute),
			makes("conformance", 90*time.Minute, "BACKEND=ecs"),
			makes("bench", 3*time.Hour),
		}, nil
	}
	return nil, fmt.Errorf("no lane %q: want lint, test, gate or all", name)
}

// unitsBound is the same for the units of both lanes: go takes results from its cache for tests
// with the same bound only.
const unitsBound = 25 * time.Minute

// longest are packages that take a minute or more, the longest first.
var longest = []string{
	"cmd/burstlet", "provider/identity", "syncloop", "backend/ecs",
	"test/cmd/demo", "test/suite/install", "test/suite/conformance", "test/suite/monitoring",
}

// longestFirst puts them before the others: go test begins packages in their order, and
// none of them should run alone in the end.
func longestFirst(packages []string) []string {
	rank := func(path string) int {
		if i := slices.Index(longest, strings.TrimPrefix(path, module+"/")); i >= 0 {
			return i
		}
		return len(longest)
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
	return packages
}

// checkAll finds packages that no suite of a lane runs, or several: a package that is
// moved or new must not fall out of the gate.
func checkAll(suites []suite, all []string) error {
	times := map[string]int{}
	for _, s := range suites {
		if s.command == nil && len(s.packages) == 0 {
			return fmt.Errorf("suite %q has no packages: were they moved?", s.name)
		}
		for _, path := range s.packages {
			times[path]++
		}
	}
	for _, path := range all {
		if times[path] != 1 {
			return fmt.Errorf("%d suites run the tests of %s, want one: see test/cmd/lanes/suites.go", times[path], path)
		}
	}
	return nil
}

// byChance says that a failure of this test may be one of the machine: it is one of
// the world, and not one of the contract, which must hold on every machine.
func byChance(s suite, pkg, test string) bool {
	ofTheWorld := s.world || s.clusters && strings.HasPrefix(test, "TestReal")
	if !ofTheWorld || strings.Contains(test, "Contract") {
		return false
	}
	for _, never := range []string{"/syncloop", "/statusmgr", "/backend/sim", "/backend/backendtest"} {
		if rest, ok := strings.CutPrefix(pkg, module+never); ok && (rest == "" || rest[0] == '/') {
			return false
		}
	}
	return true
}
