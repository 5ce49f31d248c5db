package resolve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHashes(t *testing.T) {
	base := corev1.Container{Name: "c", Image: "img:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}
	for name, tc := range map[string]struct {
		change        func(*corev1.Container)
		hash, backoff bool // they change
	}{
		"nothing":           {func(*corev1.Container) {}, false, false},
		"the image":         {func(c *corev1.Container) { c.Image = "img:2" }, true, true},
		"the name":          {func(c *corev1.Container) { c.Name = "d" }, true, true},
		"what it refers to": {func(c *corev1.Container) { c.Env[0].Value = "2" }, false, false},
		"behaviour 7, 10: resources, resized in place, reset the backoff only": {func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, false, true},
		"a defaulted field": {func(c *corev1.Container) { c.TerminationMessagePath = "/dev/termination-log" }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base.DeepCopy()
			tc.change(changed)
			if got := Hash(changed) != Hash(&base); got != tc.hash {
				t.Errorf("Hash changes: %v, want %v", got, tc.hash)
			}
			if got := BackoffHash(changed) != BackoffHash(&base); got != tc.backoff {
				t.Errorf("BackoffHash changes: %v, want %v", got, tc.backoff)
			}
		})
	}
}

func TestHashIsTheSameInEveryProcess(t *testing.T) {
	// It stands on the remote: another value would restart every container.
	if got, want := Hash(&corev1.Container{Name: "c", Image: "img:1"}), "e99bc2c91e91809c"; got != want {
		t.Errorf("Hash = %s, want %s", got, want)
	}
}
