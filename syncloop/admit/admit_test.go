package admit

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

func TestFields(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	app := func(f func(*corev1.Container)) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
		f(&pod.Spec.Containers[1])
		return pod
	}
	for _, tt := range []struct {
		field string
		pod   *corev1.Pod
	}{
		{"", app(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}} })},
		{"spec.containers[1].env[0].valueFrom", app(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}}
		})},
		{"spec.containers[1].envFrom", app(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{}} })},
		{"spec.containers[1].livenessProbe", app(func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{} })},
		{"spec.containers[1].readinessProbe", app(func(c *corev1.Container) { c.ReadinessProbe = &corev1.Probe{} })},
		{"spec.containers[1].startupProbe", app(func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{} })},
		{"spec.containers[1].lifecycle", app(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{} })},
		{"spec.containers[1].restartPolicy", app(func(c *corev1.Container) { c.RestartPolicy = &always })},
		{"spec.containers[1].restartPolicyRules", app(func(c *corev1.Container) {
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{}}
		})},
		{"spec.containers[1].terminationMessagePolicy", app(func(c *corev1.Container) {
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		})},
		{"spec.initContainers[0].restartPolicy", &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{RestartPolicy: &always}},
		}}},
		{"spec.ephemeralContainers", &corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{}}}}},
		{"spec.imagePullSecrets", &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{}}}}},
	} {
		t.Run(tt.field, func(t *testing.T) {
			var got, want []string
			for _, r := range Fields(tt.pod) {
				if got = append(got, r.Field); r.Why == "" {
					t.Errorf("%s does not say why", r.Field)
				}
			}
			if tt.field != "" {
				want = []string{tt.field}
			}
			if !slices.Equal(got, want) {
				t.Errorf("refuses %v, want %v", got, want)
			}
		})
	}
}

// TestSpacing: a controller that replaces refused pods at once makes few pods.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(backend.CheckFunc(func(*corev1.Pod) []backend.Refusal { return []backend.Refusal{{Field: "f", Why: "w"}} }))
		yes := true
		owned := func(owner types.UID) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &yes}}}}
		}
		start, pods := time.Now(), 0
		for time.Since(start) < 10*time.Minute {
			_, at := j.Judge(owned("rs"))
			pods++
			time.Sleep(time.Until(at))
		}
		if pods > 9 {
			t.Errorf("%d pods refused in ten minutes", pods)
		}
		if _, at := j.Judge(owned("other")); at.After(time.Now()) {
			t.Error("another controller's pod has to wait")
		}
		for range 3 {
			if _, at := j.Judge(&corev1.Pod{}); at.After(time.Now()) {
				t.Error("a pod of nobody has to wait")
			}
		}
		time.Sleep(30 * time.Minute)
		if _, at := j.Judge(owned("rs")); at.After(time.Now()) {
			t.Error("the spacing is never forgotten")
		}
	})
}
