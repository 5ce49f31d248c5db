package main

import (
	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/doctor"
)

func newDoctorCommand() *cobra.Command {
	var file string
	var backendOnly, try bool
	var trial doctor.TrialOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the cluster and the backends of the nodes and say what they lack",
		Long: `Look at all that each node needs, and say what is missing and what to do about
it: the cluster (its version, clock, the credential and its rights, the serving
certificate, the port) and where pods run (a host and its container runtime, an ECS
cluster). A line is "ok", "warn" (pods run all the same, or it cannot be known from
here) or "FAIL"; with one that failed the command exits with 1. It only reads:
nothing is made in the cluster, on hosts or in AWS, and no pod is run. No secret is
printed.

With --try it asks AWS instead what AWS does not document, and burstlet assumes: it
runs a few tiny tasks in the ECS cluster of the node, says first what they cost, and
removes them, also when it is interrupted. The file that it writes holds nothing of
the account.

Settings come from the same places as those of "burstlet run". Run it where that
runs, as the same user.`,
		Example: `  burstlet doctor --config burstlet.yaml
  burstlet doctor --config burstlet.yaml --backend-only
  burstlet doctor --config burstlet.yaml --try --try-output seen.json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	flags.BoolVar(&backendOnly, "backend-only", false, "do not ask the cluster")
	flags.BoolVar(
		&try, "try", false,
		"run a few tiny tasks on ECS, which cost money, and compare what AWS does with what burstlet assumes",
	)
	flags.BoolVar(&trial.Yes, "yes", false, "with --try: do not ask")
	flags.StringVar(
		&trial.Image, "try-image", "", "with --try: image with sh, sleep and echo (default: busybox of public.ecr.aws)",
	)
	flags.StringVar(
		&trial.Output, "try-output", "burstlet-try.json",
		"with --try: file for what was seen; -: standard output, after the table",
	)
	addSettings(flags)
	hideSettings(flags, "backend.sim.granularity", "clusterD", "pods.", "healthz", "shutdown.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(file, flags)
		if err != nil {
			return err
		}
		if err := setUpLogging(cfg.Logging); err != nil {
			return err
		}
		options := doctor.Options{Version: programVersion(), BackendOnly: backendOnly}
		if try {
			trial.In = cmd.InOrStdin()
			return doctor.Try(cmd.Context(), cmd.OutOrStdout(), cfg.Each(), options, trial)
		}
		return doctor.Run(cmd.Context(), cmd.OutOrStdout(), cfg.Each(), options)
	}
	return cmd
}
