package objectcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

func service(ns, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 1}}},
	}
}

func serviceNames(o resolve.Objects) string {
	if !o.ServicesSynced {
		return "not synced"
	}
	var names []string
	for _, s := range o.Services {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	return fmt.Sprint(names)
}

// behaviour 20: service environment variables wait until Services were
// listed once.
func TestPodsWaitForServices(t *testing.T) {
	bubble(t, func(h *harness) {
		h.fail(func(request string) error {
			if request == "list services" && time.Since(h.began) < 10*time.Second {
				return errors.New("down")
			}
			return nil
		})
		pod := testPod("a")
		h.Set(pod)
		h.pass(5 * time.Second)
		if got := serviceNames(h.Objects(pod)); got != "not synced" {
			t.Fatalf("before the first list: %s", got)
		}
		h.told(pod)
		h.pass(time.Minute)
		if n := h.told(pod); n != 1 {
			t.Errorf("told %d times that Services were listed", n)
		}
	})
}

func TestServices(t *testing.T) {
	bubble(t, func(h *harness) {
		if n := h.count("list services"); n != 0 {
			t.Fatal("Services are read before a pod needs them")
		}
		pod, def, none := testPod("a"), testPod("b"), testPod("c")
		def.Namespace, none.Namespace = "default", "none"
		for _, p := range []*corev1.Pod{pod, def, none} {
			h.Set(p)
		}
		check := func(want map[*corev1.Pod]string) {
			t.Helper()
			h.settle()
			for p, want := range want {
				if got := serviceNames(h.Objects(p)); got != want {
					t.Errorf("%s sees %s, want %s", p.Namespace, got, want)
				}
			}
		}
		check(map[*corev1.Pod]string{
			pod: "[default/kubernetes ns/a]", def: "[default/kubernetes default/web]", none: "[default/kubernetes]",
		})
		if s := h.Objects(pod).Services[1]; s.Annotations != nil || s.Spec.ClusterIP != "10.0.0.1" || len(s.Spec.Ports) != 1 {
			t.Errorf("kept of a Service: %v", s)
		}
		tracker, gvr := h.api.Tracker(), corev1.SchemeGroupVersion.WithResource("services")
		if err := errors.Join(
			tracker.Create(gvr, service("ns", "b"), "ns"), tracker.Delete(gvr, "default", "kubernetes"),
		); err != nil {
			t.Fatal(err)
		}
		check(map[*corev1.Pod]string{pod: "[ns/a ns/b]", def: "[default/web]", none: "[]"})
		if err := tracker.Delete(gvr, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		check(map[*corev1.Pod]string{pod: "[ns/b]"})
		for i := range 100 {
			h.Set(testPod(fmt.Sprint(i)))
		}
		h.settle()
		if n := h.count("watch services"); n != 1 {
			t.Errorf("%d watches of Services", n)
		}
	}, service("ns", "a"), service("default", "web"), service("default", "kubernetes"), service("other", "x"))
}

func boundClaim(change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)) []runtime.Object {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "pvc"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{UID: "pvc"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	if change != nil {
		change(pvc, pv)
	}
	return []runtime.Object{pvc, pv}
}

func claimPod(name string) *corev1.Pod {
	pod := testPod(name)
	mount(pod, "v", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}})
	return pod
}

func (h *harness) claim(pod *corev1.Pod, name string) string {
	h.settle()
	return seen(h.Objects(pod).Claims, name, func(c resolve.Claim) string { return c.Source.HostPath.Path })
}

func TestClaims(t *testing.T) {
	type pvcT = *corev1.PersistentVolumeClaim
	type pvT = *corev1.PersistentVolume
	for _, tt := range []struct {
		name, want string
		change     func(pvcT, pvT)
	}{
		{"bound", "/data", nil},
		{
			"not bound", "error: error processing PVC ns/x: PVC is not bound",
			func(c pvcT, _ pvT) { c.Status.Phase = corev1.ClaimPending },
		},
		{
			"missing",
			`error: error processing PVC ns/x: failed to fetch PVC from API server: persistentvolumeclaims "x" not found`,
			func(c pvcT, _ pvT) { c.Name = "y" },
		},
		{
			"its volume is missing",
			`error: error processing PVC ns/x: failed to fetch PV pv from API server: persistentvolumes "pv" not found`,
			func(_ pvcT, v pvT) { v.Name = "y" },
		},
		{
			"its volume is another's",
			"error: error processing PVC ns/x: found PV object pv but its pv.Spec.ClaimRef.UID z does not point to " +
				"claim.UID pvc",
			func(_ pvcT, v pvT) { v.Spec.ClaimRef.UID = "z" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod := claimPod("a")
				h.Set(pod)
				h.pass(10 * time.Second)
				if got := h.claim(pod, "x"); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			}, boundClaim(tt.change)...)
		})
	}
}

