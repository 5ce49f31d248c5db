// Command remotehost runs remote hosts of the tests for people: sshd and a real
// containerd on hosts of their own, to look at and to point burstlet at. See
// package test/parts/remotehost.
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
	"time"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	// stopTimeout bounds the removal of the hosts.
	stopTimeout = 3 * time.Minute

	// What each host's own registry has, and what opens its private part.
	registryName = "pull.burstlet.test"
	publicImage  = registryName + "/busybox:1"
	privateImage = registryName + "/private/busybox:1"
	registryUser = "puller"
	registryPass = "open-sesame"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "remotehost:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "remotehost",
		Short:         "Run hosts with sshd and containerd apart from this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(upCommand())
	return root
}

// options are what the flags say.
type options struct {
	hosts int
	delay time.Duration
	user  string
	cfg   remotehost.Config
}

func upCommand() *cobra.Command {
	var (
		o       options
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start hosts and keep them until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if missing := remotehost.Missing(); len(missing) > 0 {
				return fmt.Errorf("packages are missing, install them with: apt-get install %s", strings.Join(missing, " "))
			}
			if o.hosts < 1 {
				return fmt.Errorf("--hosts %d: at least 1", o.hosts)
			}
			if o.user != remotehost.Root && o.user != remotehost.Burst {
				return fmt.Errorf("--user %s: %s or %s", o.user, remotehost.Root, remotehost.Burst)
			}
			if verbose {
				o.cfg.Log = cmd.ErrOrStderr()
			}
			return up(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&o.hosts, "hosts", "n", 1, "number of hosts")
	flags.DurationVar(&o.delay, "delay", 0, "time that everything on the way to a host takes longer, each way")
	flags.StringVar(&o.user, "user", remotehost.Root, "who logs in in what is printed: root, or burst with sudo")
	flags.StringArrayVar(
		&o.cfg.SSHDOptions, "sshd-option", nil, `line of sshd_config, as in "MaxSessions 2"; may be repeated`,
	)
	flags.BoolVar(&o.cfg.NoSudo, "no-sudo", false, "keep sudo from the user burst")
	flags.StringVar(
		(*string)(&o.cfg.Containerd), "containerd", "",
		"version of containerd: 1.7 or 2, which are built, or the machine's own",
	)
	flags.BoolVarP(&verbose, "verbose", "v", false, "print the log of sshd and containerd")
	return cmd
}

func up(ctx context.Context, out io.Writer, o options) error {
	var running []*remotehost.Host
	err := start(ctx, out, o, func(h *remotehost.Host) { running = append(running, h) })
	if err == nil {
		<-ctx.Done()
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, h := range running {
		err = errors.Join(err, h.Stop(stop))
	}
	return err
}

// start starts the hosts and prints what is needed to use them.
func start(ctx context.Context, out io.Writer, o options, started func(*remotehost.Host)) error {
	store, err := fillRegistry()
	if err != nil {
		return err
	}
	for range o.hosts {
		h, err := remotehost.Start(ctx, o.cfg)
		if err != nil {
			return err
		}
		started(h)
		if err := h.ServeRegistry(ctx, registryName, store); err != nil {
			return err
		}
		h.Link().Delay(o.delay)
		if err := printHost(out, h, o.user); err != nil {
			return err
		}
	}
	return printLine(out, "Ctrl-C ends and removes everything.\n")
}

func fillRegistry() (*registry.Registry, error) {
	image, err := images.Busybox()
	if err != nil {
		return nil, err
	}
	store := registry.New(registry.Private{Prefix: "private/", User: registryUser, Password: registryPass})
	return store, store.Push(image, publicImage, privateImage)
}

// section is what burstlet's configuration file says to use a host.
func section(h *remotehost.Host, user string) string {
	return fmt.Sprintf(`backend:
  type: cri
  cri:
    endpoint: %s
    ssh:
      keyFiles: [%q]
      knownHostsFile: %q
`, h.EndpointOf(user), h.KeyFile(), h.KnownHostsFile())
}

func printHost(out io.Writer, h *remotehost.Host, user string) error {
	address, port, _ := strings.Cut(h.Link().Address(), ":")
	return printLine(out, fmt.Sprintf(`%s is ready. In burstlet.yaml:

%s
  images   %s
           %s
           %s (%s:%s)

  ssh -i %s -o UserKnownHostsFile=%s -p %s %s@%s
  nsenter --target %d --all    # a shell in it, past SSH

`, h.Hostname(), section(h, user),
		images.BusyboxRef, publicImage, privateImage, registryUser, registryPass,
		h.KeyFile(), h.KnownHostsFile(), port, user, address, h.Pid()))
}

func printLine(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
