package objectcache

import (
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

func cert(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func trustBundle(name, signer, label, text string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": label}},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
}

func bundlePod(name string, p corev1.ClusterTrustBundleProjection) (pod *corev1.Pod, key string) {
	pod = testPod(name)
	mount(pod, "v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &p}},
	}})
	return pod, resolve.BundleKey(&p)
}

func (h *harness) bundle(pod *corev1.Pod, key string) string {
	h.settle()
	return seen(h.Objects(pod).Bundles, key, func(s string) string { return s })
}

func TestTrustBundles(t *testing.T) {
	all := []runtime.Object{
		trustBundle("one", "", "", "words\n"+cert("b")+cert("a")+"more"+cert("b")),
		trustBundle("s:x", "s", "x", cert("c")+cert("a")),
		trustBundle("s:y", "s", "y", cert("a")+cert("b")),
		trustBundle("t:x", "t", "x", cert("d")),
	}
	label := func(v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"l": v}}
	}
	for _, tt := range []struct {
		name    string
		selects corev1.ClusterTrustBundleProjection
		want    string
	}{
		{"by name: each once, sorted", corev1.ClusterTrustBundleProjection{Name: new("one")}, cert("a") + cert("b")},
		{
			"of a signer",
			corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: &metav1.LabelSelector{}},
			cert("a") + cert("b") + cert("c"),
		},
		{
			"of a signer, by label",
			corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: label("x")},
			cert("a") + cert("c"),
		},
		{
			"no such name",
			corev1.ClusterTrustBundleProjection{Name: new("none")},
			`error: while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found`,
		},
		{
			"no such label",
			corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: label("z")},
			"error: combination of signerName and labelSelector matched zero ClusterTrustBundles",
		},
		{
			"no selector selects nothing",
			corev1.ClusterTrustBundleProjection{SignerName: new("s")},
			"error: combination of signerName and labelSelector matched zero ClusterTrustBundles",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod, key := bundlePod("a", tt.selects)
				h.Set(pod)
				if got := h.bundle(pod, key); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
				if err := h.Objects(pod).Bundles[key].Err; err != nil && !apierrors.IsNotFound(err) {
					t.Error("an optional source cannot tell that it is missing")
				}
			}, all...)
		})
	}
}

func (h *harness) putBundle(name, text string) {
	h.t.Helper()
	gvr := certificatesv1beta1.SchemeGroupVersion.WithResource("clustertrustbundles")
	err := h.api.Tracker().Update(gvr, trustBundle(name, "", "", text), "")
	if apierrors.IsNotFound(err) {
		err = h.api.Tracker().Create(gvr, trustBundle(name, "", "", text), "")
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestTrustBundlesAreReadAgain(t *testing.T) {
	bubble(t, func(h *harness) {
		a, key := bundlePod("a", corev1.ClusterTrustBundleProjection{Name: new("one")})
		b, _ := bundlePod("b", corev1.ClusterTrustBundleProjection{Name: new("one")})
		h.Set(a)
		h.Set(b)
		h.settle()
		h.told(a)
		h.told(b)
		if n := h.count("list clustertrustbundles"); n != 1 {
			t.Fatalf("%d lists for two pods", n)
		}
		down := func(err error) func(string) error { return func(string) error { return err } }
		for _, step := range []struct {
			name   string
			answer func(string) error
			text   string // that is stored meanwhile
			wait   time.Duration
			want   string
			told   int
		}{
			{"made", nil, cert("a"), 10 * time.Second, cert("a"), 1},
			{"in an outage", down(errors.New("down")), cert("z"), 10 * time.Minute, cert("a"), 0},
			{"without the right", down(forbidden("clustertrustbundles", "")), cert("z"), 10 * time.Minute, "is forbidden", 1},
			{"with it again", nil, cert("b"), 3 * time.Minute, cert("b"), 1},
			{"changed", nil, cert("c"), 3 * time.Minute, cert("c"), 1},
			{"not changed", nil, cert("c"), 3 * time.Minute, cert("c"), 0},
		} {
			h.putBundle("one", step.text)
			h.fail(step.answer)
			h.pass(step.wait)
			if got := h.bundle(b, key); !strings.Contains(got, step.want) {
				t.Errorf("%s: %q", step.name, got)
			}
			if n, m := h.told(a), h.told(b); n != step.told || m != step.told {
				t.Errorf("%s: told %d and %d times, want %d", step.name, n, m, step.told)
			}
		}
		h.fail(nil)
		h.Forget(a.UID)
		h.Forget(b.UID)
		n := h.count("list clustertrustbundles")
		h.pass(time.Hour)
		if again := h.count("list clustertrustbundles"); again != n || len(h.bundles) != 0 {
			t.Error("a bundle that nobody uses is read")
		}
	})
}

func TestVersionsOfTheTrustBundleAPI(t *testing.T) {
	alpha := &certificatesv1alpha1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       certificatesv1alpha1.ClusterTrustBundleSpec{TrustBundle: cert("alpha")},
	}
	notServed := apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "", 0, true)
	no := apierrors.NewForbidden(
		schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}, "", errors.New("no"),
	)
	refusal := `error: while listing ClusterTrustBundles: clustertrustbundles.certificates.k8s.io is forbidden: no`
	for _, tt := range []struct {
		name        string
		beta, alpha error
		want        string
	}{
		{"alpha only", notServed, nil, cert("alpha")},
		{"beta is forbidden and may not be served", no, nil, cert("alpha")},
		{"neither", notServed, notServed, "error: " + errNoBundles.Error()},
		{"forbidden", no, no, refusal},
		{"beta is not served, alpha is forbidden", notServed, no, refusal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.api.PrependReactor("list", "clustertrustbundles", func(a clienttesting.Action) (bool, runtime.Object, error) {
					err := tt.alpha
					if a.GetResource().Version == "v1beta1" {
						err = tt.beta
					}
					return err != nil, nil, err
				})
				pod, key := bundlePod("a", corev1.ClusterTrustBundleProjection{Name: new("one")})
				h.Set(pod)
				h.pass(10 * time.Second)
				if got := h.bundle(pod, key); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			}, alpha)
		})
	}
}
