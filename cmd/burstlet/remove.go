package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/removal"
)

// removeFlags are the command's own; the settings are beside them.
type removeFlags struct {
	file, kubeconfig, deployment string
	nodes                        []string
	timeout, forceAfter          time.Duration
	keepPods                     bool
}

func newRemoveNodesCommand() *cobra.Command {
	var f removeFlags
	cmd := &cobra.Command{
		Use:   "remove-nodes",
		Short: "Take the nodes out of the cluster and leave nothing of them",
		Long: `Take the nodes of a configuration out of the cluster, for good: cordon them, have
their pods end, end the processes that run them, end what is left on the remote,
and delete what they made there (task definitions, secrets) and in the API (Nodes,
leases, certificate requests). Pods of other nodes on the same remote are not
touched, and a Node that is not burstlet's ends the command before it did anything.

Pods are evicted, as by kubectl drain, so that PodDisruptionBudgets hold while
their replacements start elsewhere; those that are not let go within --force-after
are deleted, with their own grace. Pods without a controller are named, for nobody
makes them again. DaemonSets' pods end last.

While burstlet runs, it ends the pods; then it must end: as a Deployment that
--deployment names it is scaled to 0, else the command waits until you stop it. It
stays at 0; only where --nodes names a part of its nodes and the removal fails it is
scaled back, for the others.
Without one that runs the command ends the pods itself. Either way it has the
node's lease while it works on the remote, so that nothing is done twice.

Each step prints a line. The command can be killed at any time and run again: it
goes on where it was. If something remains when the time is over, or is refused, it
says what and exits with 1. Of a remote that is gone for good, --keep-pods asks
nothing.

Settings come from the same places as those of "burstlet run", and must be the same
(above all node.identity, backend and leaderElection). The access to the API server
is not the node's own, which may not do this, but the caller's: see --kubeconfig.
deploy/rbac/remove-nodes.yaml lists the rights that it needs.`,
		Example: `  burstlet remove-nodes --config burstlet.yaml
  burstlet remove-nodes --config burstlet.yaml --deployment burstlet/burstlet --timeout 20m
  burstlet remove-nodes --config burstlet.yaml --nodes edge-2 --force-after 0`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	flags.StringVar(
		&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file of who removes; default $KUBECONFIG, else the pod's service account, else ~/.kube/config",
	)
	flags.StringSliceVar(&f.nodes, "nodes", nil, "names of the nodes to remove; default all of the configuration")
	flags.StringVar(
		&f.deployment, "deployment", "", "NAMESPACE/NAME of the Deployment that runs the nodes, to be scaled to 0",
	)
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long all of it may take")
	flags.DurationVar(
		&f.forceAfter, "force-after", 2*time.Minute,
		"how long pods are evicted before they are deleted against their PodDisruptionBudgets; 0: at once; negative: never",
	)
	flags.BoolVar(
		&f.keepPods, "keep-pods", false,
		"leave on the remote what runs there and remove the nodes and their pods from the API alone",
	)
	addSettingsBut(flags, "kubeconfig")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(f.file, flags)
		if err != nil {
			return err
		}
		if err := setUpLogging(cfg.Logging); err != nil {
			return err
		}
		return removeNodes(cmd.Context(), cmd.OutOrStdout(), cfg, f)
	}
	return cmd
}

// addSettingsBut makes a flag for each setting but one.
func addSettingsBut(flags *pflag.FlagSet, name string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettings(all)
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name != name {
			flags.AddFlag(f)
		}
	})
}

