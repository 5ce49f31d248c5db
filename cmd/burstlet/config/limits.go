package config

import corev1 "k8s.io/api/core/v1"

// What fields take, for Validate and for the schema that is made of the types
// (schema_test.go), which must say the same.
const (
	maxIdentity      = 512 // bytes, what the backends take
	minPercent       = 0   // of the disk of images
	maxPercent       = 100
	minStatusImages  = -1 // all
	minParallelPulls = 1
	minBurst         = 1

	maxShutdownSeconds = 1 << 31 // of a group's, so that their sum is a duration
)

func backends() []string { return []string{BackendSim, BackendCRI, BackendECS} }

func granularities() []string { return []string{GranularityContainer, GranularityPod} }

func logLevels() []string { return []string{"error", "warn", "info", "debug", "trace"} }

func logFormats() []string { return []string{FormatText, FormatJSON} }

func otherProcesses() []string { return []string{OtherProcessReport, OtherProcessStop} }

func shutdownModes() []string { return []string{ShutdownLeave, ShutdownDrain} }

func taintEffects() []string {
	return []string{
		string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute),
	}
}
