package provider

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// logged returns a context whose log lands in the buffer.
func logged(ctx context.Context) (context.Context, *bytes.Buffer) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	logger.SetLevel(logrus.DebugLevel)
	return log.WithLogger(ctx, logrus.NewEntry(logger)), &out
}

// restrict makes a fake API server refuse labels as NodeRestriction does.
func restrict(client *fake.Clientset) {
	refuse := apierrors.NewForbidden(
		schema.GroupResource{Resource: "nodes"}, "n1", errors.New("is not allowed to modify labels"),
	)
	client.PrependReactor("create", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		node := a.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		for key := range node.Labels {
			if restricted(key) {
				return true, nil, refuse
			}
		}
		return false, nil, nil
	})
	client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), "node-role") {
			return true, nil, refuse
		}
		return false, nil, nil
	})
}

func TestEnsureNode(t *testing.T) {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", Labels: map[string]string{virtualLabel: virtualLabelValue},
	}}
	role := map[string]string{"node-role.kubernetes.io/agent": ""}
	ours := func(change func(*corev1.Node)) *corev1.Node {
		node := want.DeepCopy()
		node.Spec.Taints = []corev1.Taint{DefaultTaint()}
		node.Status.NodeInfo.KubeletVersion = "v1.36.3+burstlet-0.1.0"
		change(node)
		return node
	}
	for _, tc := range []struct {
		name       string
		existing   *corev1.Node
		restricted bool // the API server holds nodes to NodeRestriction
		labels     map[string]string
		labelled   bool   // the Node then has them
		tainted    bool   // the Node then has the taint
		advice     string // the log then says so; empty: it names no command
	}{
		{name: "new", tainted: true},
		{name: "new, with labels that the credential may set", labels: role, labelled: true, tainted: true},
		{
			name: "new, with labels that it may not set", labels: role, restricted: true, tainted: true,
			advice: "kubectl label --overwrite node n1 node-role.kubernetes.io/agent=",
		},
		{
			name: "existing, with labels to add", labels: role, existing: ours(func(*corev1.Node) {}),
			labelled: true, tainted: true,
		},
		{
			name: "existing, with labels that may not be added", labels: role, restricted: true,
			existing: ours(func(*corev1.Node) {}), tainted: true,
			advice: "kubectl label --overwrite node n1 node-role.kubernetes.io/agent=",
		},
		{
			name: "existing, labelled by an administrator", labels: role, restricted: true,
			existing: ours(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/agent"] = "" }),
			labelled: true, tainted: true,
		},
		{
			name: "existing without the taint", existing: ours(func(n *corev1.Node) { n.Spec.Taints = nil }),
			advice: "kubectl taint node n1 virtual-kubelet.io/provider=burstlet:NoSchedule",
		},
		{
			name:     "made beforehand by an administrator",
			existing: ours(func(n *corev1.Node) { n.Labels, n.Status = nil, corev1.NodeStatus{} }), tainted: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.existing != nil {
				if err := client.Tracker().Add(tc.existing); err != nil {
					t.Fatal(err)
				}
			}
			if tc.restricted {
				restrict(client)
			}
			ctx, out := logged(t.Context())
			r := registrar{nodes: client.CoreV1().Nodes(), taints: []corev1.Taint{DefaultTaint()}, restricted: tc.labels}
			if _, err := r.ensure(ctx, want); err != nil {
				t.Fatal(err)
			}
			node, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(tc.labels) > 0 && within(tc.labels, node.Labels); got != tc.labelled {
				t.Errorf("labels %v", node.Labels)
			}
			if got := slices.Contains(node.Spec.Taints, DefaultTaint()); got != tc.tainted {
				t.Errorf("taints %v", node.Spec.Taints)
			}
			if log := out.String(); !strings.Contains(log, tc.advice) || tc.advice == "" && strings.Contains(log, "kubectl") {
				t.Errorf("advice %q, want %q", log, tc.advice)
			}
		})
	}
}

func TestNodeOfAnotherKubeletIsLeftAlone(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"}},
	})
	r := registrar{nodes: client.CoreV1().Nodes()}
	_, err := r.ensure(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	if !errors.Is(err, errForeign) || !strings.Contains(err.Error(), "kubectl delete node n1") {
		t.Error(err)
	}
	if found := writes(client, "nodes"); len(found) > 0 {
		t.Errorf("wrote %v", found)
	}
}

func TestExplain(t *testing.T) {
	resource := schema.GroupResource{Resource: "nodes"}
	for want, err := range map[string]error{
		"does not accept this credential (401)": apierrors.NewUnauthorized("no"),
		"user system:node:n1 in group":          apierrors.NewForbidden(resource, "n1", errors.New("no")),
		"answers":                               apierrors.NewInternalError(errors.New("no")),
		"cannot reach the API server":           errors.New("connection refused"),
	} {
		got := explain("https://h:1", "n1", "register node n1", err)
		if !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "https://h:1") || !errors.Is(got, err) {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}
