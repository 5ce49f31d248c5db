package removal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ownedBy(kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: new(true)}}
}

func TestHowPodsAreMadeToLeave(t *testing.T) {
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	for _, tc := range []struct {
		name          string
		pod           func(*corev1.Pod)
		direct        bool
		waited, force time.Duration
		want          verb
	}{
		{name: "a pod is evicted first, so that budgets hold", force: time.Minute, want: evict},
		{name: "once the wait is over it is deleted", waited: time.Minute, force: time.Minute, want: remove},
		{name: "not a moment sooner", waited: time.Minute - 1, force: time.Minute, want: evict},
		{name: "a wait of nothing: at once", want: remove},
		{name: "a negative wait never ends", waited: time.Hour, force: -1, want: evict},
		{name: "what is ending is let end", pod: ending, waited: time.Hour, want: wait},
		{name: "even where nothing is to be asked", pod: ending, direct: true, want: wait},
		{
			name: "no budget is for DaemonSets' pods", pod: func(p *corev1.Pod) { p.OwnerReferences = ownedBy("DaemonSet") },
			force: time.Minute, want: remove,
		},
		{
			name: "nor for pods that have ended", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
			force: time.Minute, want: remove,
		},
		{name: "on a node that is gone they are deleted", direct: true, force: time.Minute, want: remove},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if tc.pod != nil {
				tc.pod(pod)
			}
			if got := decide(pod, tc.direct, tc.waited, tc.force); got != tc.want {
				t.Errorf("decide = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhyPodsAreLeft(t *testing.T) {
	at := &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	ended := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at, DeletionGracePeriodSeconds: new(int64), Finalizers: []string{
			"example.org/a", "example.org/b",
		}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed},
	}
	running := *ended.DeepCopy() // somebody forced its deletion, and the remote cannot be reached
	running.Status.Phase = corev1.PodRunning
	for _, tc := range []struct {
		name, refused, want string
		pod                 corev1.Pod
	}{
		{"finalizers", "", "has ended and waits for its finalizers example.org/a, example.org/b", ended},
		{"a pod that may run is not one that finalizers hold", "", "was asked to end by 03:04:05 UTC and has not", running},
		{"a budget", "too many requests", "was not let go: too many requests", corev1.Pod{}},
		{
			"made again", "", "runs, or was made again by DaemonSet owner",
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: ownedBy("DaemonSet")}},
		},
		{"never asked", "", "runs", corev1.Pod{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := whyLeft(&tc.pod, tc.refused); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestOnlyBurstletsNodesAreOurs(t *testing.T) {
	for _, tc := range []struct {
		name, label, version string
		want                 bool
	}{
		{"ours", virtualLabelValue, "v1.36.3+burstlet-0.1.0", true},
		{"made a moment ago", virtualLabelValue, "", true},
		{"another virtual kubelet", virtualLabelValue, "v1.36.3-vk-azure-aci-1.0", false},
		{"a kubelet", "", "v1.36.3", false},
		{"a machine without a status", "", "", false},
		{"without the label", "", "v1.36.3+burstlet-0.1.0", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"type": tc.label}}}
			node.Status.NodeInfo.KubeletVersion = tc.version
			if got := isOurs(node); got != tc.want {
				t.Errorf("isOurs = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhoServesIsToldByRenewals(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	lease := func(holder string, renewed int) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(8)), RenewTime: &metav1.MicroTime{Time: at(renewed)},
		}}
	}
	type look struct {
		lease *coordinationv1.Lease
		at    int
		want  string
	}
	for name, looks := range map[string][]look{
		"no lease":                           {{nil, 0, ""}},
		"given up":                           {{lease("", 0), 0, ""}},
		"renewed":                            {{lease("a", 0), 0, "a"}, {lease("a", 7), 8, "a"}, {lease("a", 15), 16, "a"}},
		"not renewed for its duration":       {{lease("a", 0), 0, "a"}, {lease("a", 0), 7, "a"}, {lease("a", 0), 8, ""}},
		"an old renewal of a skewed clock":   {{lease("a", 0), 100, "a"}, {lease("a", 7), 107, "a"}},
		"old, and looked at long enough":     {{lease("a", 0), 100, "a"}, {lease("a", 0), 108, ""}},
		"dead for long is not waited for":    {{lease("a", 0), 301, ""}},
		"another took it":                    {{lease("a", 0), 0, "a"}, {lease("b", 0), 8, "b"}},
		"given up and taken":                 {{lease("a", 0), 0, "a"}, {lease("", 1), 1, ""}, {lease("b", 2), 2, "b"}},
		"deleted by who had it, and at once": {{lease("a", 0), 0, "a"}, {nil, 1, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var o observer
			for i, l := range looks {
				if got := o.see(l.lease, at(l.at)); got != l.want {
					t.Errorf("look %d: %q, want %q", i, got, l.want)
				}
			}
		})
	}
}

// request is a certificate request in PEM.
func request(t *testing.T, cn string, org ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(
		rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: org}}, key,
	)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestWhichRequestsAreTheNodes(t *testing.T) {
	n := New(Config{Name: "edge", Signers: []string{"example.org/serving"}})
	ours := request(t, "system:node:edge", "system:nodes")
	for _, tc := range []struct {
		name, signer string
		pem          []byte
		want         bool
	}{
		{"serving", certificatesv1.KubeletServingSignerName, ours, true},
		{"client", certificatesv1.KubeAPIServerClientKubeletSignerName, ours, true},
		{"the configured signer", "example.org/serving", ours, true},
		{"another signer", "example.org/other", ours, false},
		{"another node", certificatesv1.KubeletServingSignerName, request(t, "system:node:edge-2", "system:nodes"), false},
		{"a user of that name", certificatesv1.KubeletServingSignerName, request(t, "system:node:edge"), false},
		{"no PEM", certificatesv1.KubeletServingSignerName, []byte("x"), false},
		{"no request", certificatesv1.KubeletServingSignerName, []byte(strings.Replace(string(ours), "MI", "MA", 1)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: tc.signer, Request: tc.pem,
			}}
			if got := n.requested(csr); got != tc.want {
				t.Errorf("requested = %v, want %v", got, tc.want)
			}
		})
	}
}
