package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
)

// nodeLeaseLife is how long a node's lease holds without being renewed (the
// kubelet's nodeLeaseDurationSeconds).
const nodeLeaseLife = 40 * time.Second

// node looks at the Node of our name, if there is one.
func (e *clusterExam) node(ctx context.Context) {
	const what = "node"
	if e.cred.bootstrap {
		return // it may not look
	}
	node, err := e.client.CoreV1().Nodes().Get(ctx, e.cfg.Node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(backend.Good(what, "there is no Node "+e.cfg.Node.Name+" yet: burstlet makes it"))
		return
	case err != nil:
		e.add(backend.Bad(what, err.Error(), ""))
		return
	}
	e.running = e.renewed(ctx)
	e.add(nodeFinding(node, e.running))
	if e.running && e.cfg.KubeletAPI.Served() {
		e.add(e.proxied(ctx))
	}
}

// nodeFinding judges a Node of our name. running is true while its lease is renewed.
func nodeFinding(node *corev1.Node, running bool) backend.Finding {
	const what = "node"
	if err := provider.CheckOwner(node); err != nil {
		detail, advice, _ := strings.Cut(err.Error(), "; ")
		return backend.Bad(what, detail, advice)
	}
	version := node.Status.NodeInfo.KubeletVersion
	if version != "" && !strings.Contains(version, "+burstlet-") {
		return backend.Doubtful(what, fmt.Sprintf("Node %s is another virtual kubelet's (version %s)", node.Name, version),
			"stop that one first, or choose another node.name: its pods would be run by both")
	}
	if running {
		return backend.Good(what, "Node "+node.Name+" is run by a burstlet now")
	}
	return backend.Good(what, "Node "+node.Name+" is there, and nobody runs it now")
}

// renewed is true while some process renews the node's lease. A lease that cannot be
// read is none.
func (e *clusterExam) renewed(ctx context.Context) bool {
	lease, err := e.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, e.cfg.Node.Name, metav1.GetOptions{})
	return err == nil && holds(lease, time.Now().Add(e.skew), nodeLeaseLife)
}

// holds is true of a lease that was renewed within its life. now is the time of who
// renews it.
func holds(lease *coordinationv1.Lease, now time.Time, life time.Duration) bool {
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		life = time.Duration(*s) * time.Second
	}
	return lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) < life
}

// proxied asks the API server to call the kubelet API of the node that runs: the one
// way to know that it is reached.
func (e *clusterExam) proxied(ctx context.Context) backend.Finding {
	const what = "reached by the API server"
	path := "/api/v1/nodes/" + e.cfg.Node.Name + "/proxy/healthz"
	err := e.client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error()
	ask := "as an administrator: kubectl get --raw " + path
	switch {
	case err == nil:
		return backend.Good(what, "yes: it called the kubelet API of the node")
	case apierrors.IsForbidden(err):
		return backend.Doubtful(what, "not known: this credential may not have it called", ask)
	case apierrors.IsBadRequest(err):
		return backend.Doubtful(what, "not known: the API server does not proxy to that address ("+err.Error()+")",
			"kubectl logs tells once a pod runs")
	default:
		return backend.Bad(what, err.Error(),
			"the API server must reach node.internalIP at kubeletAPI.port: look at routes, firewalls and NetworkPolicies")
	}
}

// election looks at what a leader election needs.
func (e *clusterExam) election(ctx context.Context) {
	const what = "leader election"
	l := e.cfg.LeaderElection
	if !l.Enabled {
		return
	}
	server, err := access.Find(l.Kubeconfig)
	if err != nil {
		e.add(backend.Bad(what, err.Error(), "set leaderElection.kubeconfig"))
		return
	}
	server.Timeout, server.UserAgent = access.FirstCallTimeout, e.opts.userAgent()
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		e.add(backend.Bad(what, err.Error(), "set leaderElection.kubeconfig"))
		return
	}
	source := accessSource(l.Kubeconfig, server)
	found := rightFindings(ctx, client, what, source, []right{electionRight(l.Namespace)}, e.cfg.LeaseName(), true,
		"grant it as Role burstlet:leader-election of "+fileServiceAccount+
			" does, and name that credential as leaderElection.kubeconfig")
	if found[0].OK {
		found[0].Detail = source + " may write leases in namespace " + l.Namespace + "; " + e.leader(ctx, client, l)
	}
	e.add(found...)
}

// leader says who leads.
func (e *clusterExam) leader(ctx context.Context, client kubernetes.Interface, l config.LeaderElection) string {
	lease, err := client.CoordinationV1().Leases(l.Namespace).Get(ctx, e.cfg.LeaseName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "nobody has led yet"
	case err != nil:
		return "the lease cannot be read: " + err.Error()
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
		!holds(lease, time.Now().Add(e.skew), l.LeaseDuration.Duration):
		return "nobody leads now"
	default:
		return *lease.Spec.HolderIdentity + " leads"
	}
}
