// Command ecs serves Amazon ECS on Fargate, CloudWatch Logs, Secrets Manager and
// SQS, to point burstlet at. No container runs, unless with --containers or
// --cri-socket. See packages test/fakeaws/ecs and test/fakeaws/ecsrun.
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

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := command().ExecuteContext(ctx); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "ecs:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var (
		cfg    ecs.Config
		listen string
		on     containers
		// observed is the file with what an account did.
		observed string
	)
	cmd := &cobra.Command{
		Use:           "ecs",
		Short:         "Serve ECS on Fargate to test on, until Ctrl-C",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("listen") {
				listen = ""
			}
			if observed != "" {
				left, err := observe(&cfg, observed)
				if err != nil {
					return err
				}
				for _, name := range left {
					if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "ecs: that account differs in", name+
						", which this server does not follow"); err != nil {
						return err
					}
				}
			}
			return on.around(cmd.Context(), func(ctx context.Context, runner ecs.Runner, facts []string, address string) error {
				cfg.Runner = runner
				if listen == "" {
					listen = address + ":0"
				}
				return serve(ctx, cmd.OutOrStdout(), listen, cfg, facts)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(
		&listen, "listen", "127.0.0.1:0",
		"address to serve on; port 0 is a free one. With --containers: one that tasks reach, by default",
	)
	f.StringVar(&cfg.Region, "region", "us-east-1", "region that requests are signed for")
	f.StringVar(&cfg.Cluster, "cluster", "default", "the one cluster that exists")
	f.BoolVar(&cfg.Throttles, "throttles", false, "refuse calls and launches beyond AWS's documented rates")
	f.Float64Var(&cfg.VCPU, "vcpu", 0, "quota of vCPUs on demand; 0 is none")
	f.Float64Var(&cfg.SpotVCPU, "spot-vcpu", 0, "quota of vCPUs on Spot; 0 is none")
	f.BoolVar(
		&cfg.Kindness.Interfaces, "interfaces", false,
		"let all tasks get their network interface; else one in a hundred does not start",
	)
	f.BoolVar(&cfg.GuardDuty, "guardduty", false, "add GuardDuty's container to every task")
	f.StringSliceVar(&cfg.LogGroups, "log-group", nil, "log group that exists (repeatable)")
	f.Var(buckets{&cfg.Buckets}, "bucket", "S3 bucket that exists (repeatable)")
	f.Var(
		pulls{&cfg.Pulls}, "pull-of", "how long the pull of one image takes, IMAGE=DURATION (repeatable); others: --pull",
	)
	f.StringSliceVar(&cfg.Queues, "queue", nil, "SQS queue that gets task state changes (repeatable)")
	for name, d := range map[string]*time.Duration{
		"provision": &cfg.Delays.Provision, "pull": &cfg.Delays.Pull, "deactivate": &cfg.Delays.Deactivate,
		"deprovision": &cfg.Delays.Deprovision,
		"visible":     &cfg.Delays.Visible, "stale": &cfg.Delays.Stale, "ingest": &cfg.Delays.Ingest,
		"listed": &cfg.Delays.Listed,
		"erase":  &cfg.Delays.Erase, "event": &cfg.Delays.Event,
	} {
		f.DurationVar(d, name, 0, "how long it takes, see Delays of package test/fakeaws/ecs")
	}
	f.StringVar(&observed, "observed", "", "file of burstlet doctor --try: behave as that account did, with its delays")
	f.BoolVar(&cfg.Sessions.Fast, "session-fast", false, "leave out the pauses of ECS Exec's agent")
	f.DurationVar(&cfg.Sessions.Latency, "session-latency", 0, "how long a frame of a session is under way")
	on.flags(f)
	return cmd
}

// observe has the server behave as an account did.
func observe(cfg *ecs.Config, file string) (left []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--observed: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if left, err = cfg.Observe(f); err != nil {
		return nil, fmt.Errorf("--observed %s: %w", file, err)
	}
	return left, nil
}

// buckets are the values of --bucket.
type buckets struct{ of *[]s3.Bucket }

// Set implements pflag.Value.
func (b buckets) Set(name string) error {
	*b.of = append(*b.of, s3.Bucket{Name: name})
	return nil
}

// String implements pflag.Value.
func (buckets) String() string { return "" }

// Type implements pflag.Value.
func (buckets) Type() string { return "name" }

// pulls are the values of --pull-of.
type pulls struct{ of *map[string]time.Duration }

// Set implements pflag.Value.
func (p pulls) Set(text string) error {
	image, took, ok := strings.Cut(text, "=")
	d, err := time.ParseDuration(took)
	if !ok || err != nil {
		return fmt.Errorf("want IMAGE=DURATION: %q", text)
	}
	if *p.of == nil {
		*p.of = map[string]time.Duration{}
	}
	(*p.of)[image] = d
	return nil
}

// String implements pflag.Value.
func (pulls) String() string { return "" }

// Type implements pflag.Value.
func (pulls) Type() string { return "image=duration" }

// serve prints where it serves and other facts, and returns when ctx ends.
func serve(ctx context.Context, out io.Writer, listen string, cfg ecs.Config, facts []string) error {
	server := ecs.New(cfg)
	defer server.Close()
	url, stop, err := server.Listen(listen)
	if err != nil {
		return err
	}
	defer stop()
	for _, line := range append([]string{"ECS_URL=" + url}, facts...) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return fmt.Errorf("print the address: %w", err)
		}
	}
	for _, q := range cfg.Queues {
		if _, err := fmt.Fprintf(out, "QUEUE_URL=%s\n", server.QueueURL(q)); err != nil {
			return fmt.Errorf("print the queue: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}
