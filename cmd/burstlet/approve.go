package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/provider/approver"
)

// approveFlags are the command's own.
type approveFlags struct {
	kubeconfig                  string
	nodes, requesters, networks []string
	bootstrapGroups             []string
	podSelector, podNamespace   string
	podServiceAccount           string
	healthzBindAddress          string
	healthzPort                 int
	logging                     config.Logging
}

func newApproveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve-certificates",
		Short: "Approve the certificates of burstlet's nodes",
		Long: `Approve, until SIGINT or SIGTERM, CertificateSigningRequests to the signer
kubernetes.io/kubelet-serving that burstlet's nodes make with
kubeletAPI.serverTLSBootstrap. Kubernetes signs them, but approves them for nobody.

A request is approved if

- the node makes it itself (user system:node:NAME in group system:nodes) or one of
  --requesters does, for system:node:NAME, group system:nodes, and server auth alone;
- NAME is one of --nodes, and a Node with the label type=virtual-kubelet;
- its DNS names are NAME, unless that is localhost, kubernetes, kubernetes.* or a
  Service's (*.svc, *.svc.*);
- it has an address, and its addresses are in the Node's status;
- somebody other than the node vouches for each address: it is in one of the networks
  of --allowed-ips, or of a running pod that --pod-selector finds, that runs as
  --pod-service-account, and that stands on no virtual node.

With --bootstrap-groups it also approves requests to the signer
kubernetes.io/kube-apiserver-client-kubelet, which nodes make with bootstrapKubeconfig, if
who makes it is in one of these groups and it is for client auth alone, as system:node:NAME
in group system:nodes, NAME being one of --nodes. Do not bind ClusterRole
system:certificates.k8s.io:certificatesigningrequests:nodeclient to such a group: Kubernetes
would approve all nodes.

All others are left alone, for others to decide, and a line in the log says why. Several
may run at once. deploy/rbac/approver.yaml lists the rights that it needs, and
deploy/rbac/bootstrap.yaml those for client certificates.`,
		Example: `  burstlet approve-certificates --nodes edge-1,edge-2 \
    --pod-selector app.kubernetes.io/name=burstlet --pod-service-account burstlet
  burstlet approve-certificates --nodes edge-1 --allowed-ips 192.0.2.0/24`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(
		&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file; default $KUBECONFIG, else the pod's service account, else ~/.kube/config",
	)
	flags.StringSliceVar(&f.nodes, "nodes", nil, "names of the nodes; required")
	flags.StringSliceVar(
		&f.requesters, "requesters", nil,
		"users who may ask for the nodes of --nodes beside the nodes themselves, as in system:serviceaccount:NAMESPACE:NAME",
	)
	flags.StringSliceVar(
		&f.bootstrapGroups, "bootstrap-groups", nil,
		"groups of bootstrap tokens that may ask for client certificates of --nodes, as in system:bootstrappers:burstlet",
	)
	flags.StringSliceVar(
		&f.networks, "allowed-ips", nil, "networks of addresses that may be certified, as in 192.0.2.0/24",
	)
	flags.StringVar(&f.podSelector, "pod-selector", "", "labels of the pods whose addresses may be certified")
	flags.StringVar(
		&f.podServiceAccount, "pod-service-account", "",
		"name of the ServiceAccount that those pods run as; required with --pod-selector",
	)
	flags.StringVar(
		&f.podNamespace, "pod-namespace", "", "namespace of those pods; default that of the pod that this process runs in",
	)
	flags.StringVar(
		&f.healthzBindAddress, "healthz-bind-address", config.Default().HealthzBindAddress, "IP address of the health port",
	)
	flags.IntVar(&f.healthzPort, "healthz-port", 0, "port of /healthz, /readyz and /metrics, plain HTTP (0: none)")
	flags.StringVar(&f.logging.Level, "log-level", config.Default().Logging.Level, "error, warn, info, debug or trace")
	flags.StringVar(&f.logging.Format, "log-format", config.Default().Logging.Format, "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := setUpLogging(f.logging); err != nil {
			return err
		}
		found, err := access.Find(f.kubeconfig)
		if err != nil {
			return err
		}
		return approveCertificates(cmd.Context(), found, f)
	}
	return cmd
}

// policy reads what the flags say of requests.
func (f approveFlags) policy() (approver.Policy, error) {
	p := approver.Policy{Nodes: f.nodes, Users: f.requesters, BootstrapGroups: f.bootstrapGroups}
	for _, text := range f.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return approver.Policy{}, fmt.Errorf("flag --allowed-ips: %q is not a network such as 192.0.2.0/24", text)
		}
		p.AllowedIPs = append(p.AllowedIPs, network.Masked())
	}
	switch {
	case len(p.AllowedIPs) == 0 && f.podSelector == "":
		return p, errors.New(
			"flag --allowed-ips or --pod-selector is required: a node's word for its own addresses is not enough",
		)
	case len(p.Nodes) == 0:
		return p, errors.New("flag --nodes is required: whoever can register a Node could be certified for any name")
	case f.podSelector != "" && f.podServiceAccount == "":
		return p, errors.New("flag --pod-service-account is required with --pod-selector: anybody may label a pod")
	}
	return p, nil
}

// approveCertificates approves until the context ends.
func approveCertificates(ctx context.Context, server *rest.Config, f approveFlags) error {
	policy, err := f.policy()
	if err != nil {
		return err
	}
	if f.podSelector != "" && f.podNamespace == "" {
		if f.podNamespace = podNamespace(); f.podNamespace == "" {
			return errors.New("flag --pod-namespace is required: this process runs in no pod whose namespace would be taken")
		}
	}
	server = rest.CopyConfig(server)
	server.UserAgent = userAgent()
	calls, registry := newAPICalls(), prometheus.NewRegistry()
	registry.MustRegister(calls.requests, calls.duration)
	server.Wrap(calls.count)
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return fmt.Errorf("make a client of the API server: %w", err)
	}
	a, err := approver.New(approver.Config{
		Client: client, Policy: policy, PodSelector: f.podSelector, PodNamespace: f.podNamespace,
		PodServiceAccount: f.podServiceAccount, Registerer: registry,
	})
	if err != nil {
		return err
	}
	states := health.New()
	states.Checks = []health.Check{approving{a}}
	states.Metrics = promhttp.HandlerFor(
		prometheus.Gatherers{health.ProcessMetrics(programVersion()), states.Bounds(), registry}, promhttp.HandlerOpts{},
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served, err := states.Serve(ctx, f.healthzBindAddress, f.healthzPort)
	if err != nil {
		return err
	}
	err = a.Run(ctx)
	stop()
	return errors.Join(err, served())
}

// approving is the approver as /readyz shows it.
type approving struct{ *approver.Approver }

// Line implements [health.Check].
func (a approving) Line() (text string, ready bool) {
	if a.Ready() {
		return "[+]approver ok\n", true
	}
	return "[-]approver has not listed requests, nodes and pods yet\n", false
}
