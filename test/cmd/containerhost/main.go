// Command containerhost runs a container host of the tests for people: a real
// containerd in namespaces of its own, to look at and to try a client on. See
// package test/parts/containerhost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/test/parts/containerhost"
	"github.com/burstlet/burstlet/test/parts/images"
)

// stopTimeout bounds the removal of what ran on the host.
const stopTimeout = 3 * time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "containerhost:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "containerhost",
		Short:         "Run a containerd apart from this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(upCommand())
	return root
}

func upCommand() *cobra.Command {
	var (
		cfg     containerhost.Config
		subnet  string
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a host and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if missing := containerhost.Missing(); len(missing) > 0 {
				return fmt.Errorf("packages are missing, install them with: apt-get install %s", strings.Join(missing, " "))
			}
			if subnet != "" {
				var err error
				if cfg.Subnet, err = netip.ParsePrefix(subnet); err != nil {
					return fmt.Errorf("parse --subnet: %w", err)
				}
			}
			if verbose {
				cfg.Log = cmd.ErrOrStderr()
			}
			return up(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.StateDir, "state-dir", "", "empty or missing directory for all that the host and this machine share (default: a new one)")
	flags.StringVar(&subnet, "subnet", "", "IPv4 network of the pods (default: a free /24 of 198.18.0.0/16)")
	flags.BoolVar(&cfg.Linked, "linked", true, "make pods, exec, attach and port-forward reachable from this machine")
	flags.BoolVarP(&verbose, "verbose", "v", false, "print containerd's log")
	return cmd
}

func up(ctx context.Context, out io.Writer, cfg containerhost.Config) error {
	host, err := containerhost.Start(ctx, cfg)
	if err != nil {
		return err
	}
	err = printHints(out, host)
	if err == nil {
		<-ctx.Done()
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, host.Stop(stop))
}

func printHints(out io.Writer, host *containerhost.Host) error {
	socket := host.Socket()
	_, err := fmt.Fprintf(out, `containerd is ready.

  socket   %s
  logs     %s
  volumes  %s
  pods     %s
  images   %s

  crictl --runtime-endpoint %s pods
  ctr --address %s --namespace k8s.io containers list
  nsenter --target %d --mount --net --uts --pid    # a shell in the host

Ctrl-C ends it and removes everything.
`, socket, host.LogRoot(), host.Shared(), host.Subnet(), images.BusyboxRef,
		socket, strings.TrimPrefix(socket, "unix://"), host.Pid())
	if err != nil {
		return fmt.Errorf("print hints: %w", err)
	}
	return nil
}
