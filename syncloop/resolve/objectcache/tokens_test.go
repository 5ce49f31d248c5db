package objectcache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

const tokenRequests = "create serviceaccounts/token"

// The fake API server grants less than a year, as a real one may.
const (
	year    = 365 * 24 * 3600
	granted = 20 * 3600
)

// mint grants a token that tells what was asked for.
func (h *harness) mint(a clienttesting.CreateAction) (bool, runtime.Object, error) {
	r := a.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
	name := a.(clienttesting.CreateActionImpl).Name
	ref := r.Spec.BoundObjectRef
	h.mu.Lock()
	defer h.mu.Unlock()
	h.minted++
	ttl := *r.Spec.ExpirationSeconds
	if ttl == year {
		ttl = granted
	}
	r.Spec.ExpirationSeconds = &ttl
	r.Status = authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf(
			"%d %s/%s %v %s %s", h.minted, a.GetNamespace(), name, r.Spec.Audiences, ref.Name, ref.UID,
		),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(ttl) * time.Second)),
	}
	return true, r, nil
}

// tokenPod has a token in a volume v0, v1, … for each key.
func tokenPod(name string, keys ...resolve.TokenKey) *corev1.Pod {
	pod := testPod(name)
	for i, key := range keys {
		mount(pod, fmt.Sprintf("v%d", i), tokenVolume(key))
	}
	return pod
}

func tokenVolume(key resolve.TokenKey) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
		ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: key.Audience, ExpirationSeconds: &key.Expiration, Path: "token",
		},
	}}}}
}

var hour = resolve.TokenKey{Expiration: 3600}

func (h *harness) token(pod *corev1.Pod, key resolve.TokenKey) string {
	h.settle()
	o := h.Objects(pod)
	if o.Kept[key] {
		if _, ok := o.Tokens[key]; ok {
			h.t.Error("a kept token stands in Tokens too")
		}
		return "kept"
	}
	return seen(o.Tokens, key, func(t resolve.Token) string { return t.Value })
}

func (h *harness) expectToken(pod *corev1.Pod, key resolve.TokenKey, want string) {
	h.t.Helper()
	if got := h.token(pod, key); got != want {
		h.t.Fatalf("after %v: token %q, want %q", time.Since(h.began), got, want)
	}
}

// behaviour 17: only for audiences of the pod's own volumes.
func TestTokensOfThePodsVolumes(t *testing.T) {
	bubble(t, func(h *harness) {
		vault := resolve.TokenKey{Audience: "vault", Expiration: 600}
		pod := tokenPod("a", hour, vault, hour)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "unmounted", VolumeSource: tokenVolume(resolve.TokenKey{Audience: "x", Expiration: 600}),
		})
		h.Set(pod)
		h.settle()
		if n := h.count(tokenRequests); n != 2 {
			t.Fatalf("%d requests, want 2", n)
		}
		got := []string{h.token(pod, hour)[2:], h.token(pod, vault)[2:]}
		if want := []string{"ns/sa [] a uid-a", "ns/sa [vault] a uid-a"}; !slices.Equal(got, want) {
			t.Errorf("tokens %q, want %q", got, want)
		}
		if e := h.Objects(pod).Tokens[hour].Value.Expires; !e.Equal(h.began.Add(time.Hour)) {
			t.Errorf("expires %v", e)
		}
		if n := h.told(pod); n != 3 {
			t.Errorf("told %d times, want once for each token and the Services", n)
		}
		other := tokenPod("b", hour)
		h.Set(other)
		if got := h.token(other, hour); got != "3 ns/sa [] b uid-b" {
			t.Errorf("another pod's token is %q", got)
		}
	})
}

