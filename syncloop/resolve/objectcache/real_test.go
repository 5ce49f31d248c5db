package objectcache

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane = cptest.Shared{Config: controlplane.Config{WithoutScheduler: true, APIServerArgs: []string{
	"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
	"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
}}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// realAPI is a Cache with a node's own rights on a real API server.
type realAPI struct {
	*Cache
	t *testing.T
	// name is that of the node, the namespace and all that has none.
	name  string
	admin kubernetes.Interface

	mu       sync.Mutex
	requests []string // of the node, "verb path status"
	changes  map[types.UID]int
}

// wrap notes what the node asks for.
func (r *realAPI) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		verb := req.Method
		if req.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		reply, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, verb+" "+req.URL.Path+" "+req.URL.Query().Get("fieldSelector")+" "+reply.Status)
		return reply, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// asked counts the node's requests that hold all these words.
func (r *realAPI) asked(words ...string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, request := range r.requests {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(request, w) }) {
			n++
		}
	}
	return n
}

func newReal(t *testing.T) *realAPI {
	t.Helper()
	cp := plane.Get(t)
	admin := cptest.Client(t, cp.AdminConfig())
	r := &realAPI{
		t: t, name: "objectcache-" + strconv.FormatInt(time.Now().UnixNano(), 36), admin: admin, changes: map[types.UID]int{},
	}
	ctx := t.Context()
	_, err := admin.CoreV1().Nodes().Create(
		ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.name}}, metav1.CreateOptions{},
	)
	r.check(err)
	_, err = admin.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.name}}, metav1.CreateOptions{},
	)
	r.check(err)
	cred, err := cp.NodeCredential(r.name)
	r.check(err)
	cred.Wrap(r.wrap)
	client := cptest.Client(t, cred)
	r.Cache = New(Config{Client: client, Node: r.name, Changed: func(uid types.UID) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes[uid]++
	}})
	background.Run(t, r.Run)
	return r
}

func (r *realAPI) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// within waits until what is true.
func (r *realAPI) within(limit time.Duration, what string, ok func() bool) {
	r.t.Helper()
	wait.For(r.t, limit, what, func() error {
		if ok() {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("requests:\n%s", strings.Join(r.requests, "\n"))
	})
}

func (r *realAPI) create(pod *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	pod.Namespace, pod.UID = r.name, ""
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = r.name, ""
	pod.Spec.Containers[0].Image = "i"
	var made *corev1.Pod
	r.within(3*time.Minute, "the pod is made", func() bool { // its service account comes a moment later
		var err error
		made, err = r.admin.CoreV1().Pods(r.name).Create(r.t.Context(), pod, metav1.CreateOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			r.t.Fatal(err)
		}
		return err == nil
	})
	return made
}

// TestWithANodesRights: the Node authorizer and NodeRestriction let through all
// that a pod's Objects are made of, from the moment at which the pod was made.
func TestWithANodesRights(t *testing.T) {
	r := newReal(t)
	ctx, core := t.Context(), r.admin.CoreV1()
	anchors := realCert(t)
	r.makeObjects(anchors)

	pod := testPod("p", "config", "missing")
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "secret"}}
	mount(pod, "t", tokenVolume(resolve.TokenKey{Audience: "vault", Expiration: 600}))
	mount(
		pod, "c", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}},
	)
	mount(pod, "b", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &r.name, Path: "one"}},
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
			SignerName: new("example.com/" + r.name), LabelSelector: &metav1.LabelSelector{}, Path: "s",
		}},
	}}})
	pod = r.create(pod)
	r.Set(pod)
	refs := resolve.References(pod)
	r.within(3*time.Minute, "all is known", func() bool { return known(r.Objects(pod), refs) })

	o := r.Objects(pod)
	if got := o.ConfigMaps["config"].Value.Data["k"]; got != "1" {
		t.Errorf("ConfigMap holds %q", got)
	}
	if err := o.ConfigMaps["missing"].Err; err == nil || err.Error() != `configmap "missing" not found` {
		t.Errorf("missing ConfigMap: %v", err)
	}
	if got := string(o.Secrets["secret"].Value.Data["k"]); got != "s" {
		t.Error("the pull secret is not what was stored")
	}
	if c := o.Claims["claim"]; c.Err != nil || c.Value.Source.HostPath.Path != "/data" {
		t.Errorf("claim: %v", c)
	}
	if got := serviceNames(o); got != "[default/kubernetes]" {
		t.Errorf("services %s", got)
	}
	for _, b := range refs.Bundles {
		if got := o.Bundles[b.Key]; got.Err != nil || got.Value != anchors {
			t.Errorf("bundle %s: %v", b.Key, got.Err)
		}
	}
	for _, key := range refs.Tokens {
		r.checkToken(pod, key, o.Tokens[key])
	}
	r.checkRequests()

	// Live updates, an object that is made late, and one made anew.
	r.update("config", "2")
	r.within(3*time.Minute, "the update is seen", func() bool {
		return r.Objects(pod).ConfigMaps["config"].Value.Data["k"] == "2"
	})
	r.putConfigMap("missing", "late")
	r.within(3*time.Minute, "the late one is seen", func() bool { return r.Objects(pod).ConfigMaps["missing"].Err == nil })
	r.check(core.ConfigMaps(r.name).Delete(ctx, "config", metav1.DeleteOptions{}))
	r.within(3*time.Minute, "the delete is seen", func() bool {
		return apierrors.IsNotFound(r.Objects(pod).ConfigMaps["config"].Err)
	})
	r.putConfigMap("config", "3")
	r.within(3*time.Minute, "the new one is seen", func() bool {
		m := r.Objects(pod).ConfigMaps["config"]
		return m.Err == nil && m.Value.Data["k"] == "3"
	})
	r.checkStranger(pod)
}

