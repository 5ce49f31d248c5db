package syncloop_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/sim"
)

// static is a static pod whose container runs argv.
func static(name string, uid types.UID, argv ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: uid, Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "a", Image: "busybox", Command: argv, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// runs says which pods run on the remote.
func (a *api) runs() (uids []string) {
	for _, f := range a.remote.Facts() {
		if f.Live {
			uids = append(uids, string(f.UID))
		}
	}
	return uids
}

// A static pod runs without the API, ends with its file, and makes room for its successor
// before that starts.
func TestStaticPodsRun(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		expect := func(step, want string) {
			t.Helper()
			if got := strings.Join(a.runs(), " "); got != want {
				t.Errorf("%s: %q runs, want %q", step, got, want)
			}
		}
		const stubborn = "trap '' TERM; sleep infinity"
		a.synced.Store(false)
		a.setStatic(static("p", "h1", "sh", "-c", stubborn))
		time.Sleep(5 * time.Second)
		expect("the API does not answer", "h1")
		a.synced.Store(true)
		a.source.EnqueueAll()
		a.create("q", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.setStatic(static("p", "h2", "sleep", "infinity"))
		time.Sleep(10 * time.Second)
		for _, uid := range a.runs() {
			if uid == "h2" {
				t.Error("the new contents run while the old ones do")
			}
		}
		time.Sleep(35 * time.Second)
		if got := strings.Join(a.runs(), " "); got != "h2 u" && got != "u h2" {
			t.Errorf("after its end: %q", got)
		}
		a.stop()
		a.start(a.remote.Backend())
		time.Sleep(time.Minute)
		if got := strings.Join(a.runs(), " "); got != "h2 u" && got != "u h2" {
			t.Errorf("after a restart: %q", got)
		}
		a.setStatic()
		time.Sleep(time.Minute)
		expect("without its file", "u")
	})
}
