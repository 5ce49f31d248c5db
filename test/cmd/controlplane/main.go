// Command controlplane builds and runs the control plane that the tests use;
// see package test/parts/controlplane.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var cacheDir string
	cmd := &cobra.Command{
		Use:           "controlplane",
		Short:         "A real Kubernetes control plane on this machine, for tests and for people",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&cacheDir, "cache-dir", "",
		"where the programs are kept (default: the pinned versions' directory under $"+binaries.CacheEnv+
			" or the user's cache directory)")
	cmd.AddCommand(newBuildCommand(&cacheDir), newUpCommand(&cacheDir), newPinCommand())
	return cmd
}

func newBuildCommand(cacheDir *string) *cobra.Command {
	var all, runtimes, versions bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the programs that are missing and print their paths",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := binaries.NewCache(binaries.CacheConfig{Dir: *cacheDir, Log: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			var beside []binaries.Tool
			if all {
				beside = []binaries.Tool{
					binaries.MetricsServer, binaries.Kubelet, binaries.KubeProxy, binaries.CoreDNS, binaries.Helm,
				}
				beside = append(beside, binaries.Containerd2Tools()...)
			}
			if runtimes {
				beside = slices.Concat(beside, binaries.Containerd17Tools(), binaries.Containerd2Tools())
			}
			if versions {
				beside = slices.AppendSeq(beside, maps.Values(binaries.OtherKubernetes()))
			}
			tools, err := controlplane.Tools()
			if err != nil {
				return err
			}
			if err := cache.BuildAll(cmd.Context(), slices.Concat(tools, beside)...); err != nil {
				return err
			}
			b, err := controlplane.FindBinaries(cmd.Context(), *cacheDir)
			if err != nil {
				return err
			}
			paths := []string{b.Etcd, b.APIServer, b.ControllerManager, b.Scheduler, b.Kubectl}
			for _, tool := range beside {
				path, err := cache.Lookup(tool)
				if err != nil {
					return err
				}
				paths = append(paths, path)
			}
			return printLines(cmd.OutOrStdout(), paths...)
		},
	}
	cmd.Flags().BoolVar(
		&all, "all", false, "also what the tests of the gate start beside a control plane: a kubelet and Helm, for example",
	)
	cmd.Flags().BoolVar(&runtimes, "runtimes", false, "also containerd in the versions that hosts of the tests can have")
	cmd.Flags().BoolVar(&versions, "versions", false, "also the API servers of other versions of Kubernetes")
	return cmd
}

func newUpCommand(cacheDir *string) *cobra.Command {
	var cfg controlplane.Config
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane, print its KUBECONFIG and stay until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd, *cacheDir, cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.StateDir, "state-dir", "",
		"empty or missing directory for data, keys and logs (default: a temporary one, removed at the end)")
	flags.StringVar(&cfg.BindAddress, "bind-address", "", "IP the API server listens on (default 127.0.0.1)")
	flags.StringVar(&cfg.AdvertiseAddress, "advertise-address", "",
		"IP at which pods reach the API server (default: the bind address when that is one address)")
	flags.StringSliceVar(&cfg.APIServerHosts, "host", nil, "further names and IPs for the API server's certificate")
	flags.BoolVar(
		&cfg.VerifyKubelets, "verify-kubelets", false, "verify kubelets' serving certificates against the cluster's CA",
	)
	flags.StringArrayVar(&cfg.APIServerArgs, "apiserver-arg", nil, "further flag of kube-apiserver, may be repeated")
	flags.StringArrayVar(
		&cfg.ControllerManagerArgs, "controller-manager-arg", nil, "further flag of kube-controller-manager, may be repeated",
	)
	flags.StringArrayVar(&cfg.SchedulerArgs, "scheduler-arg", nil, "further flag of kube-scheduler, may be repeated")
	return cmd
}

func up(cmd *cobra.Command, cacheDir string, cfg controlplane.Config) (err error) {
	ctx := cmd.Context()
	cfg.Log = cmd.ErrOrStderr()
	if cfg.Binaries, err = controlplane.BuildBinaries(ctx, cacheDir, cfg.Log); err != nil {
		return err
	}
	cp, err := controlplane.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		// The interrupt that ended ctx asks for an orderly end.
		if stopErr := cp.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	err = printLines(cmd.OutOrStdout(), "export KUBECONFIG="+cp.KubeconfigPath())
	if err != nil {
		return err
	}
	err = printLines(cmd.ErrOrStderr(), "logs are in "+cp.StateDir()+"; Ctrl-C ends the control plane")
	if err != nil {
		return err
	}
	return cp.Wait(ctx)
}

func newPinCommand() *cobra.Command {
	cfg := binaries.PinConfig{}
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Write the module files that fix which versions are built (run it in the checkout)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Log = cmd.ErrOrStderr()
			return binaries.Pin(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "dir", "test/parts/binaries", "directory of the module files")
	flags.StringVar(&cfg.Kubernetes, "kubernetes", "", "version of k8s.io/kubernetes, such as v1.36.3")
	flags.StringVar(&cfg.Etcd, "etcd", "", "version of go.etcd.io/etcd/server/v3, such as v3.6.8")
	flags.StringVar(&cfg.MetricsServer, "metrics-server", "", "version of sigs.k8s.io/metrics-server, such as v0.9.0")
	flags.StringVar(&cfg.Helm, "helm", "", "version of helm.sh/helm/v4, such as v4.3.1")
	flags.StringVar(&cfg.CoreDNS, "coredns", "", "version of github.com/coredns/coredns, such as v1.14.2")
	flags.StringVar(
		&cfg.Containerd17, "containerd-1.7", "", "version of github.com/containerd/containerd, such as v1.7.35",
	)
	flags.StringVar(&cfg.Containerd2, "containerd-2", "", "version of github.com/containerd/containerd/v2, such as v2.4.2")
	flags.StringSliceVar(
		&cfg.OtherKubernetes, "other-kubernetes", nil, "versions of the other API servers, such as v1.34.4,v1.37.2",
	)
	cmd.MarkFlagsOneRequired(
		"kubernetes", "other-kubernetes", "etcd", "metrics-server", "helm", "coredns", "containerd-1.7", "containerd-2",
	)
	return cmd
}

func printLines(w io.Writer, lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
