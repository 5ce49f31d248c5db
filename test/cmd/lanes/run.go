package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/need"
)

// programEnv names the environment variable that holds the path of a built burstlet,
// so that no suite builds one of its own.
const programEnv = "BURSTLET_PROGRAM"

const (
	// cutGrace is what a suite that ran out of time has to tell where it hangs and to
	// end what it started.
	cutGrace = time.Minute
	// killGrace is what is left to it then, after an interrupt.
	killGrace = 20 * time.Second
)

// niceness of a suite that yields: about a tenth of a core is its own where others want it, so
// that the few clusters that it starts go on.
const niceness = "10"

// fewerCollections is a value of GOGC for compilers, linkers and tests: the heaps of most are so small
// that they are collected every few megabytes, a third of the engine's time. What runs a burstlet does
// without, which follows GOGC where it is set.
const fewerCollections = "400"

type options struct {
	budget time.Duration
	only   string
	list   bool
	report string
}

// run runs the suites of the lanes and returns whether all is well.
func run(ctx context.Context, lanes []string, o options) (bool, error) {
	suites, err := chosen(ctx, lanes, o.only)
	if err != nil {
		return false, err
	}
	if o.list {
		return true, list(suites)
	}
	rows, err := readRows(o.report)
	if err != nil {
		return false, err
	}
	deadline := time.Now().Add(o.budget)
	if len(rows) > 0 {
		deadline = rows[0].Started.Add(o.budget)
	}
	if o.budget == 0 {
		deadline = time.Now().Add(24 * time.Hour)
	}
	dir, err := os.MkdirTemp("", "burstlet-lanes-")
	if err != nil {
		return false, fmt.Errorf("make a directory for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left there does no harm

	// lint may have been run by an earlier call, or for another lane.
	suites = slices.DeleteFunc(suites, func(s suite) bool {
		return s.command != nil && slices.ContainsFunc(rows, func(r row) bool { return r.Suite == s.name && r.Verdict == ok })
	})
	for _, together := range groups(suites) {
		ran, err := runTogether(ctx, together, dir, deadline)
		if err != nil {
			return false, err
		}
		for _, r := range ran {
			if err := addRow(o.report, r); err != nil {
				return false, err
			}
		}
		if rows = append(rows, ran...); ctx.Err() != nil {
			break
		}
	}
	return show(os.Stdout, rows), ctx.Err()
}

// chosen returns the suites of the lanes that have something to run.
func chosen(ctx context.Context, lanes []string, only string) ([]suite, error) {
	if len(lanes) == 0 {
		return nil, errors.New("name a lane: lint, test, gate or all")
	}
	named, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("read -suites: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	all := strings.Fields(string(out))
	var suites []suite
	for _, name := range lanes {
		more, err := suitesOf(name, all)
		if err != nil {
			return nil, err
		}
		if name == "gate" || name == "all" {
			if err := checkAll(more, all); err != nil {
				return nil, fmt.Errorf("lane %s: %w", name, err)
			}
		}
		for _, s := range more {
			if named.MatchString(s.name) {
				suites = append(suites, s)
			}
		}
	}
	return suites, nil
}

func list(suites []suite) error {
	for _, s := range suites {
		what := strings.Join(s.command, " ")
		if s.command == nil {
			what = fmt.Sprintf("%d packages, lane %s", len(s.packages), s.lane)
		}
		if _, err := fmt.Printf("%-30s at most %-6s %s\n", s.name, s.bound, what); err != nil {
			return err
		}
	}
	return nil
}

// run runs the suite, with dir to itself, and says what became of it. An error is one of
// this command.
func (s suite) run(ctx context.Context, dir string, deadline time.Time, out io.Writer) (row, error) {
	r := row{Suite: s.name, Started: time.Now(), Verdict: ok}
	if _, err := fmt.Fprintf(out, "\n=== %s\n", s.name); err != nil {
		return r, fmt.Errorf("print the suite's name: %w", err)
	}
	bound := min(s.bound, time.Until(deadline)-cutGrace-killGrace)
	if bound < 10*time.Second {
		r.Verdict = notRun
		_, err := fmt.Fprintln(out, "the time of this run is over")
		return r, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, fmt.Errorf("make a directory for the suite: %w", err)
	}
	events := filepath.Join(dir, "events.json")
	if err := os.WriteFile(events, nil, 0o600); err != nil {
		return r, fmt.Errorf("make a file of events: %w", err)
	}
	argv, env := s.command, os.Environ()
	if argv == nil {
		var err error
		if env, err = s.environment(ctx, dir); err != nil {
			return r, err
		}
		argv = s.argv(bound, events)
	}
	if s.yields {
		argv = append([]string{"nice", "-n", niceness}, argv...)
	}
	within, cancel := context.WithTimeout(ctx, bound+cutGrace)
	defer cancel()
	cmd := exec.CommandContext(within, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	// What is cut off goes with all that it started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = killGrace
	started, before := time.Now(), busySeconds()
	err := cmd.Run()
	if within.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what did not heed the interrupt
	}
	// Without what was compiled before the suite.
	ran := time.Since(started).Seconds()
	r.Cores = (busySeconds() - before) / ran
	r.Seconds = time.Since(r.Started).Seconds()

	f, openErr := os.Open(events)
	if openErr != nil {
		return r, fmt.Errorf("read events: %w", openErr)
	}
	var readErr error
	r.results, readErr = readResults(f)
	if readErr = errors.Join(readErr, f.Close()); readErr != nil {
		return r, readErr
	}
	r.Verdict = s.verdict(r, err)
	if within.Err() != nil || r.Verdict == failed && time.Since(r.Started) >= bound {
		r.Verdict = cut
		_, err = fmt.Fprintf(out, "%s: cut off after %s\n", s.name, time.Since(r.Started).Round(time.Second))
		return r, err
	}
	return r, nil
}

// verdict judges a suite that ended with err.
func (s suite) verdict(r row, err error) string {
	switch {
	case err != nil, r.Failed > 0, len(r.Races) > 0:
		return failed
	case s.command == nil && r.Passed == 0:
		return failed // nothing was run
	case slices.ContainsFunc(r.Flaky, func(f failure) bool { return !byChance(s, f.Package, f.Test) }):
		return failed
	}
	return ok
}

// argv is the command that runs the suite's tests.
func (s suite) argv(bound time.Duration, events string) []string {
	argv := []string{
		"go", "tool", "-modfile=tools/gotestsum/go.mod", "gotestsum",
		"--format=pkgname-and-test-fails", "--format-hide-empty-pkg", "--hide-summary=skipped,output", "--jsonfile=" + events,
	}
	if s.world || s.clusters { // a test is repeated whole: its subtests may need each other
		argv = append(argv, "--rerun-fails=1", "--rerun-fails-run-root-test",
			fmt.Sprintf("--rerun-fails-max-failures=%d", maxFlaky), "--rerun-fails-abort-on-data-race")
	}
	// "make lint" vets all packages, once, and not anew for each of several builds.
	argv = append(argv, "--packages="+strings.Join(s.packages, " "), "--", "-vet=off",
		"-timeout="+bound.Round(time.Second).String())
	if s.race {
		argv = append(argv, "-race")
	}
	if s.shuffle {
		argv = append(argv, "-shuffle=on")
	}
	if s.packagesAtOnce > 0 {
		argv = append(argv, fmt.Sprintf("-p=%d", s.packagesAtOnce))
	}
	if s.testsAtOnce > 0 {
		argv = append(argv, fmt.Sprintf("-parallel=%d", s.testsAtOnce))
	}
	if s.fresh || s.world && !s.kept {
		argv = append(argv, "-count=1")
	}
	if s.skip != "" {
		argv = append(argv, "-skip="+s.skip)
	}
	return argv
}

// environment is that of the suite's tests, with a burstlet for those that run one.
func (s suite) environment(ctx context.Context, dir string) ([]string, error) {
	env := append(os.Environ(), lane.Env+"="+s.lane)
	if s.kept {
		state, err := machine()
		if err != nil {
			return nil, err
		}
		env = append(env, need.MachineEnv+"="+state)
	}
	if s.race {
		env = append(env, "CGO_ENABLED=1") // the race detector needs it
		// A process with the detector sleeps for a second before it ends, by default.
		env = unlessSet(env, "GORACE", "atexit_sleep_ms=50")
	}
	if !s.program {
		return unlessSet(env, "GOGC", fewerCollections), nil
	}
	program := filepath.Join(dir, "burstlet")
	args, cgo := []string{"build", "-o"}, "CGO_ENABLED=0"
	if s.raced {
		program += "-race"
		args, cgo = []string{"build", "-race", "-o"}, "CGO_ENABLED=1"
	}
	build := exec.CommandContext(ctx, "go", append(args, program, "./cmd/burstlet")...)
	build.Env = unlessSet(append(os.Environ(), cgo), "GOGC", fewerCollections)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build burstlet: %w\n%s", err, out)
	}
	return append(env, programEnv+"="+program), nil
}

// unlessSet returns env with that value, unless the user has set another.
func unlessSet(env []string, name, value string) []string {
	if _, set := os.LookupEnv(name); set {
		return env
	}
	return append(env, name+"="+value)
}
