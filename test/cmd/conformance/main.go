// Command conformance runs the Kubernetes project's conformance tests for nodes
// against burstlet; see package test/suite/conformance.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/suite/conformance"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	burstlet, out string
	backend       string
	// task and ecs are built where they are not given.
	task, ecs string
	// kubelet is built for --backend kubelet.
	kubelet string
	run     conformance.Run
	disturb conformance.Disturbance
	verbose bool
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "conformance",
		Short: "Run the conformance tests for nodes against burstlet on a host reached over SSH, or on an ECS of " +
			"the tests",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd, o) },
	}
	cmd.AddCommand(newBuildCommand())
	flags := cmd.Flags()
	flags.StringVar(&o.burstlet, "burstlet", filepath.Join("bin", "burstlet"), "the program under test")
	flags.StringVar(
		&o.backend, "backend", conformance.BackendCRI,
		"where pods run: cri (a host reached over SSH) or ecs (an ECS of the tests that runs containers); "+
			"kubelet: a real one is tested instead of burstlet",
	)
	flags.StringVar(&o.task, "burstlet-task", "", "the in-task binary (default: built; with --backend ecs)")
	flags.StringVar(&o.ecs, "ecs", "", "test/cmd/ecs (default: built; with --backend ecs)")
	flags.StringVar(
		&o.out, "out", filepath.Join("bin", "conformance"), "directory for logs and the JUnit file: each run makes one in it",
	)
	flags.StringVar(&o.run.Focus, "focus", "", "regular expression of the tests to run (default: all)")
	flags.StringVar(&o.run.Skip, "skip", "", "regular expression of tests to leave out")
	flags.StringVar(&o.run.Label, "label", "", "ginkgo's filter of labels (default: NodeConformance)")
	flags.BoolVar(&o.run.Serial, "serial", false, "run the tests that must run alone, instead of all others")
	flags.BoolVar(&o.run.Features, "features", false, "run the tests of features, instead of all others")
	flags.IntVar(&o.run.Procs, "procs", 6, "how many tests run at a time")
	flags.DurationVar(&o.run.Timeout, "timeout", 2*time.Hour, "bound of the run")
	flags.DurationVar(
		&o.disturb.KillEvery, "kill-every", 0, "kill burstlet (SIGKILL) and start it again, over and over (0: never)",
	)
	flags.DurationVar(&o.disturb.CutEvery, "cut-every", 0, "cut the SSH connections over and over (0: never)")
	flags.DurationVar(&o.disturb.CutFor, "cut-for", 5*time.Second, "how long each cut lasts")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print what the suite prints, which is in e2e.log too")
	return cmd
}

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the suite and the programs in its images that are missing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := conformance.BuildPrograms(cmd.Context(), cmd.ErrOrStderr())
			return err
		},
	}
}

func run(cmd *cobra.Command, o options) (err error) {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	dir, err := filepath.Abs(filepath.Join(o.out, time.Now().UTC().Format("20060102-150405")))
	if err != nil {
		return fmt.Errorf("choose directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	program, err := filepath.Abs(o.burstlet)
	if err != nil {
		return fmt.Errorf("find burstlet: %w", err)
	}
	programs, err := conformance.BuildPrograms(ctx, log)
	if err != nil {
		return err
	}
	if err := o.build(ctx, dir, log); err != nil {
		return err
	}
	cluster, err := conformance.StartCluster(ctx, conformance.ClusterConfig{
		Programs: programs, Burstlet: program, Backend: o.backend, Task: o.task, ECS: o.ecs, Kubelet: o.kubelet,
		Dir: dir, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	o.run.Dir = dir
	if o.verbose {
		o.run.Out = log
	}
	began := time.Now()
	undisturbed := cluster.Disturb(ctx, o.disturb)
	report, err := cluster.Run(ctx, o.run)
	if err := errors.Join(err, undisturbed()); err != nil {
		return err
	}
	return o.tell(cmd.OutOrStdout(), dir, report, time.Since(began))
}

// build builds what a run on ECS or of a kubelet needs and was not given.
func (o *options) build(ctx context.Context, dir string, log io.Writer) (err error) {
	if o.backend == conformance.BackendKubelet {
		o.kubelet, err = conformance.BuildKubelet(ctx, log)
		return err
	}
	if o.backend != conformance.BackendECS || o.task != "" && o.ecs != "" {
		return nil
	}
	ecs, task, err := ecsprocess.Build(ctx, dir)
	if err != nil {
		return err
	}
	o.ecs, o.task = cmp.Or(o.ecs, ecs), cmp.Or(o.task, task)
	return nil
}

// tell prints the outcome, and returns an error where something failed.
func (o *options) tell(out io.Writer, dir string, report conformance.Report, took time.Duration) error {
	baseline := o.run.Baseline(o.backend)
	expected := baseline
	var text strings.Builder
	if o.run.Features {
		if o.backend != conformance.BackendKubelet {
			expected = conformance.Expected(baseline)
		}
		fmt.Fprintf(&text, "\nkubelet here    test\n%s", report.Beside(baseline))
	}
	regressions := report.Regressions(expected, o.run.Whole())
	fmt.Fprintf(&text, "\n%d passed, %d failed in %s\n", len(report.Passed), len(report.Failed), took.Round(time.Second))
	list(&text, "failed", report.Failed)
	list(&text, "of those that pass, by the baseline, these did not", regressions)
	fmt.Fprintf(&text, "logs and JUnit: %s\n", dir)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	passed := []byte(strings.Join(report.Passed, "\n") + "\n") // what baselines are made of
	if err := os.WriteFile(filepath.Join(dir, "passed.txt"), passed, 0o600); err != nil {
		return fmt.Errorf("write the names of tests that passed: %w", err)
	}
	switch {
	case len(regressions) > 0:
		return fmt.Errorf("%d tests of the baseline did not pass", len(regressions))
	case len(report.Passed)+len(report.Failed) == 0:
		return errors.New("no test ran")
	}
	return nil
}

func list(text *strings.Builder, title string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(text, "%s:\n", title)
	for _, name := range names {
		fmt.Fprintf(text, "  %s\n", name)
	}
}
