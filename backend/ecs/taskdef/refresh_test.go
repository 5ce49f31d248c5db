package taskdef

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
)

// Tokens of short lives are looked for more often.
func TestFilesAreRefreshedInTimeForTokens(t *testing.T) {
	pod := podOf("a")
	for seconds, want := range map[int64]time.Duration{600: time.Minute, 3607: defaultRefresh, 10: ecsconfig.MinRefresh} {
		pod.Spec.Volumes = []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds}},
			}}}},
		}
		if got := refreshEvery(Config{}, pod); got != want {
			t.Errorf("a token of %d s: every %s, want %s", seconds, got, want)
		}
	}
}
