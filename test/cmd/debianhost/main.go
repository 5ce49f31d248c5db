// Command debianhost runs a Debian 13 machine of the tests for people: systemd, version 2
// of cgroups and containerd, to look at and to point burstlet at. See package
// test/parts/debianhost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/test/parts/debianhost"
	"github.com/burstlet/burstlet/test/parts/images"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "debianhost:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "debianhost",
		Short:         "Run a whole Debian 13 machine with systemd and containerd in one process",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(upCommand())
	return root
}

func upCommand() *cobra.Command {
	var (
		cfg     debianhost.Config
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a machine and keep it until Ctrl-C; the first one makes its disk",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if missing := debianhost.Missing(); len(missing) > 0 {
				return fmt.Errorf(
					"packages are missing, install them with tools/real-parts debian-host: %s", strings.Join(missing, " "),
				)
			}
			if verbose {
				cfg.Log = cmd.ErrOrStderr()
			}
			return up(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&cfg.Cgroupfs, "cgroupfs", false, "let containerd make cgroups by hand instead of systemd")
	flags.BoolVarP(&verbose, "verbose", "v", false, "print what the console shows")
	return cmd
}

func up(ctx context.Context, out io.Writer, cfg debianhost.Config) error {
	h, err := debianhost.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err := printHost(out, h); err != nil {
		return errors.Join(err, h.Stop())
	}
	<-ctx.Done()
	return h.Stop()
}

func printHost(out io.Writer, h *debianhost.Host) error {
	address, port, _ := strings.Cut(h.Link().Address(), ":")
	_, err := fmt.Fprintf(out, `%s is ready. In burstlet.yaml:

backend:
  type: cri
  cri:
    endpoint: %s
    ssh:
      keyFiles: [%q]
      knownHostsFile: %q

  images   %s

  ssh -i %s -o UserKnownHostsFile=%s -p %s root@%s

Ctrl-C ends and removes it.
`,
		h.Hostname(), h.Endpoint(), h.KeyFile(), h.KnownHostsFile(), images.BusyboxRef,
		h.KeyFile(), h.KnownHostsFile(), port, address)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