// behaviour 17: renewed at 80 % of their life or 24 h, jittered.
func TestTokensAreRenewedInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		ttl int64
		age time.Duration
	}{
		"ten minutes":                  {600, 8 * time.Minute},
		"an hour":                      {3600, 48 * time.Minute},
		"a day and a half":             {36 * 3600, 24 * time.Hour},
		"a year, of which it got less": {year, 16 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				key := resolve.TokenKey{Expiration: tt.ttl}
				pod := tokenPod("a", key)
				h.Set(pod)
				h.settle()
				h.told(pod)
				h.pass(tt.age - maxTokenJitter - time.Millisecond)
				if n := h.count(tokenRequests); n != 1 {
					t.Fatalf("%d requests before its time", n)
				}
				h.pass(maxTokenJitter + time.Millisecond)
				if n := h.count(tokenRequests); n != 2 || h.told(pod) != 1 {
					t.Fatalf("%d requests when its time has come, want 2 and one call of Changed", n)
				}
				h.pass(tt.age)
				h.expectToken(pod, key, "3 ns/sa [] a uid-a")
				h.Forget(pod.UID)
				h.pass(3 * tt.age)
				if n := h.count(tokenRequests); n != 3 {
					t.Errorf("%d requests for a forgotten pod", n-3)
				}
			})
		})
	}
}

func TestAFailedRenewalLeavesTheTokenWhileItIsGood(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := tokenPod("a", hour)
		h.Set(pod)
		h.settle()
		h.told(pod)
		h.fail(func(request string) error {
			if request == tokenRequests {
				return errors.New("down")
			}
			return nil
		})
		h.pass(59 * time.Minute)
		h.expectToken(pod, hour, "1 ns/sa [] a uid-a")
		if n := h.told(pod); n != 0 {
			t.Errorf("told %d times of what it need not know", n)
		}
		h.pass(3 * time.Minute)
		h.expectToken(pod, hour, `error: token "sa"/"ns"/"" expired and refresh failed: down`)
		if n := h.told(pod); n != 1 {
			t.Errorf("told %d times that it expired", n)
		}
		h.fail(nil)
		h.pass(2 * retryMax)
		h.expectToken(pod, hour, "2 ns/sa [] a uid-a")
	})
}

func TestAFailedFirstRequest(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "sa")
	bubble(t, func(h *harness) {
		h.fail(func(request string) error {
			if request == tokenRequests {
				return missing
			}
			return nil
		})
		pod := tokenPod("a", hour)
		h.Set(pod)
		h.told(pod) // of the Services
		h.pass(5 * time.Second)
		h.expectToken(pod, hour, "unknown")
		h.pass(time.Second)
		h.expectToken(pod, hour, `error: failed to fetch token: serviceaccounts "sa" not found`)
		if n := h.told(pod); n != 1 {
			t.Errorf("told %d times", n)
		}
		if got := h.times(tokenRequests)[:4]; !slices.Equal(got, []time.Duration{0, 10e6, 30e6, 70e6}) {
			t.Errorf("asked at %v", got)
		}
		h.fail(nil)
		h.pass(10 * time.Second)
		h.expectToken(pod, hour, "1 ns/sa [] a uid-a")
	})
}

func TestNoTokenForAPodThatIsGone(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, err := range map[string]error{
		"forbidden":     forbidden("serviceaccounts", "sa"),
		"no pod":        apierrors.NewNotFound(pods, "a"),
		"another's UID": apierrors.NewConflict(pods, "a", errors.New("the UID in the bound object reference does not match")),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod := tokenPod("a", hour)
				h.Set(pod)
				h.settle()
				h.told(pod)
				deleted := pod.DeepCopy()
				deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				h.Set(deleted)
				h.fail(func(string) error { return err })
				h.pass(50 * time.Minute)
				h.expectToken(deleted, hour, "1 ns/sa [] a uid-a")
				h.pass(24 * time.Hour)
				if n := h.count(tokenRequests); n != 2 || h.told(pod) != 0 {
					t.Errorf("%d requests, want one that fails and no word of it", n)
				}
			})
		})
	}
}

// behaviour 5: after a restart tokens are not all minted anew.
func TestAdoptedTokensAreKept(t *testing.T) {
	bubble(t, func(h *harness) {
		short := resolve.TokenKey{Audience: "s", Expiration: 600}
		pod := tokenPod("a", hour, short)
		h.Adopt(pod, map[string]time.Time{"v0": h.began.Add(-40 * time.Minute), "v1": h.began.Add(-11 * time.Minute)})
		h.Set(pod)
		h.expectToken(pod, hour, "kept")
		h.expectToken(pod, short, "1 ns/sa [s] a uid-a")
		h.pass(7 * time.Minute)
		h.expectToken(pod, hour, "kept")
		if n := h.count(tokenRequests); n != 1 {
			t.Fatalf("%d requests", n)
		}
		h.told(pod)
		h.pass(time.Minute)
		// The short one, minted at the start, is due at about the same time.
		if got := h.token(pod, hour); !strings.HasSuffix(got, " ns/sa [] a uid-a") {
			t.Errorf("when its time has come: %q", got)
		}
		if n := h.told(pod); n < 1 {
			t.Error("the pod was not told of the renewal")
		}
	})
}

