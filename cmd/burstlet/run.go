package main

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func newRunCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run nodes until interrupted",
		Long: `Run one node, or those that the file lists, until SIGINT or SIGTERM. Their pods
stay on the remote, unless shutdown.mode says to drain it.

Settings come from a YAML file, above it environment variables (BURSTLET_ and the
flag's name: BURSTLET_NODE_NAME), above them flags; docs/configuration.md says what
the file holds. Without a file the node is called burstlet and its pods are
simulated: no container runs.`,
		Example: `  burstlet run
  burstlet run --config burstlet.yaml --log-level debug
  burstlet run --backend cri --node-name edge-1`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	addSettings(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(file, flags)
		if err != nil {
			return err
		}
		if err := setUpLogging(cfg.Logging); err != nil {
			return err
		}
		limitMemory(cmd.Context(), memlimit.FromCgroup)
		defer trimHeap(cmd.Context())()
		return runNodes(cmd.Context(), cfg)
	}
	return cmd
}