// removeNodes removes the nodes and says what remains if it cannot.
func removeNodes(ctx context.Context, out io.Writer, cfg config.Configuration, f removeFlags) error {
	if f.timeout <= 0 {
		return errors.New("flag --timeout: must be more than 0")
	}
	chosen, err := chooseNodes(cfg.Each(), f.nodes)
	if err != nil {
		return err
	}
	server, err := removeAccess(cfg, f.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	say := sayTo(out)
	deployment, err := deploymentOf(f.deployment, client, say)
	if err != nil {
		return err
	}
	if deployment != nil {
		deployment.Shared = len(chosen) < len(cfg.Each())
	}
	id, err := processID()
	if err != nil {
		return err
	}
	elections := newElections("remove-nodes_"+id, func(config.LeaderElection) (*rest.Config, error) {
		return rest.CopyConfig(server), nil
	})
	nodes := make([]*removal.Node, len(chosen))
	for i, c := range chosen {
		nodes[i] = removal.New(
			removalConfig(c, f, client, say, len(chosen) < len(cfg.Each()), &taker{
				cfg: c, access: server, elections: elections, keep: f.keepPods,
			}),
		)
	}
	timed, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := removal.Run(timed, nodes, deployment); err != nil {
		return sayRemains(context.WithoutCancel(ctx), say, chosen, nodes, err)
	}
	say("done")
	return nil
}

// chooseNodes returns those that were named, all if none was.
func chooseNodes(all []config.Configuration, names []string) ([]config.Configuration, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []config.Configuration
	for _, name := range names {
		i := slices.IndexFunc(all, func(c config.Configuration) bool { return c.Node.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("flag --nodes: the configuration has no node %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func removeAccess(cfg config.Configuration, file string) (*rest.Config, error) {
	found, err := access.Find(file)
	if err != nil {
		return nil, err
	}
	found.QPS, found.Burst, found.UserAgent = cfg.Client.QPS, cfg.Client.Burst, userAgent()+" remove-nodes"
	return found, nil
}

// sayTo prints lines, one at a time. Who reads them no more does not keep the
// removal from going on.
func sayTo(out io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := io.WriteString(out, strings.ReplaceAll(line, "\n", "; ")+"\n"); err != nil {
			log.L.WithError(err).Warn(line)
		}
	}
}

func deploymentOf(name string, client kubernetes.Interface, say func(string)) (*removal.Deployment, error) {
	if name == "" {
		return nil, nil
	}
	namespace, short, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || short == "" || strings.Contains(short, "/") {
		return nil, fmt.Errorf("flag --deployment: %q is not NAMESPACE/NAME", name)
	}
	return &removal.Deployment{
		Client: client, Name: types.NamespacedName{Namespace: namespace, Name: short}, Say: say,
	}, nil
}

func removalConfig(
	c config.Configuration, f removeFlags, client kubernetes.Interface, say func(string), othersStay bool, t *taker,
) removal.Config {
	r := removal.Config{
		Name: c.Node.Name, Client: client, Takeover: t.take, ForceAfter: f.forceAfter, KeepPods: f.keepPods, Self: ownPod(),
		Say: say,
	}
	if l := c.LeaderElection; l.Enabled {
		r.Election = types.NamespacedName{Namespace: l.Namespace, Name: c.LeaseName()}
		r.KeepElection = othersStay && l.Name != ""
		if own := (types.NamespacedName{Namespace: l.Namespace, Name: c.OwnLeaseName()}); own != r.Election {
			r.FormerElection = own
		}
		// Who stands by looks after 1 to 2.2 times the period (client-go's jitter).
		r.Recheck = 3 * l.RetryPeriod.Duration
	}
	if s := c.KubeletAPI.SignerName; s != "" {
		r.Signers = []string{s}
	}
	return r
}

// ownPod is the pod of this process; empty if it runs in none.
func ownPod() types.NamespacedName {
	namespace := podNamespace()
	if namespace == "" {
		return types.NamespacedName{}
	}
	host, err := os.Hostname()
	if err != nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: host}
}

// sayRemains returns why the removal ended early, and what is left.
func sayRemains(
	ctx context.Context, say func(string), chosen []config.Configuration, nodes []*removal.Node, err error,
) error {
	for i, n := range nodes {
		for _, what := range n.Remains(ctx) {
			say("node " + chosen[i].Node.Name + ": remains: " + what)
		}
	}
	err = fmt.Errorf("%w; run it again to go on", err)
	if errors.Is(err, removal.ErrTime) {
		return exitError{err, exitTimeOver}
	}
	return err
}

// exitTimeOver is the exit status of a removal whose time was over before it was through:
// EX_TEMPFAIL of sysexits.h. The chart's Job is not tried again after it.
const exitTimeOver = 75

// exitError is an error with an exit status of its own.
type exitError struct {
	error
	status int
}

func (e exitError) Unwrap() error { return e.error }

// exitStatus is that of a process that ends with an error.
func exitStatus(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.status
	}
	return 1
}
