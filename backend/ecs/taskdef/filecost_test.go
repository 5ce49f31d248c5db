package taskdef

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// What a pod's own files cost, by hand: a look every 5 minutes, 8,760 of them a month, and a
// token of an hour that is renewed 912 times.
func TestFilesNote(t *testing.T) {
	token := func(life *int64) backend.LaunchSpec {
		source := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: life}},
		}}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "token", VolumeSource: source}}}}
		return backend.LaunchSpec{Pod: pod, Volumes: []backend.VolumeSpec{{
			Pod: pod, Name: "token", Source: source, Files: []backend.File{{Path: "token"}},
		}}}
	}
	bucket := Config{PayloadBucket: "payloads"}
	for name, tc := range map[string]struct {
		cfg  Config
		spec backend.LaunchSpec
		want string
	}{
		"no files": {spec: backend.LaunchSpec{Pod: &corev1.Pod{}}},
		// 0.40 + (8760+912+912) * 0.000005; (8760+912) * 0.0000004 + 912 * 0.000005
		"a token": {
			spec: token(nil), want: "in Secrets Manager, about $0.45 a month; with backend.ecs.payloadBucket it would be $0.008",
		},
		"in a bucket": {
			cfg: bucket, spec: token(nil),
			want: "in bucket payloads, about $0.008 a month; in Secrets Manager it would be $0.45",
		},
		// Three secrets, and looks every minute: 43,800, with 5,475 renewals.
		"the shortest": {
			cfg: bucket, spec: token(new(int64(600))),
			want: "in bucket payloads, about $0.047 a month; in Secrets Manager it would be $1.97",
		},
	} {
		if got := filesNote(tc.cfg, tc.spec); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
