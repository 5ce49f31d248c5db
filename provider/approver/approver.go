package approver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The label of virtual Nodes, which burstlet sets on its own.
const (
	LabelKey   = "type"
	LabelValue = "virtual-kubelet"
)

// The reason and the message of the condition, as people read them.
const (
	servingReason  = "BurstletNodeServing"
	servingMessage = "burstlet approve-certificates: the names and addresses are the node's own"
	clientReason   = "BurstletNodeClient"
	clientMessage  = "burstlet approve-certificates: the requester may bootstrap this node"
)

// Config is what an Approver is made of.
type Config struct {
	// Client lists and watches requests and Nodes, and pods where there is a
	// PodSelector; it approves for kubernetes.io/kubelet-serving, and with
	// Policy.BootstrapGroups for kubernetes.io/kube-apiserver-client-kubelet.
	Client kubernetes.Interface
	Policy Policy
	// PodSelector finds the pods whose addresses are certified, in PodNamespace.
	// Empty: none are. PodServiceAccount is that of these pods.
	PodSelector, PodNamespace, PodServiceAccount string
	// Registerer takes the metrics. May be nil.
	Registerer prometheus.Registerer
}

// Approver approves what its Policy says. Several may run at once: an approval
// that comes second changes nothing.
type Approver struct {
	client   kubernetes.Interface
	policy   Policy
	selector labels.Selector
	account  string // of the pods that the selector finds
	metrics  metrics
	requests []cache.SharedIndexInformer // one for each signer
	nodes    cache.SharedIndexInformer
	pods     cache.SharedIndexInformer // nil without a selector
	queue    workqueue.TypedRateLimitingInterface[string]
	synced   atomic.Bool

	// Of the goroutine of Run alone: why requests are left alone, as it was told.
	told map[string]refusal
}

// refusal is why a request was left alone.
type refusal struct {
	request types.UID
	Reason
}

// New returns an approver that does nothing yet. It refuses a policy by which no
// address, or any, could be certified.
func New(cfg Config) (*Approver, error) {
	switch {
	case len(cfg.Policy.AllowedIPs) == 0 && cfg.PodSelector == "":
		return nil, errors.New(
			"configure the approver: allowed networks or a selector of pods are required: a node's word for its own " +
				"addresses is not enough",
		)
	case cfg.PodSelector != "" && cfg.PodNamespace == "":
		return nil, errors.New("configure the approver: the namespace of the pods is required")
	case cfg.PodSelector != "" && cfg.PodServiceAccount == "":
		return nil, errors.New("configure the approver: the ServiceAccount of the pods is required: anybody may label a pod")
	case len(cfg.Policy.Nodes) == 0:
		return nil, errors.New("configure the approver: the names of the nodes are required")
	}
	selector, err := labels.Parse(cfg.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("configure the approver: selector of pods: %w", err)
	}
	a := &Approver{
		client: cfg.Client, policy: cfg.Policy, selector: selector, account: cfg.PodServiceAccount, metrics: newMetrics(),
		told: map[string]refusal{},
	}
	if cfg.Registerer != nil {
		for _, c := range []prometheus.Collector{a.metrics.requests, a.metrics.waiting} {
			if err := cfg.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of the approver: %w", err)
			}
		}
	}
	a.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	return a, a.watch(cfg)
}

// Ready is true when the approver knows the requests, Nodes and pods that there are.
func (a *Approver) Ready() bool { return a.synced.Load() }

// Run approves until the context ends, and then returns nil. It is called once.
func (a *Approver) Run(ctx context.Context) error {
	informers := append(slices.Clone(a.requests), a.nodes)
	if a.pods != nil {
		informers = append(informers, a.pods)
	}
	done := make(chan struct{}, len(informers))
	var known []cache.InformerSynced
	for _, i := range informers {
		known = append(known, i.HasSynced)
		go func() { defer func() { done <- struct{}{} }(); i.RunWithContext(ctx) }()
	}
	stop := context.AfterFunc(ctx, a.queue.ShutDown)
	defer stop()
	if cache.WaitForCacheSync(ctx.Done(), known...) {
		a.synced.Store(true)
		log.G(ctx).Info("approving requests for certificates of nodes")
		for a.next(ctx) {
		}
	}
	for range informers {
		<-done
	}
	return nil
}

// next handles one request; false: the context has ended.
func (a *Approver) next(ctx context.Context) bool {
	name, ended := a.queue.Get()
	if ended {
		return false
	}
	defer a.queue.Done(name)
	if a.handle(ctx, name) {
		a.queue.Forget(name)
	} else {
		a.queue.AddRateLimited(name)
	}
	a.metrics.waiting.Set(float64(len(a.told)))
	return true
}

// handle is false for a request that must be looked at again, whatever happens.
func (a *Approver) handle(ctx context.Context, name string) bool {
	csr := a.request(name)
	if csr == nil || !open(csr) {
		delete(a.told, name)
		return true
	}
	verdict := a.policy.Decide(csr, Facts{Node: a.node, PodIP: a.podIP})
	entry := log.G(ctx).WithFields(log.Fields{"csr": name, "node": verdict.Node})
	if !verdict.Approve {
		a.leave(entry, csr, verdict)
		return true
	}
	switch err := a.approve(ctx, csr); {
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err): // somebody else decided; it is seen soon
		return false
	case err != nil:
		a.metrics.requests.WithLabelValues(resultFailed, string(apierrors.ReasonForError(err))).Inc()
		entry.WithError(err).Warn("certificate request not approved; trying again")
		return false
	default:
		a.metrics.requests.WithLabelValues(resultApproved, "").Inc()
		entry.Info("certificate request approved")
	}
	delete(a.told, name)
	return true
}

