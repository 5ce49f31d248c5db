package taskdef

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
)

// defaultRefresh is how often burstlet-agent looks for changed files.
const defaultRefresh = 5 * time.Minute

// refreshes is true for a pod whose files burstlet-agent keeps fresh: it reads them
// with the task's role.
func (t *translator) refreshes() bool {
	return t.refs.PodName != "" && t.set.taskRole != "" && t.cfg.TaskImage != ""
}

// refreshEvery is how often burstlet-agent looks: a new token, which comes when 80 %
// of the old one's life are over, must be there in time.
func refreshEvery(cfg Config, pod *corev1.Pod) time.Duration {
	every := cfg.Refresh
	if every == 0 {
		every = defaultRefresh
	}
	const share = 10
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if t := s.ServiceAccountToken; t != nil && t.ExpirationSeconds != nil {
				every = min(every, time.Duration(*t.ExpirationSeconds)*time.Second/share)
			}
		}
	}
	return max(every, ecsconfig.MinRefresh)
}
