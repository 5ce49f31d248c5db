// Command lanes runs the suites of tests of a lane, one after the other or a few beside each
// other, and prints a table of them with their seconds:
//
//	go run ./test/cmd/lanes lint test gate
//	go run ./test/cmd/lanes all
//
// "make test", "make gate" and "make test-all" call it once what they need is built.
// Package test/kit/lane says what the lanes are; suites.go lists their suites.
//
// Every suite has a bound, and all of them together have one (-budget): what was cut
// off is named. A suite's tests are run by gotestsum. One of the world (containers,
// clusters, clocks; among units, those named TestReal) that fails is run once more,
// whole: when it passes then it is FLAKY, the lane goes on, and its first failure is
// printed whole at the end. More than two such tests fail the lane, and so does one
// where chance has no place: the engine, the contract, a data race.
//
// With -stamp the files of the checkout first get times of modification that are made of their
// content: tests that read some come from Go's cache then, in a new clone too.
//
// With BURSTLET_LANES_REPORT, a file, several calls make one run: each adds its
// suites to the file, has what is left of the budget, and prints the table of all.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// reportEnv names the environment variable that holds the path of the report.
const reportEnv = "BURSTLET_LANES_REPORT"

func main() {
	budget := flag.Duration("budget", 80*time.Minute, "how long the whole run may take; 0: as long as it needs")
	only := flag.String("suites", "", "run only the suites of the lanes whose names this regular expression matches")
	list := flag.Bool("list", false, "print the suites of the lanes and run nothing")
	stamps := flag.Bool("stamp", false, "first give the files of the checkout times made of their content")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: lanes [flags] lint|test|gate|all ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *stamps {
		if err := stamp(ctx, "."); err != nil {
			fmt.Fprintln(os.Stderr, "lanes:", err)
			os.Exit(2) //nolint:gocritic // stop has nothing to end
		}
	}
	good, err := run(ctx, flag.Args(), options{budget: *budget, only: *only, list: *list, report: os.Getenv(reportEnv)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		os.Exit(2)
	}
	if !good {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
