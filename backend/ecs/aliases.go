package ecs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// What callers of this package need of the packages below it, by its name here.
type (
	// Rates are the prices of running Linux tasks, in US dollars an hour.
	Rates = fargate.Rates
	// EBS says how the volumes are made that pods want for themselves.
	EBS = taskdef.EBS
	// ImageConfig is what an image says of how it is run.
	ImageConfig = taskdef.ImageConfig
	// ImageConfigs looks up what images say of themselves.
	ImageConfigs = images.Configs
	// Preview is what a launch would become, without a call to AWS.
	Preview = taskdef.Preview
	// Annotation is one of those that a pod may have.
	Annotation = taskdef.Annotation
)

// Prefix is that of the annotations by which a pod chooses other than its node.
const Prefix = taskdef.Prefix

// Annotations are all that a pod may have under Prefix.
func Annotations() []Annotation { return taskdef.Annotations() }

// Explain says what a launch would become with a configuration. Errors: Unsupported and
// Invalid, as a launch has them.
func Explain(cfg Config, spec backend.LaunchSpec) (Preview, error) {
	return taskdef.Explain(cfg.Config, spec)
}

// Taken says, by path, what becomes of the fields of a pod that are set. Refused ones
// are among them.
func Taken(cfg Config, pod *corev1.Pod) map[string]string { return taskdef.Taken(cfg.Config, pod) }

// FieldRule says what becomes of a field where it is taken, by its path as in
// "containers[].image" or "securityContext.fsGroup"; empty for one that is refused.
func FieldRule(path string) string { return taskdef.FieldRule(path) }
