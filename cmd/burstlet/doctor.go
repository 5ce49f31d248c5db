package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// diagnoseTimeout bounds the look at one node's cluster, and at its backend.
const diagnoseTimeout = 2 * time.Minute

func newDoctorCommand() *cobra.Command {
	var file string
	var backendOnly bool
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

Settings come from the same places as those of "burstlet run". Run it where that
runs, as the same user.`,
		Example: `  burstlet doctor --config burstlet.yaml
  burstlet doctor --config burstlet.yaml --backend-only`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	flags.BoolVar(&backendOnly, "backend-only", false, "do not ask the cluster")
	addSettings(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Sources{File: file, LookupEnv: os.LookupEnv, Flags: givenSettings(flags), PodNamespace: podNamespace()})
		if err != nil {
			return err
		}
		if err := setUpLogging(cfg.Logging); err != nil {
			return err
		}
		return diagnoseNodes(cmd.Context(), cmd.OutOrStdout(), cfg.Each(), !backendOnly)
	}
	return cmd
}

// diagnoseNodes looks at one node after the other and prints what it finds.
func diagnoseNodes(ctx context.Context, out io.Writer, nodes []config.Configuration, cluster bool) error {
	failed := 0
	for _, node := range nodes {
		found, err := diagnoseNode(ctx, node, cluster)
		if err != nil {
			return fmt.Errorf("look at node %s: %w", node.Node.Name, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("look at node %s: %w", node.Node.Name, ctx.Err())
		}
		n, err := printFindings(out, node.Node.Name, node.Backend, found)
		if err != nil {
			return err
		}
		failed += n
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return errors.New("one check failed")
	default:
		return fmt.Errorf("%d checks failed", failed)
	}
}

// diagnoseNode looks at the node's cluster, if it is to, and then at its backend.
func diagnoseNode(ctx context.Context, c config.Configuration, cluster bool) ([]backend.Finding, error) {
	var found []backend.Finding
	identity := identityOr(c)
	if cluster {
		found, identity = diagnoseCluster(ctx, c)
	}
	more, err := diagnoseBackend(ctx, c, identity)
	return append(found, more...), err
}

// printFindings prints a node's lines and returns how many failed.
func printFindings(out io.Writer, node string, b config.Backend, found []backend.Finding) (failed int, err error) {
	where := b.Type
	switch b.Type {
	case config.BackendCRI:
		where += " " + b.CRI.Endpoint
	case config.BackendECS:
		where += " " + b.ECS.Cluster + " in " + b.ECS.Region
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := []string{fmt.Sprintf("node %s (%s)\n", node, where)}
	for _, f := range found {
		verdict := "FAIL"
		switch {
		case f.OK:
			verdict = "ok"
		case f.Warn:
			verdict = "warn"
		default:
			failed++
		}
		lines = append(lines, fmt.Sprintf("  %s\t%s\t%s\n", verdict, f.What, findingText(f)))
	}
	for _, line := range lines {
		if _, err := io.WriteString(table, line); err != nil {
			return failed, fmt.Errorf("print: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return failed, fmt.Errorf("print: %w", err)
	}
	return failed, nil
}

// findingText is what was found and what to do, in one line.
func findingText(f backend.Finding) string {
	text := strings.NewReplacer("\n", "; ", "\t", " ").Replace(f.Detail)
	if f.Advice != "" {
		text += ": " + f.Advice
	}
	return text
}
