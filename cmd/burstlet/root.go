package main

import "github.com/spf13/cobra"

func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "burstlet",
		Short: "A virtual kubelet: a node whose pods run somewhere else",
		Long: `burstlet registers a node in a Kubernetes cluster and runs the pods bound to
it on a remote: a container runtime, AWS ECS on Fargate, or a simulation.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newRunCommand(), newSimCommand(), newExplainCommand(), newDoctorCommand(), newRemoveNodesCommand(),
		newApproveCommand(), newVersionCommand(),
	)
	return cmd
}