// known reports whether every reference is known, and not refused.
func known(o resolve.Objects, refs resolve.Refs) bool {
	return o.ServicesSynced && len(o.ConfigMaps) == len(refs.ConfigMaps) && len(o.Secrets) > 0 &&
		len(o.Tokens) == len(refs.Tokens) && len(o.Claims) == len(refs.Claims) && len(o.Bundles) == len(refs.Bundles) &&
		o.ConfigMaps["kube-root-ca.crt"].Err == nil
}

func (r *realAPI) makeObjects(anchors string) {
	r.t.Helper()
	ctx, core := r.t.Context(), r.admin.CoreV1()
	r.putConfigMap("config", "1")
	_, err := core.Secrets(r.name).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string][]byte{"k": []byte("s")},
	}, metav1.CreateOptions{})
	r.check(err)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err = core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef:               &corev1.ObjectReference{Namespace: r.name, Name: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}, metav1.CreateOptions{})
	r.check(err)
	_, err = core.PersistentVolumeClaims(r.name).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
			VolumeName: r.name, StorageClassName: new(""),
		},
	}, metav1.CreateOptions{})
	r.check(err)
	for name, signer := range map[string]string{r.name: "", "example.com:" + r.name + ":x": "example.com/" + r.name} {
		_, err := r.admin.CertificatesV1beta1().ClusterTrustBundles().Create(ctx, &certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: anchors},
		}, metav1.CreateOptions{})
		r.check(err)
	}
}

func (r *realAPI) putConfigMap(name, value string) {
	r.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
	_, err := r.admin.CoreV1().ConfigMaps(r.name).Create(r.t.Context(), m, metav1.CreateOptions{})
	r.check(err)
}

func (r *realAPI) update(name, value string) {
	r.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
	_, err := r.admin.CoreV1().ConfigMaps(r.name).Update(r.t.Context(), m, metav1.UpdateOptions{})
	r.check(err)
}

// checkToken asks the API server whose token it is.
func (r *realAPI) checkToken(pod *corev1.Pod, key resolve.TokenKey, token resolve.Object[resolve.Token]) {
	r.t.Helper()
	r.check(token.Err)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Value.Value}}
	if key.Audience != "" {
		review.Spec.Audiences = []string{key.Audience}
	}
	review, err := r.admin.AuthenticationV1().TokenReviews().Create(r.t.Context(), review, metav1.CreateOptions{})
	r.check(err)
	if got := review.Status.User.Extra["authentication.kubernetes.io/pod-uid"]; !review.Status.Authenticated ||
		len(got) != 1 || got[0] != string(pod.UID) {
		r.t.Errorf("token for %q is bound to %v: %s", key.Audience, got, review.Status.Error)
	}
	life := time.Until(token.Value.Expires)
	if want := time.Duration(key.Expiration) * time.Second; life < want-time.Minute || life > want+time.Minute {
		r.t.Errorf("token for %q lives %v, want %v", key.Audience, life, want)
	}
}

// checkRequests: one watch for each object, and each token was granted once.
func (r *realAPI) checkRequests() {
	r.t.Helper()
	for _, w := range []string{
		"configmaps metadata.name=config ", "configmaps metadata.name=missing ", "secrets metadata.name=secret ",
	} {
		r.within(3*time.Minute, "a watch of "+w, func() bool { return r.asked("WATCH", w, "200") == 1 })
	}
	if n := r.asked("POST", "/token", "201"); n != 2 {
		r.t.Errorf("%d tokens were granted, want 2", n)
	}
	if n := r.asked("GET", "/persistentvolumeclaims/claim", "200"); n < 1 {
		r.t.Error("the claim was never read")
	}
}

// checkStranger: what the authorizer does not let us read is told as that.
func (r *realAPI) checkStranger(pod *corev1.Pod) {
	r.t.Helper()
	// The API server has no pod of this node that refers to it.
	stranger := testPod("stranger", "unrelated")
	stranger.Namespace = r.name
	r.Set(stranger)
	r.within(3*time.Minute, "a refusal is told", func() bool {
		return apierrors.IsForbidden(r.Objects(stranger).ConfigMaps["unrelated"].Err)
	})
	// A slow machine asks less often.
	if n := r.asked("unrelated", "403"); n < 2 || n > 12 {
		r.t.Errorf("%d refusals within 5 s, want up to 10", n)
	}
	r.Forget(stranger.UID)
	r.Forget(pod.UID)
	r.Cache.mu.Lock()
	defer r.Cache.mu.Unlock()
	if len(r.configMaps.objects) != 0 || len(r.secrets.objects) != 0 || len(r.pods) != 0 {
		r.t.Error("forgotten pods left something behind")
	}
}

func realCert(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "anchor"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
