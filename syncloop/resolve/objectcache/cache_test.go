package objectcache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/test/kit/background"
)

// harness is a Cache over a fake API server, in virtual time.
type harness struct {
	*Cache
	t     *testing.T
	api   *fake.Clientset
	began time.Time

	mu      sync.Mutex
	changes map[types.UID]int
	// asked are the times of requests since began, by "verb resource".
	asked map[string][]time.Duration
	// refuse answers a request with an error, if it returns one.
	refuse func(request string) error
	rv     int
	minted int
}

// bubble runs f against a Cache that runs. When f returns Run must end, and with
// it every goroutine: synctest fails the test otherwise.
func bubble(t *testing.T, f func(h *harness), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{
			t: t, api: fake.NewClientset(objects...), began: time.Now(),
			changes: map[types.UID]int{}, asked: map[string][]time.Duration{},
		}
		h.api.PrependReactor("*", "*", h.react)
		h.api.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watchInterface, error) {
			err := h.note("watch " + a.GetResource().Resource)
			return err != nil, nil, err
		})
		h.Cache = New(Config{Client: h.api, Node: "n", Changed: func(uid types.UID) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changes[uid]++
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		synctest.Wait()
		f(h)
		cancel()
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Fatal("Run did not end")
		}
	})
}

func (h *harness) note(request string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[request] = append(h.asked[request], time.Since(h.began))
	if h.refuse != nil {
		return h.refuse(request)
	}
	return nil
}

func (h *harness) react(a clienttesting.Action) (bool, runtime.Object, error) {
	request := a.GetVerb() + " " + a.GetResource().Resource
	if a.GetSubresource() != "" {
		request += "/" + a.GetSubresource()
	}
	if err := h.note(request); err != nil {
		return true, nil, err
	}
	if request == "create serviceaccounts/token" {
		return h.mint(a.(clienttesting.CreateAction))
	}
	return false, nil, nil
}

func (h *harness) count(request string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked[request])
}

func (h *harness) times(request string) []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked[request])
}

func (h *harness) fail(f func(request string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = f
}

// told returns how often Changed was called for the pod since the last time.
func (h *harness) told(pod *corev1.Pod) int {
	h.settle()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.changes[pod.UID]
	delete(h.changes, pod.UID)
	return n
}

func (h *harness) settle() { synctest.Wait() }

func (h *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// put makes or replaces a ConfigMap, with a version as the API server gives it.
func (h *harness) put(name, value string, change ...func(*corev1.ConfigMap)) {
	h.t.Helper()
	h.rv++
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("u" + name), ResourceVersion: strconv.Itoa(h.rv),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Data: map[string]string{"k": value},
	}
	for _, f := range change {
		f(m)
	}
	client := h.api.Tracker()
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	err := client.Update(gvr, m, "ns")
	if apierrors.IsNotFound(err) {
		err = client.Create(gvr, m, "ns")
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.settle()
}

func (h *harness) remove(name string) {
	h.t.Helper()
	if err := h.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), "ns", name); err != nil {
		h.t.Fatal(err)
	}
	h.settle()
}

func immutable(m *corev1.ConfigMap) { m.Immutable = new(true) }

// value is what the pod sees of a ConfigMap: its value, "error: …" or "unknown".
func (h *harness) value(pod *corev1.Pod, name string) string {
	h.settle()
	return seen(h.Objects(pod).ConfigMaps, name, func(m *corev1.ConfigMap) string { return m.Data["k"] })
}

func (h *harness) expect(pod *corev1.Pod, name, want string) {
	h.t.Helper()
	if got := h.value(pod, name); got != want {
		h.t.Fatalf("%s sees %q of %s, want %q", pod.Name, got, name, want)
	}
}

func seen[K comparable, T any](known map[K]resolve.Object[T], key K, text func(T) string) string {
	o, ok := known[key]
	switch {
	case !ok:
		return "unknown"
	case o.Err != nil:
		return "error: " + o.Err.Error()
	}
	return text(o.Value)
}

// testPod is a pod whose container takes its environment from these ConfigMaps.
func testPod(name string, configMaps ...string) *corev1.Pod {
	c := corev1.Container{Name: "c"}
	for _, m := range configMaps {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: m},
		}})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{ServiceAccountName: "sa", Containers: []corev1.Container{c}},
	}
}

// mount adds a volume that the pod's container mounts.
func mount(pod *corev1.Pod, name string, source corev1.VolumeSource) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
}

func forbidden(resource, name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name,
		fmt.Errorf("no relationship found between node 'n' and this object"))
}

func TestManyPodsShareOneWatch(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		var pods []*corev1.Pod
		for i := range 1000 {
			pods = append(pods, testPod(fmt.Sprint(i), "m"))
			h.Set(pods[i])
		}
		for _, pod := range pods {
			h.expect(pod, "m", "1")
		}
		if l, w := h.count("list configmaps"), h.count("watch configmaps"); l != 1 || w != 1 {
			t.Errorf("%d lists, %d watches, want one each", l, w)
		}
		for _, pod := range pods {
			h.told(pod)
		}
		h.put("m", "2")
		for _, pod := range pods {
			if n := h.told(pod); n != 1 {
				t.Fatalf("pod %s was told %d times, want once", pod.Name, n)
			}
		}
		h.expect(pods[7], "m", "2")
		if got := h.Objects(pods[7]).ConfigMaps["m"].Value.ManagedFields; got != nil {
			t.Error("managed fields are kept")
		}
	})
}

