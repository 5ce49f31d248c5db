package taskdef

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// slotPeriod is how far apart renewals of one secret are at least.
const slotPeriod = 20 * time.Minute

// RenewEvery is how often the tokens of a pod are renewed (kubelet: when 80 % of their life
// are over); 0 without any.
func RenewEvery(pod *corev1.Pod) time.Duration {
	every := time.Duration(0)
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if t := s.ServiceAccountToken; t != nil {
				life := time.Hour // API, ServiceAccountTokenProjection: the default
				if t.ExpirationSeconds != nil {
					life = time.Duration(*t.ExpirationSeconds) * time.Second
				}
				if at := life * 4 / 5; every == 0 || at < every {
					every = at
				}
			}
		}
	}
	return every
}

// Slots is how many secrets a pod is to have in turn, for Secrets Manager's quota of
// versions.
func Slots(pod *corev1.Pod) int {
	every := RenewEvery(pod)
	if every <= 0 {
		return 1
	}
	return min(int((slotPeriod+every-1)/every), podfiles.MaxSlots)
}

// Prices of us-east-1 (AWS Secrets Manager pricing, Amazon S3 pricing, S3 Standard, on
// 2026-11-20). What a few KB of storage cost is nothing.
const (
	secretMonth = 0.40
	secretCall  = 0.05 / 10_000
	putCall     = 0.005 / 1_000
	getCall     = 0.0004 / 1_000
	month       = 730 * time.Hour
)

// filesNote says where the files of this pod alone are kept, and what that costs a month;
// empty for a pod without.
func filesNote(cfg Config, spec backend.LaunchSpec) string {
	if _, own := Files(spec); len(own) == 0 {
		return ""
	}
	slots, looks, renewals := float64(Slots(spec.Pod)), float64(month/refreshEvery(cfg, spec.Pod)), 0.0
	if every := RenewEvery(spec.Pod); every > 0 {
		renewals = float64(month / every)
	}
	// A look and a renewal read all slots; an object is one.
	secrets := slots*secretMonth + ((looks+renewals)*slots+renewals)*secretCall
	object := (looks+renewals)*getCall + renewals*putCall
	if cfg.PayloadBucket != "" {
		return fmt.Sprintf(
			"in bucket %s, about $%.3f a month; in Secrets Manager it would be $%.2f", cfg.PayloadBucket, object, secrets,
		)
	}
	return fmt.Sprintf(
		"in Secrets Manager, about $%.2f a month; with backend.ecs.payloadBucket it would be $%.3f", secrets, object,
	)
}
