package config

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What fields take, for Validate and for the schema that is made of the types
// (schema_test.go), which must say the same.
const (
	maxIdentity      = 512 // bytes, what the backends take
	minPercent       = 0   // of the disk of images
	maxPercent       = 100
	minStatusImages  = -1 // all
	minParallelPulls = 1
	minBurst         = 1
	minTaskStorage   = 21              // GiB, what Fargate takes
	maxTaskStorage   = 200             // GiB
	minRefresh       = 5 * time.Second // each look is a call
	minUnusedAfter   = time.Hour
)

func backends() []string { return []string{BackendSim, BackendCRI, BackendECS} }

func granularities() []string { return []string{GranularityContainer, GranularityPod} }

func architectures() []string { return []string{"X86_64", "ARM64"} }

func capacityTypes() []string { return []string{"on-demand", "spot"} }

func volumeTypes() []string { return []string{"gp3", "gp2", "io1", "io2", "st1", "sc1"} }

func filesystemTypes() []string { return []string{"ext3", "ext4", "xfs"} }

func logLevels() []string { return []string{"error", "warn", "info", "debug", "trace"} }

func logFormats() []string { return []string{FormatText, FormatJSON} }

func shutdownModes() []string { return []string{ShutdownLeave, ShutdownDrain} }

func taintEffects() []string {
	return []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}
}
