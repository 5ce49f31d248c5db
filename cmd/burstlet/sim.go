package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containerd/log"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/backend/sim/simrpc"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// defaultSimSocket is where "burstlet sim" listens if not told otherwise.
const defaultSimSocket = "/run/burstlet-sim.sock"

func newSimCommand() *cobra.Command {
	var (
		socket  string
		remote  sim.Config
		logging config.Logging
	)
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated remote for other burstlet processes",
		Long: `Run a simulated remote until SIGINT or SIGTERM. No container runs: pods are
kept in memory, and a container's command line says how long it lives and how it
ends. Nodes use it with "burstlet run --backend sim --sim-socket unix://SOCKET";
their pods outlive them and are found again, but end with this process.

Several nodes may share one remote; each sees only its own pods. Whoever may open
the socket may do everything, so it is made for this user alone (mode 0600). A
socket that another process serves is never replaced.`,
		Example: `  burstlet sim
  burstlet sim --socket /tmp/sim.sock --pod-unit --max-pods 10000
  burstlet sim --latency-launch 30s --latency-pull 5s`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&socket, "socket", defaultSimSocket, "path of the unix socket to listen on")
	flags.BoolVar(
		&remote.PodUnit, "pod-unit", false, "make the whole pod the unit of restart, as on ECS, instead of the container",
	)
	flags.IntVar(
		&remote.MaxPods, "max-pods", 0,
		"how many live pods have room, and what the node says it has room for (0: no limit, and 110)",
	)
	flags.StringSliceVar(&remote.Images, "image", nil, "image that is on the remote already; may be repeated")
	flags.BoolVar(&remote.Files, "files", false, "place volumes one by one with --pod-unit too, instead of in the launch")
	flags.BoolVar(&remote.Health, "health", false, "let the remote run the probes with --pod-unit")
	flags.BoolVar(&remote.NoEvents, "no-events", false, "give no hints of changes: they are seen by polling alone")
	latency := &remote.Latency
	flags.DurationVar(&latency.API, "latency-api", 0, "round trip of every call")
	flags.DurationVar(&latency.Launch, "latency-launch", 0, "from the launch of a pod to its address")
	flags.DurationVar(&latency.Pull, "latency-pull", 0, "one image pull")
	flags.DurationVar(&latency.Start, "latency-start", 0, "start of a container")
	flags.DurationVar(&latency.Stop, "latency-stop", 0, "from the end of a pod's last container to the end of the pod")
	flags.StringVar(&logging.Level, "log-level", "info", "error, warn, info, debug or trace")
	flags.StringVar(&logging.Format, "log-format", config.FormatText, "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkSim(remote, logging); err != nil {
			return err
		}
		if err := setUpLogging(logging); err != nil {
			return err
		}
		return runSim(cmd, socket, remote)
	}
	return cmd
}

func checkSim(remote sim.Config, logging config.Logging) error {
	if logging.Format != config.FormatText && logging.Format != config.FormatJSON {
		return fmt.Errorf("flag --log-format: %q is not text or json", logging.Format)
	}
	if remote.MaxPods < 0 {
		return errors.New("flag --max-pods: must not be negative")
	}
	l := remote.Latency
	if min(l.API, l.Launch, l.Pull, l.Start, l.Stop) < 0 {
		return errors.New("flags --latency-…: must not be negative")
	}
	if !remote.PodUnit && (remote.Files || remote.Health) {
		return errors.New("flags --files and --health: need --pod-unit")
	}
	return nil
}

// runSim serves until the context ends. It says where on standard output, for
// those who wait for it.
func runSim(cmd *cobra.Command, socket string, cfg sim.Config) error {
	ctx := cmd.Context()
	socket, err := filepath.Abs(socket)
	if err != nil {
		return fmt.Errorf("flag --socket: %w", err)
	}
	if cfg.Capacity, err = simCapacity(ctx, cfg.MaxPods); err != nil {
		return err
	}
	l, err := simrpc.Listen(ctx, socket)
	if err != nil {
		return err
	}
	entry := log.G(ctx).WithField("socket", socket)
	entry.WithField("version", programVersion()).Info("serving a simulated remote: no container runs")
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "listening on unix://%s\n", socket); err != nil {
		return errors.Join(fmt.Errorf("say where it listens: %w", err), l.Close())
	}
	server := simrpc.Server{Open: sim.New(cfg).BackendFor, Version: programVersion()}
	if err := server.Serve(ctx, l); err != nil {
		return err
	}
	entry.Info("simulated remote stopped, its pods are gone")
	return nil
}

// simCapacity is the remote's own capacity, with room for so many pods; nil
// leaves all to the remote.
func simCapacity(ctx context.Context, maxPods int) (corev1.ResourceList, error) {
	if maxPods == 0 {
		return nil, nil
	}
	facts, err := sim.New(sim.Config{}).Backend().Node.Describe(ctx)
	if err != nil {
		return nil, err
	}
	facts.Capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(maxPods), resource.DecimalSI)
	return facts.Capacity, nil
}
