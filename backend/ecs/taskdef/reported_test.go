package taskdef

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// burstlet-agent is told to tell where there is a queue, a role, and something to tell; its
// key stands in the overrides alone.
func TestAgentsAreToldWhatToReport(t *testing.T) {
	const queue, key = "https://sqs.eu-central-1.amazonaws.com/123456789012/q", "the-key"
	for name, tt := range map[string]struct {
		edit   func(*Config)
		probed bool
		want   string
	}{
		"all that it takes":      {func(*Config) {}, true, "app"},
		"no probe":               {func(*Config) {}, false, "-"},
		"no queue":               {func(c *Config) { c.EventQueueURL = "" }, true, ""},
		"no role":                {func(c *Config) { c.TaskRoleARN = "" }, true, ""},
		"exec is another matter": {func(c *Config) { c.NoExec = true }, true, "app"},
	} {
		cfg := fullConfig
		cfg.EventQueueURL = queue
		tt.edit(&cfg)
		pod := podOf("web", "run")
		if tt.probed {
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
			}
		}
		def, run, err := Translate(cfg, resolved(pod, 0), Refs{ReportKey: key}, nil)
		must(t, err)
		value := func(env []types.KeyValuePair, name string) string {
			if i := slices.IndexFunc(env, func(kv types.KeyValuePair) bool { return *kv.Name == name }); i >= 0 {
				return aws.ToString(env[i].Value)
			}
			return ""
		}
		agent := def.ContainerDefinitions[slices.IndexFunc(def.ContainerDefinitions, func(c types.ContainerDefinition) bool {
			return *c.Name == identity.AgentName
		})]
		wantQueue, wantKey := "", ""
		if tt.want != "" {
			wantQueue, wantKey = queue, key
		}
		wantLives := ""
		if tt.want != "" {
			wantLives = "app"
		}
		if got := value(agent.Environment, intask.EnvReportLives); got != wantLives {
			t.Errorf("%s: it tells of the lives of %q", name, got)
		}
		if got := value(agent.Environment, intask.EnvReportOf); got != strings.TrimPrefix(tt.want, "-") ||
			value(agent.Environment, intask.EnvReportQueue) != wantQueue {
			t.Errorf("%s: it tells of %q", name, got)
		}
		got := ""
		for _, o := range run.Overrides.ContainerOverrides {
			own := value(o.Environment, intask.EnvReportKey)
			if own != "" && *o.Name != identity.AgentName {
				t.Errorf("%s: container %s has the key", name, *o.Name)
			}
			got += own
		}
		if got != wantKey || value(agent.Environment, intask.EnvReportKey) != "" {
			t.Errorf("%s: its key is %q", name, got)
		}
	}
}
