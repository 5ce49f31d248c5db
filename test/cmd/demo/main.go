package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, force, stop := onSignals()
	err := newCommand(force).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nerror:", err)
		os.Exit(1)
	}
}

// onSignals returns a context that the first signal ends, for an orderly end,
// and one that the second ends, so that nothing is waited for any more. A third
// kills the process; the kernel then ends its children.
func onSignals() (ctx, force context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	force, cancelForce := context.WithCancel(context.Background())
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, end := range []func(){cancel, cancelForce} {
			select {
			case <-signals:
				end()
			case <-stopped:
				return
			}
		}
		signal.Stop(signals)
	}()
	return ctx, force, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancel()
		cancelForce()
	}
}

// newCommand returns the program. When force ends, the programs it started are
// killed instead of asked.
func newCommand(force context.Context) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Show burstlet at work on this machine, with a control plane and containers of its own",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.once, "once", false, "end by itself; the exit status says whether all went well (also $ONCE=1)")
	flags.BoolVar(
		&opts.onMine, "mine", false,
		"use the cluster of kubectl's current context, after asking, and remove all that was made there",
	)
	flags.BoolVar(&opts.yes, "yes", false, "do not ask (with --mine; --once does not ask either)")
	flags.StringVar(
		&opts.address, "address", "",
		"IP address at which the API server reaches this machine (with --mine; default: the one from which this machine "+
			"reaches it)",
	)
	flags.BoolVar(&opts.simulated, "simulated", false, "use the simulated backend even as root")
	flags.BoolVar(
		&opts.ecs, "ecs", false,
		"use the ECS backend, on an ECS of the tests: it runs containers as root, and else only answers",
	)
	flags.StringVar(
		&opts.programs.ecs, "ecs-program", "", "test/cmd/ecs to run (default: build one, which needs the checkout)",
	)
	flags.StringVar(
		&opts.programs.task, "burstlet-task", "", "in-task binary (default: build one, which needs the checkout)",
	)
	flags.StringVar(
		&opts.burstlet, "burstlet", "", "burstlet program to run (default: build one, which needs the checkout)",
	)
	flags.BoolVar(
		&opts.build, "build", false,
		"build the program that --burstlet names first, side by side with all else that is missing",
	)
	flags.StringVar(&opts.ldflags, "ldflags", "", "linker flags for --build")
	cmd.MarkFlagsMutuallyExclusive("simulated", "ecs")
	cmd.MarkFlagsMutuallyExclusive("mine", "ecs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if value := os.Getenv("ONCE"); value != "" && !flags.Changed("once") {
			once, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("read $ONCE: %q is neither 1 nor 0", value)
			}
			opts.once = once
		}
		opts.root = os.Geteuid() == 0
		opts.in, opts.terminal = os.Stdin, isTerminal(os.Stdin)
		return newDemo(opts, newScreen(cmd.OutOrStdout())).run(cmd.Context(), force)
	}
	return cmd
}
