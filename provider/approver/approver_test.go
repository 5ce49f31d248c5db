package approver

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/test/kit/background"
)

// loop is an approver that runs on a cluster in memory.
type loop struct {
	*Approver
	t      *testing.T
	client *fake.Clientset
}

func start(t *testing.T, cfg Config, objects ...runtime.Object) loop {
	t.Helper()
	return startOn(t, fake.NewClientset(objects...), cfg)
}

// startOn takes a client with all its reactors: from now on the approver reads them,
// and a client adds none under its lock.
func startOn(t *testing.T, client *fake.Clientset, cfg Config) loop {
	t.Helper()
	cfg.Client, cfg.Registerer = client, prometheus.NewRegistry()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(synctest.Wait)
	background.Run(t, a.Run)
	return loop{a, t, client}
}

// settled waits until nothing happens any more, and says whether the request is
// approved.
func (l loop) settled(name string) bool {
	l.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	csr, err := l.client.CertificatesV1().CertificateSigningRequests().Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return !open(csr)
}

func (l loop) count(result, reason string) float64 {
	return testutil.ToFloat64(l.metrics.requests.WithLabelValues(result, reason))
}

func network() Policy {
	return Policy{Nodes: []string{"edge-1"}, AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
}

func TestRequestsAreApprovedAsTheyCome(t *testing.T) {
	first, second := own().make(t), own().make(t)
	second.Name, second.UID = "csr-2", "2"
	synctest.Test(t, func(t *testing.T) {
		l := start(t, Config{Policy: network()}, edge("10.1.2.3"), first)
		if !l.settled("csr-1") || !l.Ready() {
			t.Error("the request that was there is not approved")
		}
		if _, err := l.client.CertificatesV1().CertificateSigningRequests().Create(
			t.Context(), second, metav1.CreateOptions{},
		); err != nil {
			t.Fatal(err)
		}
		if !l.settled("csr-2") || l.count(resultApproved, "") != 2 {
			t.Errorf("approved %v requests, want 2", l.count(resultApproved, ""))
		}
	})
}

// Client certificates are looked at where there are groups of bootstrap tokens, and there
// alone: the rights for their signer are given with them.
func TestClientCertificatesOfBootstrapTokens(t *testing.T) {
	for _, groups := range [][]string{nil, {"system:bootstrappers:burstlet"}} {
		csr := first().make(t)
		synctest.Test(t, func(t *testing.T) {
			policy := network()
			policy.BootstrapGroups = groups
			l := start(t, Config{Policy: policy}, csr)
			if got := l.settled("csr-1"); got != (groups != nil) {
				t.Errorf("with groups %q the request is decided: %v", groups, got)
			}
			found, err := l.client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range found.Status.Conditions {
				if c.Reason != clientReason {
					t.Errorf("it is approved because %s", c.Reason)
				}
			}
		})
	}
}

// What a request lacks may come: it is told once, and looked at again.
func TestRequestsWaitForTheirNodeAndItsAddresses(t *testing.T) {
	csr := own().make(t)
	synctest.Test(t, func(t *testing.T) {
		l := start(t, Config{Policy: network()}, csr)
		if l.settled("csr-1") || l.count(resultLeft, string(OtherNode)) != 1 || testutil.ToFloat64(l.metrics.waiting) != 1 {
			t.Error("a request without a Node was not left alone, or not told once")
		}
		ordinary := edge("10.1.2.3")
		ordinary.Labels = nil
		if _, err := l.client.CoreV1().Nodes().Create(t.Context(), ordinary, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if l.settled("csr-1") {
			t.Error("a real node's request was approved")
		}
		if err := l.client.CoreV1().Nodes().Delete(t.Context(), ordinary.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		node, err := l.client.CoreV1().Nodes().Create(t.Context(), edge("10.1.9.9"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l.settled("csr-1") || l.count(resultLeft, string(ForeignAddress)) != 1 {
			t.Error("a request with an address that the Node has not was not left alone")
		}
		node.Status.Addresses = edge("10.1.2.3").Status.Addresses
		if _, err := l.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if !l.settled("csr-1") || testutil.ToFloat64(l.metrics.waiting) != 0 {
			t.Error("not approved when the Node had the address")
		}
	})
}

// The addresses of burstlet's pods are those that real kubelets tell of.
func TestAddressesOfPods(t *testing.T) {
	pod := func(node, namespace, app string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: namespace, Labels: map[string]string{"app": app},
		}}
		p.Spec.NodeName, p.Status.Phase = node, phase
		p.Status.PodIPs = []corev1.PodIP{{IP: "10.1.2.3"}}
		p.Spec.ServiceAccountName = "burstlet"
		return p
	}
	mirror := pod("real", "burstlet", "burstlet", corev1.PodRunning)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	another := pod("real", "burstlet", "burstlet", corev1.PodRunning)
	another.Spec.ServiceAccountName = "default"
	csr := own().make(t)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"burstlet's":                                 {pod("real", "burstlet", "burstlet", corev1.PodRunning), true},
		"of another app":                             {pod("real", "burstlet", "other", corev1.PodRunning), false},
		"in another namespace":                       {pod("real", "default", "burstlet", corev1.PodRunning), false},
		"one that ended":                             {pod("real", "burstlet", "burstlet", corev1.PodFailed), false},
		"on the virtual node itself":                 {pod("edge-1", "burstlet", "burstlet", corev1.PodRunning), false},
		"a mirror pod, which a node makes by itself": {mirror, false},
		"with another ServiceAccount":                {another, false},
		"on no node":                                 {pod("", "burstlet", "burstlet", corev1.PodPending), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := start(t, Config{
					Policy: Policy{Nodes: []string{"edge-1"}}, PodSelector: "app=burstlet", PodNamespace: "burstlet",
					PodServiceAccount: "burstlet",
				}, edge("10.1.2.3"), csr)
				if l.settled("csr-1") {
					t.Fatal("approved without a pod")
				}
				if _, err := l.client.CoreV1().Pods(tc.pod.Namespace).Create(
					t.Context(), tc.pod, metav1.CreateOptions{},
				); err != nil {
					t.Fatal(err)
				}
				if got := l.settled("csr-1"); got != tc.want {
					t.Errorf("approved: %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestApprovalIsTriedAgain(t *testing.T) {
	csr := own().make(t)
	synctest.Test(t, func(t *testing.T) {
		client, failures := fake.NewClientset(edge("10.1.2.3")), 2
		client.PrependReactor(
			"update",
			"certificatesigningrequests",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				if failures == 0 {
					return false, nil, nil
				}
				failures--
				return true, nil, errors.New("etcd is away")
			},
		)
		l := startOn(t, client, Config{Policy: network()})
		if _, err := l.client.CertificatesV1().CertificateSigningRequests().Create(
			t.Context(), csr, metav1.CreateOptions{},
		); err != nil {
			t.Fatal(err)
		}
		if !l.settled("csr-1") || l.count(resultFailed, "") != 2 || l.count(resultApproved, "") != 1 {
			t.Errorf("%v failures and %v approvals, want 2 and 1", l.count(resultFailed, ""), l.count(resultApproved, ""))
		}
	})
}

// A request that somebody decides or deletes is waited for no longer.
func TestOthersMayDecide(t *testing.T) {
	denied, deleted := own(), own()
	for _, w := range []*wish{&denied, &deleted} {
		w.template.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")}
	}
	deleted.csr.Name, deleted.csr.UID = "csr-2", "2"
	first, second := denied.make(t), deleted.make(t)
	synctest.Test(t, func(t *testing.T) {
		l := start(t, Config{Policy: network()}, edge("10.1.2.3"), first, second)
		if l.settled("csr-1") || l.settled("csr-2") || testutil.ToFloat64(l.metrics.waiting) != 2 {
			t.Error("foreign addresses were approved, or are not waited for")
		}
		first = first.DeepCopy()
		first.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue,
		}}
		requests := l.client.CertificatesV1().CertificateSigningRequests()
		if _, err := requests.UpdateApproval(t.Context(), first.Name, first, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := requests.Delete(t.Context(), second.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := testutil.ToFloat64(l.metrics.waiting); got != 0 {
			t.Errorf("%v requests are waited for, want none", got)
		}
	})
}

func TestConfigurationsThatCannotBeMeant(t *testing.T) {
	listed := Policy{Nodes: []string{"edge-1"}}
	for name, cfg := range map[string]Config{
		"no address is vouched for":  {Policy: listed},
		"pods of every namespace":    {Policy: listed, PodSelector: "app=burstlet", PodServiceAccount: "burstlet"},
		"pods of any ServiceAccount": {Policy: listed, PodSelector: "app=burstlet", PodNamespace: "burstlet"},
		"a selector that is none": {
			Policy: listed, PodSelector: "app in", PodNamespace: "burstlet", PodServiceAccount: "burstlet",
		},
		"no names of nodes": {Policy: Policy{AllowedIPs: network().AllowedIPs}},
	} {
		cfg.Client = fake.NewClientset()
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