// request is one in the informers' stores, or nil.
func (a *Approver) request(name string) *certificatesv1.CertificateSigningRequest {
	for _, requests := range a.requests {
		object, found, err := requests.GetStore().GetByKey(name)
		if csr, ok := object.(*certificatesv1.CertificateSigningRequest); err == nil && found && ok {
			return csr
		}
	}
	return nil
}

// leave says why a request is left alone, once.
func (a *Approver) leave(entry *log.Entry, csr *certificatesv1.CertificateSigningRequest, verdict Verdict) {
	why := refusal{csr.UID, verdict.Reason}
	if a.told[csr.Name] == why {
		return
	}
	a.told[csr.Name] = why
	a.metrics.requests.WithLabelValues(resultLeft, string(verdict.Reason)).Inc()
	entry = entry.WithFields(log.Fields{
		"reason": string(verdict.Reason), "message": verdict.Message, "user": csr.Spec.Username,
	})
	if slices.Contains([]Reason{OtherNode, NotANode, NotBootstrapping}, verdict.Reason) {
		entry.Info("certificate request left alone: it is not one of our nodes'")
		return
	}
	entry.Warn("certificate request left alone: look at it, then kubectl certificate approve or deny it")
}

func (a *Approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	reason, message := servingReason, servingMessage
	if csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName {
		reason, message = clientReason, clientMessage
	}
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
	_, err := a.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(
		ctx, csr.Name, approved, metav1.UpdateOptions{},
	)
	return err
}

// node is a virtual Node in the informer's store.
func (a *Approver) node(name string) *corev1.Node {
	object, _, err := a.nodes.GetStore().GetByKey(name)
	node, ok := object.(*corev1.Node)
	if err != nil || !ok || node.Labels[LabelKey] != LabelValue {
		return nil
	}
	return node
}

// podIP is true for the address of a pod that one of the cluster's real kubelets
// vouches for: a virtual node writes the status of its own pods. A node may make mirror
// pods with any labels, but none with a ServiceAccount.
func (a *Approver) podIP(ip netip.Addr) bool {
	if a.pods == nil {
		return false
	}
	return slices.ContainsFunc(a.pods.GetStore().List(), func(object any) bool {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" || a.node(pod.Spec.NodeName) != nil || ended(pod) || !a.burstlets(pod) {
			return false
		}
		return slices.ContainsFunc(pod.Status.PodIPs, func(p corev1.PodIP) bool {
			own, err := netip.ParseAddr(p.IP)
			return err == nil && own.Unmap() == ip
		})
	})
}

// burstlets is true for a pod that burstlet runs in.
func (a *Approver) burstlets(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && pod.Spec.ServiceAccountName == a.account && a.selector.Matches(labels.Set(pod.Labels))
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// watch makes the informers.
func (a *Approver) watch(cfg Config) error {
	watched := signers
	if len(a.policy.BootstrapGroups) == 0 {
		watched = []string{certificatesv1.KubeletServingSignerName}
	}
	for _, signer := range watched {
		ofSigner := func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", signer).String()
		}
		a.requests = append(a.requests, certificatesinformers.NewFilteredCertificateSigningRequestInformer(
			a.client, 0, cache.Indexers{}, ofSigner,
		))
	}
	a.nodes = coreinformers.NewFilteredNodeInformer(a.client, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{LabelKey: LabelValue}.String()
	})
	if cfg.PodSelector != "" {
		selected := func(o *metav1.ListOptions) { o.LabelSelector = cfg.PodSelector }
		a.pods = coreinformers.NewFilteredPodInformer(a.client, cfg.PodNamespace, 0, cache.Indexers{}, selected)
	}
	var err error
	for _, requests := range a.requests {
		_, failed := requests.AddEventHandler(each(func(object any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				a.queue.Add(name)
			}
		}, func(_, _ any) bool { return true }))
		err = errors.Join(err, failed)
	}
	if err == nil {
		_, err = a.nodes.AddEventHandler(each(a.again, func(before, now any) bool {
			was, is := before.(*corev1.Node), now.(*corev1.Node)
			return !slices.Equal(was.Status.Addresses, is.Status.Addresses)
		}))
	}
	if err == nil && a.pods != nil {
		_, err = a.pods.AddEventHandler(each(a.again, func(before, now any) bool {
			was, is := before.(*corev1.Pod), now.(*corev1.Pod)
			return !slices.Equal(was.Status.PodIPs, is.Status.PodIPs) || was.Spec.NodeName != is.Spec.NodeName ||
				ended(was) != ended(is)
		}))
	}
	if err != nil {
		return fmt.Errorf("watch requests, nodes and pods: %w", err)
	}
	return nil
}

// each calls for every object that comes, goes, or changes in what counts.
func each(call func(any), counts func(before, now any) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: call, DeleteFunc: call,
		UpdateFunc: func(before, now any) {
			if counts(before, now) {
				call(now)
			}
		},
	}
}

// again looks at all open requests again.
func (a *Approver) again(any) {
	for _, requests := range a.requests {
		for _, object := range requests.GetStore().List() {
			if csr, ok := object.(*certificatesv1.CertificateSigningRequest); ok && open(csr) {
				a.queue.Add(csr.Name)
			}
		}
	}
}