func TestAKeptTokenThatCannotBeRenewed(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := tokenPod("a", hour)
		h.fail(func(string) error { return errors.New("down") })
		h.Adopt(pod, map[string]time.Time{"v0": h.began.Add(-50 * time.Minute)})
		h.pass(9 * time.Minute)
		h.expectToken(pod, hour, "kept")
		h.pass(3 * time.Minute)
		h.expectToken(pod, hour, `error: token "sa"/"ns"/"" expired and refresh failed: down`)
	})
}

func TestAdopt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		placed map[string]time.Duration // age by volume
		keys   []resolve.TokenKey
		want   string
		after  time.Duration // of the first request
	}{
		{"nothing was placed", nil, []resolve.TokenKey{hour}, "1 ns/sa [] a uid-a", 0},
		{"one of two volumes", map[string]time.Duration{"v1": 0}, []resolve.TokenKey{hour, hour}, "1 ns/sa [] a uid-a", 0},
		{
			"the elder of two volumes",
			map[string]time.Duration{"v0": 0, "v1": 18 * time.Minute},
			[]resolve.TokenKey{hour, hour},
			"kept", 30 * time.Minute,
		},
		{
			"by a clock that is ahead",
			map[string]time.Duration{"v0": -time.Hour},
			[]resolve.TokenKey{hour},
			"kept",
			48 * time.Minute,
		},
		{"another volume", map[string]time.Duration{"x": 0}, []resolve.TokenKey{hour}, "1 ns/sa [] a uid-a", 0},
		{
			"more than a day ago",
			map[string]time.Duration{"v0": 25 * time.Hour},
			[]resolve.TokenKey{{Expiration: 7 * 24 * 3600}},
			"1 ns/sa [] a uid-a", 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				placed := map[string]time.Time{}
				for name, age := range tt.placed {
					placed[name] = h.began.Add(-age)
				}
				pod := tokenPod("a", tt.keys...)
				h.Adopt(pod, placed)
				h.expectToken(pod, tt.keys[0], tt.want)
				h.pass(time.Hour)
				if first := h.times(tokenRequests)[0]; first > tt.after || first < tt.after-maxTokenJitter {
					t.Errorf("requested after %v, want %v", first, tt.after)
				}
			})
		})
	}
}

func TestWhatWasPlacedIsLost(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := tokenPod("a", hour)
		h.Adopt(pod, map[string]time.Time{"v0": h.began})
		h.expectToken(pod, hour, "kept")
		h.Adopt(pod, nil)
		h.expectToken(pod, hour, "1 ns/sa [] a uid-a")
		h.Adopt(pod, nil)
		h.Adopt(pod, map[string]time.Time{"v0": h.began.Add(-59 * time.Minute)})
		h.expectToken(pod, hour, "1 ns/sa [] a uid-a")
		if n := h.count(tokenRequests); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// Renewals of pods that started together do not come together, and never more
// than a few at once.
func TestRenewalsAreSpread(t *testing.T) {
	bubble(t, func(h *harness) {
		for i := range 200 {
			pod := tokenPod(fmt.Sprint(i), hour)
			pod.UID = types.UID(fmt.Sprint(i))
			h.Set(pod)
		}
		h.pass(50 * time.Minute)
		times := h.times(tokenRequests)[200:]
		if len(times) != 200 || times[199]-times[0] < maxTokenJitter/2 {
			t.Errorf("%d renewals within %v", len(times), times[len(times)-1]-times[0])
		}
	})
}

func TestATokenForAForgottenPodIsNotTold(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := tokenPod("a", hour)
		h.Set(testPod("first")) // the Services are watched
		h.settle()
		h.slow("create", "serviceaccounts")
		h.Set(pod)
		h.settle()
		h.Forget(pod.UID)
		h.pass(time.Hour)
		if n := h.told(pod); n != 0 || h.count(tokenRequests) != 1 {
			t.Errorf("told %d times, %d requests", n, h.count(tokenRequests))
		}
	})
}