func TestAClaimIsAskedForUntilItIsBound(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := claimPod("a")
		h.Set(pod)
		h.told(pod) // of the Services
		h.pass(time.Second)
		if got := h.claim(pod, "x"); got != "unknown" {
			t.Fatalf("after a second: %q", got)
		}
		h.pass(10 * time.Second)
		if got := h.claim(pod, "x"); !strings.HasPrefix(got, "error: ") || h.told(pod) != 1 {
			t.Fatalf("after 11 s: %q", got)
		}
		for _, o := range boundClaim(nil) {
			if err := h.api.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		h.pass(20 * time.Second)
		if got := h.claim(pod, "x"); got != "/data" || h.told(pod) != 1 {
			t.Fatalf("once it is bound: %q", got)
		}
		n := h.count("get persistentvolumeclaims")
		h.pass(time.Hour)
		if again := h.count("get persistentvolumeclaims"); again != n {
			t.Error("a bound claim is read again")
		}
		h.Forget(pod.UID)
	})
}

func TestAClaimNobodyCanMountIsToldAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := claimPod("a")
		h.Set(pod)
		h.settle()
		if err := h.Objects(pod).Claims["x"].Err; !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("error %v", err)
		}
	}, boundClaim(func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		v.Spec.MountOptions = []string{"ro"}
	})...)
}

func TestEachClaimIsLookedAtForItself(t *testing.T) {
	more := boundClaim(func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		c.Name, v.Name, c.Spec.VolumeName, v.Spec.HostPath.Path = "a-e", "pv2", "pv2", "/own"
		c.OwnerReferences = []metav1.OwnerReference{{UID: "uid-a", Controller: new(true)}}
	})
	bubble(t, func(h *harness) {
		pod := claimPod("a")
		mount(pod, "e", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
		h.Set(pod)
		if x, e := h.claim(pod, "x"), h.claim(pod, "a-e"); x != "/data" || e != "/own" {
			t.Errorf("claims %q and %q", x, e)
		}
	}, append(boundClaim(nil), more...)...)
}

func TestTheClaimOfAnEphemeralVolumeIsItsPods(t *testing.T) {
	for owner, want := range map[types.UID]string{
		"uid-a": "/data",
		"uid-z": "error: error processing PVC ns/a-v: PVC ns/a-v was not created for pod ns/a (pod is not owner)",
	} {
		bubble(t, func(h *harness) {
			pod := testPod("a")
			mount(pod, "v", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
			h.Set(pod)
			h.pass(10 * time.Second)
			if got := h.claim(pod, "a-v"); got != want {
				t.Errorf("owned by %s: %q, want %q", owner, got, want)
			}
		}, boundClaim(func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Name = "a-v"
			c.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		})...)
	}
}

func TestDifference(t *testing.T) {
	var gone, came []int
	difference([]int{1, 2, 3}, []int{2, 4}, func(i int) { gone = append(gone, i) }, func(i int) { came = append(came, i) })
	if !slices.Equal(gone, []int{1, 3}) || !slices.Equal(came, []int{4}) {
		t.Errorf("gone %v, came %v", gone, came)
	}
}

// gauge counts what goes on at once.
type gauge struct {
	mu                  sync.Mutex
	running, most, done int
}

func (g *gauge) last(d time.Duration) {
	g.mu.Lock()
	g.running++
	g.most = max(g.most, g.running)
	g.mu.Unlock()
	time.Sleep(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.done++
}

func TestFewRequestsAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		var tasks gauge
		h.Cache.mu.Lock()
		for range 5 * maxCalls {
			h.schedule(&task{run: func(context.Context) time.Duration {
				tasks.last(time.Second)
				return never
			}}, time.Now())
		}
		h.Cache.mu.Unlock()
		h.pass(5 * time.Second)
		if tasks.most != maxCalls || tasks.done != 5*maxCalls {
			t.Errorf("%d at once, %d done", tasks.most, tasks.done)
		}
	})
}

func TestFewListsAndWatchesAreAskedForAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		var asked gauge
		list, begin := h.configMaps.kind.list, h.configMaps.kind.watch
		h.configMaps.kind.list = func(
			ctx context.Context, ns string, o metav1.ListOptions,
		) ([]*corev1.ConfigMap, string, error) {
			asked.last(time.Second)
			return list(ctx, ns, o)
		}
		h.configMaps.kind.watch = func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			asked.last(time.Second)
			return begin(ctx, ns, o)
		}
		const pods = 5 * maxCalls
		for i := range pods {
			h.Set(testPod(fmt.Sprint(i), fmt.Sprint(i)))
		}
		h.pass(time.Minute)
		if asked.most != maxCalls || asked.done != 2*pods {
			t.Errorf("%d at once, %d done of %d", asked.most, asked.done, 2*pods)
		}
	})
}

// A watch that is never answered must not keep its place, nor be the end of it.
func TestAWatchThatIsNotAnsweredIsGivenUp(t *testing.T) {
	bubble(t, func(h *harness) {
		begin := h.configMaps.kind.watch
		h.configMaps.kind.watch = func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			if time.Since(h.began) < time.Hour {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return begin(ctx, ns, o)
		}
		pods := make([]*corev1.Pod, 2*maxCalls)
		for i := range pods {
			pods[i] = testPod(fmt.Sprint(i), fmt.Sprint(i))
			h.Set(pods[i])
		}
		h.pass(2 * time.Minute)
		for i, pod := range pods {
			if got := h.value(pod, fmt.Sprint(i)); got == "unknown" {
				t.Errorf("nothing is known of %d", i)
			}
		}
		h.pass(time.Hour)
		h.put("0", "1")
		h.expect(pods[0], "0", "1")
	})
}
