package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// robbed is the namespace of all that is tried.
const robbed = metav1.NamespaceDefault

// thief is who holds the token of a ServiceAccount that has a node. That node, mine, runs pod
// mine, which uses a Secret, a ConfigMap and a claim of that name and a token of ServiceAccount
// default; node others is somebody else's, and has the same.
type thief struct {
	account, mine, others string
	// own is the node as which the ServiceAccount may act.
	own rest.ImpersonationConfig
	// elects says that the ServiceAccount may also take part in the leader election and read
	// the client CA.
	elects bool
	// admin is somebody else who changes the cluster.
	admin kubernetes.Interface
}

// try is a request of a thief.
type try func(context.Context, kubernetes.Interface) error

// theft is what a thief tries.
type theft struct {
	name string
	as   rest.ImpersonationConfig // zero: as the ServiceAccount
	try  try
	// may is true for what is burstlet's work, and so cannot be kept from the thief.
	may bool
}

// thefts are the table of docs/security.md.
func (th thief) thefts() []theft {
	return slices.Concat(th.asItself(), th.reading(), th.reporting(), th.creating())
}

func (th thief) asItself() []theft {
	self := rest.ImpersonationConfig{}
	user := func(name string, groups ...string) rest.ImpersonationConfig {
		return rest.ImpersonationConfig{UserName: name, Groups: groups}
	}
	return []theft{
		{"read a Secret", self, readSecret(th.mine), false},
		{"list Secrets", self, listSecrets, false},
		{"label its Node", self, patchNode(th.mine, `{"metadata":{"labels":{"x":"y"}}}`), false},
		{"delete a pod of its node", self, deletePod(th.mine), false},
		{"get a token of a pod's ServiceAccount", self, token("default", "", ""), false},
		{"run a pod", self, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods(robbed).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "theft"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, false},
		{"become another node", user(nodeuser.Name(th.others), nodeuser.Group), whoami, false},
		{"become another node by its name alone", user(nodeuser.Name(th.others)), whoami, false},
		{"become an administrator", user("root", "system:masters"), whoami, false},
		{
			"become an administrator as its node", user(nodeuser.Name(th.mine), nodeuser.Group, "system:masters"), whoami, false,
		},
		{"become a controller", user("system:kube-controller-manager"), whoami, false},
		{"become another ServiceAccount", user("system:serviceaccount:kube-system:default"), whoami, false},

		{"take the lead in its election", self, renew(robbed, "election-"+th.mine), th.elects},
		{"take the lead elsewhere", self, renew(metav1.NamespaceSystem, "election-"+th.mine), false},
		{"read the client CA", self, readConfigMap(metav1.NamespaceSystem, "extension-apiserver-authentication"), th.elects},
		{"read another ConfigMap", self, readConfigMap(metav1.NamespaceSystem, "kube-root-ca.crt"), false},
	}
}

// reading is what a node learns. Node mine is known to the API server once it may read what its
// pod uses, so that a refusal after that is one of the right and not of the moment.
func (th thief) reading() []theft {
	return []theft{
		{"as its node: read a Secret that a pod of the node uses", th.own, readSecret(th.mine), true},
		{"as its node: read another Secret", th.own, readSecret(th.others), false},
		{"as its node: list Secrets", th.own, listSecrets, false},
		{"as its node: read a ConfigMap that a pod of the node uses", th.own, readConfigMap(robbed, th.mine), true},
		{"as its node: read another ConfigMap", th.own, readConfigMap(robbed, th.others), false},
		{"as its node: read a claim that a pod of the node uses", th.own, readClaim(th.mine), true},
		{"as its node: read another claim", th.own, readClaim(th.others), false},
		{"as its node: get a token of a pod's ServiceAccount, bound to the pod", th.own, token("default", "", th.mine), true},
		{"as its node: get a token of it for another audience", th.own, token("default", "vault", th.mine), false},
		{"as its node: get a token of it that is bound to no pod", th.own, token("default", "", ""), false},
		{"as its node: get a token of a ServiceAccount that no pod names", th.own, token(th.account, "", th.mine), false},
	}
}