func TestLastUserEndsTheWatch(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		a, b := testPod("a", "m"), testPod("b", "m")
		h.Set(a)
		h.Set(b)
		h.settle()
		h.Forget(a.UID)
		h.expect(a, "m", "unknown")
		h.told(a)
		h.told(b)
		h.put("m", "2")
		if h.expect(b, "m", "2"); h.told(b) != 1 || h.told(a) != 0 {
			t.Error("the pod that is left was not told")
		}
		h.Forget(b.UID)
		h.Forget(b.UID)
		h.Forget("never heard of")
		h.settle()
		if n := len(h.configMaps.objects); n != 0 || len(h.pods) != 0 {
			t.Errorf("%d objects, %d pods are left", n, len(h.pods))
		}
		h.put("m", "3")
		if n := h.told(b); n != 0 {
			t.Errorf("told %d times after it was forgotten", n)
		}
		// Back again: what changed meanwhile is seen.
		h.Set(b)
		h.expect(b, "m", "3")
	})
}

func TestChangedReferencesAreFollowed(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		h.put("n", "2")
		pod := testPod("a", "m")
		h.Set(pod)
		h.expect(pod, "m", "1")
		// An ephemeral container that an API server without generations added.
		debug := pod.DeepCopy()
		debug.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(testPod("x", "n").Spec.Containers[0]),
		}}
		h.Set(debug)
		h.expect(debug, "n", "2")
		for range 10 {
			h.Set(debug.DeepCopy())
		}
		if n := h.count("list configmaps"); n != 2 {
			t.Errorf("%d lists, want one for each ConfigMap", n)
		}
		h.Set(pod)
		h.expect(pod, "n", "unknown")
		// One that was added where somebody else has set a generation.
		pod, debug = pod.DeepCopy(), debug.DeepCopy()
		pod.Generation, debug.Generation = 1, 1
		h.Set(pod)
		h.Set(debug)
		h.expect(debug, "n", "2")
		h.Set(pod)
		h.settle()
		if len(h.configMaps.objects) != 1 {
			t.Error("what is no longer referred to is still watched")
		}
	})
}

// behaviour 21 of the image pull: pull secrets are Secrets too.
func TestSecretsOfEnvironmentAndPulls(t *testing.T) {
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"},
			Data:       map[string][]byte{"k": []byte(name)},
		}
	}
	bubble(t, func(h *harness) {
		pod := testPod("a")
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}, {Name: "both"}, {Name: "none"}, {}}
		mount(pod, "v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "both"}})
		h.Set(pod)
		h.settle()
		got := h.Objects(pod).Secrets
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{"both", "none", "pull"}) {
			t.Fatalf("holds %v", keys)
		}
		text := func(s *corev1.Secret) string { return string(s.Data["k"]) }
		for name, want := range map[string]string{"pull": "pull", "both": "both", "none": `error: secret "none" not found`} {
			if s := seen(got, name, text); s != want {
				t.Errorf("%s: %q, want %q", name, s, want)
			}
		}
		if !apierrors.IsNotFound(got["none"].Err) {
			t.Error("the error is not NotFound")
		}
		if h.Objects(testPod("b")).Secrets != nil {
			t.Error("a pod that was not Set has Secrets")
		}
	}, secret("pull"), secret("both"), secret("other"))
}

// What was Set before Run is read when it starts.
func TestSetBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		c := New(Config{Client: api, Node: "n"})
		pod := testPod("a", "m")
		c.Set(pod)
		c.Set(testPod("b", "x"))
		c.Forget("uid-b")
		synctest.Wait()
		if len(c.Objects(pod).ConfigMaps) != 0 {
			t.Error("something is known before Run")
		}
		stop := background.Run(t, c.Run)
		synctest.Wait()
		if err := c.Objects(pod).ConfigMaps["m"].Err; err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("error %v", err)
		}
		stop()
		lists := 0
		for _, a := range api.Actions() {
			if a.Matches("list", "configmaps") {
				lists++
			}
		}
		if lists != 1 {
			t.Errorf("%d lists, want none of what was forgotten before Run", lists)
		}
	})
}

// The claim of a volume that the backend makes is not read; others are.
func TestClaimsOfVolumesThatTheBackendMakesAreNotRead(t *testing.T) {
	pod := claimPod("a")
	mount(pod, "e", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	for made, want := range map[bool]int{false: 2, true: 1} {
		c := New(Config{Client: fake.NewClientset(), EphemeralVolumes: made})
		if claims := c.references(pod).Claims; len(claims) != want || claims[want-1].Name != "x" {
			t.Errorf("made by the backend %v: %v", made, claims)
		}
	}
}
