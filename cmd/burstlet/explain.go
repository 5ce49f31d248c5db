package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/explain"
)

func newExplainCommand() *cobra.Command {
	var file, format string
	var pods []string
	cmd := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Say what would become of a pod: taken or refused, and what it costs",
		Long: `Say of each pod in a file what would become of it on each node of the
configuration: the fields that are refused, with why, and what becomes of the
others; on ECS the size and the price of an hour, and the task that it turns into; on
a container host the sandbox, its cgroup, the volumes, and the containers in the order
in which they start. With a pod that is refused the command exits with 1.

The file holds Pods, or Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs
and CronJobs, whose templates are looked at; other kinds are passed over. Neither
the cluster nor the remote is asked: what stands in ConfigMaps, Secrets and claims
is not known here, and no value of a Secret is shown.

Settings come from the same places as those of "burstlet run".`,
		Example: `  burstlet explain -f pod.yaml --config burstlet.yaml
  kubectl get deployment web -o yaml | burstlet explain -f - --config burstlet.yaml -o json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&pods, "filename", "f", nil, "YAML or JSON file with pods; - is standard input; may be repeated")
	flags.StringVarP(&format, "output", "o", config.FormatText, "text or json")
	flags.StringVar(&file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	addSettings(flags)
	hideSettings(flags, "node.internalIP", "kubeconfig", "bootstrapKubeconfig", "certDirectory", "backend.sim.socket",
		"kubeletAPI.", "leaderElection.", "healthz", "logging.", "shutdown.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != config.FormatText && format != config.FormatJSON {
			return fmt.Errorf("flag --output: %q is not text or json", format)
		}
		cfg, err := loadConfig(file, flags)
		if err != nil {
			return err
		}
		found, err := explain.Read(cmd.InOrStdin(), pods)
		if err != nil {
			return err
		}
		return explain.Run(cmd.Context(), cmd.OutOrStdout(), cfg.Each(), found, format)
	}
	return cmd
}