// reporting is what a node says of itself and its pods.
func (th thief) reporting() []theft {
	const claimed = `{"status":{"capacity":{"cpu":"1000"}}}`
	return []theft{
		{"as its node: change its Node", th.own, patchNode(th.mine, `{"metadata":{"annotations":{"x":"y"}}}`), true},
		{"as its node: claim capacity", th.own, patchNode(th.mine, claimed, "status"), true},
		{"as its node: change another Node", th.own, patchNode(th.others, `{"metadata":{"labels":{"x":"y"}}}`), false},
		{"as its node: report another Node's status", th.own, patchNode(th.others, claimed, "status"), false},
		{"as its node: remove its taint", th.own, patchNode(th.mine, `{"spec":{"taints":null}}`), false},
		{
			"as its node: take a label of the cluster's", th.own,
			patchNode(th.mine, `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`), false,
		},
		{"as its node: report a pod's status", th.own, reportPod(th.mine), true},
		{"as its node: report the status of another node's pod", th.own, reportPod(th.others), false},
		{"as its node: delete a pod of the node", th.own, deletePod(th.mine), true},
		{"as its node: delete a pod of another node", th.own, deletePod(th.others), false},
		{"as its node: write an Event, even about another Node", th.own, writeEvent(th.others), true},
		{"as its node: renew its Lease", th.own, renew(corev1.NamespaceNodeLease, th.mine), true},
		{"as its node: renew another node's Lease", th.own, renew(corev1.NamespaceNodeLease, th.others), false},
	}
}

// creating is what a node makes. The last row takes the Node away, with which the others work.
func (th thief) creating() []theft {
	return []theft{
		{"as its node: make a mirror pod", th.own, th.mirror(func(*corev1.Pod) {}), true},
		{"as its node: make another pod", th.own, th.mirror(func(pod *corev1.Pod) { pod.Annotations = nil }), false},
		{"as its node: make a mirror pod with a Secret", th.own, th.mirror(func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: th.others},
			}}}
		}), false},
		{"as its node: delete its Node", th.own, func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Nodes().Delete(ctx, th.mine, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}, false},
		{"as its node: register without taints after somebody deleted the Node", th.own, th.registerAnew, true},
	}
}

func (th thief) registerAnew(ctx context.Context, c kubernetes.Interface) error {
	err := th.admin.CoreV1().Nodes().Delete(ctx, th.mine, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	made, err := c.CoreV1().Nodes().Create(
		ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: th.mine}}, metav1.CreateOptions{},
	)
	if err == nil && slices.ContainsFunc(made.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "k" }) {
		err = fmt.Errorf("it has the taint of before: %v", made.Spec.Taints)
	}
	return err
}

// mirror makes a pod of the node, as those of static pods are made.
func (th thief) mirror(change func(*corev1.Pod)) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		node, err := c.CoreV1().Nodes().Get(ctx, th.mine, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "mirror-" + th.mine, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
				}},
			},
			Spec: corev1.PodSpec{NodeName: th.mine, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		change(pod)
		_, err = c.CoreV1().Pods(robbed).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

func whoami(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
	)
	return err
}

func readSecret(name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Secrets(robbed).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func listSecrets(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	return err
}

func readConfigMap(namespace, name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func readClaim(name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().PersistentVolumeClaims(robbed).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func patchNode(node, body string, subresources ...string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Nodes().Patch(
			ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...,
		)
		return err
	}
}

func reportPod(name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Pods(robbed).Patch(
			ctx, name, types.MergePatchType, []byte(`{"status":{"message":"stolen"}}`), metav1.PatchOptions{}, "status",
		)
		return err
	}
}

func deletePod(name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().Pods(robbed).Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// token asks for one of a ServiceAccount, bound to a pod where one is named.
func token(account, audience, pod string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		request := &authenticationv1.TokenRequest{}
		if audience != "" {
			request.Spec.Audiences = []string{audience}
		}
		if pod != "" {
			to, err := c.CoreV1().Pods(robbed).Get(ctx, pod, metav1.GetOptions{})
			if err != nil {
				return err
			}
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod, UID: to.UID,
			}
		}
		_, err := c.CoreV1().ServiceAccounts(robbed).CreateToken(ctx, account, request, metav1.CreateOptions{})
		return err
	}
}

func writeEvent(node string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Events(robbed).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "theft-"},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
			Reason:         "Stolen", Type: corev1.EventTypeNormal, Message: "so it is said",
		}, metav1.CreateOptions{})
		return err
	}
}

// renew renews a lease, or makes it.
func renew(namespace, name string) try {
	return func(ctx context.Context, c kubernetes.Interface) error {
		leases := c.CoordinationV1().Leases(namespace)
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(
				ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
			)
			return err
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		if err != nil { // it may be written all the same
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		now := metav1.NowMicro()
		holder := "thief at " + now.Format(time.RFC3339)
		lease.Spec.RenewTime, lease.Spec.HolderIdentity = &now, &holder
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}
}
